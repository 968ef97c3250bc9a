"""When the CPU waits and the GPU idles, and which line of the user's made it so."""

from kernellab.analysis.document import analyse
from kernellab.traces.trace import Kind
from kernellab.traceview.source_lines import Frame, Sources, called, whose
from support.traced import GEMM, MUL, Program, Training


def test_a_range_outlives_the_python_call_that_began_it():
    run = Program()
    name, main = run.builder.name, run.builder.lane(run.thread)
    run.builder.add(Kind.PYTHON, name("own.py(1): <module>"), main, 0, 100_000)
    run.builder.add(Kind.PYTHON, name("torch/autograd/profiler.py(9): __enter__"), main, 1_000, 5_000)
    run.builder.add(Kind.RANGE, name("step_0"), main, 3_000, 80_000)
    run.builder.add(Kind.PYTHON, name("<built-in method item of Tensor object at 0x1>"), main, 20_000, 30_000)
    run.now = 25_000
    run.kernel(MUL, 5)
    run.wait()
    (point,) = analyse(run.trace())["sync_points"]
    assert (point["file"], point["call"], point["count"]) == ("own.py", "item", 1)


def test_each_line_that_waits_is_listed_once_with_the_idle_time_that_followed(tmp_path):
    training = Training(tmp_path, "print", gpu_us=20, steps=6)
    (point,) = analyse(training.trace)["sync_points"]
    assert (point["file"], point["line"], point["call"], point["count"]) == ("train.py", 18, "print", 6)
    assert point["cuda"] == ["cudaMemcpyAsync", "cudaStreamSynchronize"]
    assert point["pageable_copies"] == 12
    assert point["wait_us"] > 0
    assert 5 * 10 < point["idle_us"] < 6 * 60


def test_waits_without_python_are_named_by_operator():
    run = Program()
    for step in range(3):
        with run.range(f"step_{step}"):
            with run.operator("aten::mm"):
                run.kernel(GEMM, 50)
            run.item()
    document = analyse(run.trace())
    (point,) = document["sync_points"]
    assert (point["file"], point["call"]) == (None, "aten::item")
    assert document["findings"][0]["title"].startswith("aten::item makes the CPU wait")


def test_waits_seen_by_nsight_systems_are_named_by_the_range_they_are_in():
    run = Program("nsys")
    for step in range(3):
        with run.range(f"step_{step}"):
            run.kernel(GEMM, 50)
            with run.range("loss"):
                run.wait()
            run.wait("cudaDeviceSynchronize")
    calls = {point["call"] for point in analyse(run.trace())["sync_points"]}
    assert calls == {"cudaStreamSynchronize in loss", "cudaDeviceSynchronize in a step"}


def test_the_profilers_own_wait_is_nobodys_fault():
    run = Program()
    with run.python("own.py(1): <module>"):
        with run.operator("aten::mm"):
            run.kernel(GEMM, 500)
        with run.python("torch/profiler/profiler.py(900): stop"):
            run.wait("cudaDeviceSynchronize")
    assert analyse(run.trace())["sync_points"] == []


def test_gaps_know_what_the_cpu_was_doing(tmp_path):
    def causes(*slowed, gpu_us=20.0):
        found = analyse(Training(tmp_path, *slowed, gpu_us=gpu_us).trace)["idle"]
        return found["busy_fraction"], found["gaps"][0]["cause"], found["gaps"][0]["cpu"]

    for slowed, cause in (("loader", "loader"), ("host", "host"), ("print", "wait")):
        busy, found, _ = causes(slowed, gpu_us=30)
        assert found == cause
        assert 0 < busy < 1
    assert causes(gpu_us=2)[1] == "launch"
    assert "for data in loader" in causes("loader")[2]


def test_the_queue_is_deep_where_the_cpu_runs_ahead_and_empty_where_it_does_not(tmp_path):
    ahead, behind = (analyse(Training(tmp_path, gpu_us=us).trace)["idle"] for us in (60, 1))
    assert ahead["ahead_us"] > 1000
    assert max(one["kernels"] for one in ahead["queue"]) > 50
    assert behind["ahead_us"] < 5
    assert max(one["kernels"] for one in behind["queue"]) <= 2
    assert behind["launch_bound"]
    assert not ahead["launch_bound"]


def test_two_streams_are_busy_together_once():
    run = Program()
    with run.operator("aten::mm"):
        run.kernel(GEMM, 100, stream=7)
        run.kernel(GEMM, 100, stream=8)
    document = analyse(run.trace())
    assert document["summary"]["gpu_us"] == 200
    assert 100 < document["summary"]["gpu_busy_us"] < 110


def test_lines_are_told_apart_by_the_calls_around_them(tmp_path):
    body = ["for x in m:", "    a = x.item()", "    m.backward()", "    b = x.item()", "return a"]
    (tmp_path / "two.py").write_text("\n    ".join(["def train(m):", *body]))
    function = Sources([tmp_path]).function(Frame("two.py", 1, "train"))
    assert function.line(["item"], [], ["backward"]) == 3
    assert function.line(["item"], ["backward"], []) == 5
    assert function.line(["item"], ["backward"], ["__next__"]) == 5  # the loop comes round
    assert function.line(["backward"], [], []) == 4
    assert function.line(["__next__"], [], []) == 2
    assert function.line(["cpu"], [], []) is None
    assert Sources([tmp_path]).function(Frame("gone.py", 1, "train")) is None


