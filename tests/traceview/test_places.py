"""The user's line around a moment is found in the source."""

import sys

import pytest

from kernellab.analysis.document import analyse
from kernellab.traces.trace import Kind
from support.traced import GEMM, MUL, Program


def test_a_range_does_not_hide_the_python_call_around_it():
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


def test_a_script_named_like_a_standard_module_is_the_users(tmp_path):
    script = tmp_path / "code.py"
    script.write_text("\n\nvalue.item()\n")
    run = Program(script=script)
    with run.python("code.py(1): <module>"), run.python("<built-in method item of Tensor object at 0x1>"):
        run.item()
    (point,) = analyse(run.trace())["sync_points"]
    assert (point["file"], point["line"], point["code"]) == ("code.py", 3, "value.item()")


def test_a_decorated_function_is_found_by_its_own_name(tmp_path):
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


def test_a_wait_without_a_python_row_is_located_by_code_that_can_cause_it(tmp_path):
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
    located = {(point["line"], point["code"], point["call"], point["count"]) for point in points}
    assert located == {(3, "seen += float(y)", "item", 2), (5, "if y > 3:", "is_nonzero", 2)}


@pytest.mark.parametrize("file", ["x" * 3000 + ".py", "nul\0.py", "antigravity.a.b/x.py", "../" * 50 + "x.py", "/.py"])
def test_impossible_file_names_are_not_imported_to_find_their_owner(file, tmp_path):
    run = Program(script=tmp_path / "own.py")
    with run.python(f"{file}(3): f"), run.python("<built-in method item of Tensor object at 0x1>"):
        run.item()
    assert len(analyse(run.trace())["sync_points"]) == 1
    assert "antigravity" not in sys.modules
