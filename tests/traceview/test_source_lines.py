"""The source line of a call is found from the calls recorded around it."""

import pytest

from kernellab.traceview.source_lines import Frame, Owner, Sources, called_as, owner


def test_the_calls_around_it_decide_between_several_lines(tmp_path):
    body = ["for x in m:", "    a = x.item()", "    m.backward()", "    b = x.item()", "return a"]
    (tmp_path / "two.py").write_text("\n    ".join(["def train(m):", *body]))
    function = Sources([tmp_path]).function(Frame("two.py", 1, "train"))
    assert function.find_line(["item"], [], ["backward"]) == 3
    assert function.find_line(["item"], ["backward"], []) == 5
    assert function.find_line(["item"], ["backward"], ["__next__"]) == 5  # the loop starts over
    assert function.find_line(["backward"], [], []) == 4
    assert function.find_line(["__next__"], [], []) == 2
    assert function.find_line(["cpu"], [], []) is None
    assert Sources([tmp_path]).function(Frame("gone.py", 1, "train")) is None


def test_arithmetic_before_a_loop_starts_over_is_searched_inside_the_loop(tmp_path):
    body = ["for _ in range(9):", "    y = (x @ x).relu()", "    x = y / y.norm()", "print(float(y.sum()) > min(a, b))"]
    (tmp_path / "own.py").write_text("\n    ".join(["def train(x):", *body]))
    function = Sources([tmp_path]).function(Frame("own.py", 1, "train"))
    assert function.find_statement(["norm", "relu"], ["relu", "norm"]) == 3
    assert function.find_statement(["norm"], ["sum"]) == 5
    assert function.find_statement([], ["relu"]) == 3


def test_arithmetic_is_searched_where_its_operator_is_written(tmp_path):
    setup = ["with open(path) as f: print(len(f.read()), min(f.read(), key=len))", "a = randn(500, 500)", "c = a @ a"]
    loop = ["for _ in range(9):", "    c = c @ a", "    d = min(max(len(c), 3), 4) - c"]
    (tmp_path / "own.py").write_text("\n".join([*setup, *loop]))
    function = Sources([tmp_path]).function(Frame("own.py", 1, "<module>"))
    assert function.find_statement([], [], "aten::matmul") == 5  # of two candidates, the one in the loop
    assert function.find_statement([], [], "aten::sub") == 6
    assert function.find_statement([], [], "aten::unknown") == 1


def test_a_call_of_an_object_is_found_in_its_loop(tmp_path):
    setup = ["config = Config(3)", "model = Model(config).to(device)"]
    train = ["for _ in range(9):", "    optimizer.zero_grad()", "    model(x).loss.backward()", "    optimizer.step()"]
    (tmp_path / "train.py").write_text("\n".join([*setup, *train]))
    (tmp_path / "serve.py").write_text("\n".join([*setup, "for _ in range(9):", "    model(x)"]))
    training = Sources([tmp_path]).function(Frame("train.py", 1, "<module>"))
    assert training.find_line([""], ["", "step", "backward"], ["backward", "step", ""]) == 5
    assert training.find_line([""], ["step", "backward", ""], ["", "backward", "step"]) == 4
    serving = Sources([tmp_path]).function(Frame("serve.py", 1, "<module>"))
    assert serving.find_line([""], [], ["", "", ""]) == 4
    (tmp_path / "short.py").write_text("x = torch.randn(3)\nfor _ in range(9): y = f(x)")
    assert Sources([tmp_path]).function(Frame("short.py", 1, "<module>")).find_line([""], [], ["", "", "sum"]) == 2
    assert (
        called_as("torch/_dynamo/eval_frame.py(1213): compile_wrapper") == ""
    )  # the call of a compiled object has no name


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("torch/nn/modules/linear.py(130): forward", Owner.LIBRARY),
        ("typing.py(359): inner", Owner.LIBRARY),
        ("<built-in function print>", Owner.LIBRARY),
        ("numpy/core.py(3): f", Owner.LIBRARY),
        ("kernellab/profiler/session.py(3): f", Owner.LIBRARY),
        ("/usr/lib/python3.12/site-packages/torch/x.py(3): f", Owner.LIBRARY),
        ("rich/console.py(3): f", Owner.PACKAGE),
        ("kernellab/workloads/mlp.py(3): f", Owner.PACKAGE),
        ("my_model.py(3): f", Owner.USER),
        ("/home/me/model.py(3): f", Owner.USER),
    ],
)
def test_a_row_belongs_to_the_owner_of_its_file(name, expected):
    assert owner(name) is expected


def test_a_call_is_written_by_the_name_in_its_row():
    assert called_as("<built-in method item of Tensor object at 0x7f>") == "item"
    assert called_as("torch/_tensor.py(566): backward") == "backward"