def test_arithmetic_of_a_loop_that_came_round_is_not_looked_for_after_it(tmp_path):
    body = ["for _ in range(9):", "    y = (x @ x).relu()", "    x = y / y.norm()", "print(float(y.sum()) > min(a, b))"]
    (tmp_path / "own.py").write_text("\n    ".join(["def train(x):", *body]))
    function = Sources([tmp_path]).function(Frame("own.py", 1, "train"))
    assert function.statement(["norm", "relu"], ["relu", "norm"]) == 3
    assert function.statement(["norm"], ["sum"]) == 5
    assert function.statement([], ["relu"]) == 3


def test_arithmetic_is_looked_for_where_its_operator_is_written(tmp_path):
    setup = ["with open(path) as f: print(len(f.read()), min(f.read(), key=len))", "a = randn(500, 500)", "c = a @ a"]
    loop = ["for _ in range(9):", "    c = c @ a", "    d = min(max(len(c), 3), 4) - c"]
    (tmp_path / "own.py").write_text("\n".join([*setup, *loop]))
    function = Sources([tmp_path]).function(Frame("own.py", 1, "<module>"))
    assert function.statement([], [], "aten::matmul") == 5  # of two alike, the loop's
    assert function.statement([], [], "aten::sub") == 6
    assert function.statement([], [], "aten::unknown") == 1


def test_calls_of_objects_are_found_in_the_loop_they_are_made_in(tmp_path):
    setup = ["config = Config(3)", "model = Model(config).to(device)"]
    train = ["for _ in range(9):", "    optimizer.zero_grad()", "    model(x).loss.backward()", "    optimizer.step()"]
    (tmp_path / "train.py").write_text("\n".join([*setup, *train]))
    (tmp_path / "serve.py").write_text("\n".join([*setup, "for _ in range(9):", "    model(x)"]))
    training = Sources([tmp_path]).function(Frame("train.py", 1, "<module>"))
    assert training.line([""], ["", "step", "backward"], ["backward", "step", ""]) == 5
    assert training.line([""], ["step", "backward", ""], ["", "backward", "step"]) == 4
    serving = Sources([tmp_path]).function(Frame("serve.py", 1, "<module>"))
    assert serving.line([""], [], ["", "", ""]) == 4
    (tmp_path / "short.py").write_text("x = torch.randn(3)\nfor _ in range(9): y = f(x)")
    assert Sources([tmp_path]).function(Frame("short.py", 1, "<module>")).line([""], [], ["", "", "sum"]) == 2
    assert called("torch/_dynamo/eval_frame.py(1213): compile_wrapper") == ""  # of whatever was compiled


def test_a_script_named_like_a_module_of_python_is_the_users_all_the_same(tmp_path):
    script = tmp_path / "code.py"
    script.write_text("\n\nvalue.item()\n")
    run = Program(script=script)
    with run.python("code.py(1): <module>"), run.python("<built-in method item of Tensor object at 0x1>"):
        run.item()
    (point,) = analyse(run.trace())["sync_points"]
    assert (point["file"], point["line"], point["code"]) == ("code.py", 3, "value.item()")


def test_a_decorated_function_goes_by_the_name_it_is_called_by(tmp_path):
    script = tmp_path / "own.py"
    script.write_text("model = load()\ntokens = model.generate(prompt)\n")
    run = Program(script=script)
    with (
        run.python("own.py(1): <module>"),
        run.python("torch/utils/_contextlib.py(120): decorate_context"),
        run.python("rich/generation.py(9): generate"),
    ):
        run.item()
    (point,) = analyse(run.trace())["sync_points"]
    assert (point["line"], point["call"], point["code"]) == (2, "generate", "tokens = model.generate(prompt)")


def test_waits_that_no_python_call_made_are_found_by_what_could_have_made_them(tmp_path):
    script = tmp_path / "own.py"
    loop = ["y = model(x)", "seen += float(y)", "y.backward()", "if y > 3:", "    stop()"]
    script.write_text("\n    ".join(["while True:", *loop]))
    run = Program(script=script)
    with run.python("own.py(1): <module>"):
        for step in range(2):
            with run.range(f"step_{step}"):
                with run.module("Net_0"), run.operator("aten::mm"):
                    run.kernel(GEMM, 5)
                run.item()
                with run.python("torch/_tensor.py(9): backward"), run.operator("aten::mm"):
                    run.kernel(GEMM, 5)
                with run.operator("aten::is_nonzero"):
                    run.item()
    points = analyse(run.trace())["sync_points"]
    found = {(one["line"], one["code"], one["call"], one["count"]) for one in points}
    assert found == {(3, "seen += float(y)", "item", 2), (5, "if y > 3:", "is_nonzero", 2)}


def test_names_of_rows_say_whose_they_are():
    assert called("<built-in method item of Tensor object at 0x7f>") == "item"
    assert called("torch/_tensor.py(566): backward") == "backward"
    assert whose("torch/nn/modules/linear.py(130): forward") == 0
    assert whose("typing.py(359): inner") == 0
    assert whose("<built-in function print>") == 0
    assert whose("numpy/core.py(3): f") == 0
    assert whose("rich/console.py(3): f") == 1
    assert whose("kernellab/workloads/mlp.py(3): f") == 1
    assert whose("kernellab/collecting/session.py(3): f") == 0
    assert whose("my_model.py(3): f") == 2
    assert whose("/home/me/model.py(3): f") == 2
    assert whose("/usr/lib/python3.12/site-packages/torch/x.py(3): f") == 0
