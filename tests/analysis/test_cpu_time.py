"""In a program without a GPU, operators, Python, compilation and the data loader share the time."""

import json

import pytest

from kernellab.analysis.document import analyse
from kernellab.reporting.profiles.summary import lines
from support.traced import Program


@pytest.mark.parametrize("rows", ["none", "cpu"])
def test_a_trace_without_gpu_activity_gets_a_finding(rows):
    run = Program()
    if rows == "cpu":
        with run.python("own.py(1): <module>"), run.operator("aten::sort", us=500):
            pass
    document = analyse(run.trace())
    json.dumps(document)
    printed = lines(document)
    assert printed[0].startswith(
        "The trace contains no timed work" if rows == "none" else "CPU only: 100% of its time is aten::sort"
    )
    assert document["idle"]["busy_fraction"] is None
    assert document["notes"]
    if rows == "cpu":
        assert document["operators"][0]["self_cpu_us"] == pytest.approx(500, abs=1)
        assert document["findings"][0]["file"] == "own.py"


LOADED = """\
for epoch in range(3):
    for x, y in DataLoader(numbers, batch_size=4, num_workers=2, drop_last=True):
        for again in range(2):
            optimizer.zero_grad(); model(x).backward(); optimizer.step()
"""


@pytest.mark.parametrize("workers", [0, 2])
def test_a_loader_is_named_by_its_line_and_the_advice_depends_on_its_workers(tmp_path, workers):
    script = tmp_path / "own.py"
    script.write_text(LOADED)
    run = Program(script=script)
    with run.python("own.py(1): <module>"):
        for number in range(4):
            with run.range(f"step_{number}"):
                with run.python("torch/utils/data/dataloader.py(700): __next__"):
                    if workers:
                        with run.python("torch/utils/data/dataloader.py(1278): _try_get_data"):
                            run.host(900)
                    run.host(900)
                for called in ("zero_grad", "backward", "step") * 2:
                    with run.python(f"torch/somewhere.py(3): {called}"), run.operator("aten::mul", us=20):
                        pass
    first = analyse(run.trace())["findings"][0]
    assert (first["kind"], first["line"]) == ("loader", 2)
    assert first["title"].startswith("The data loader delays the program: for x, y in DataLoader(")
    assert "GPU" not in first["title"]
    assert ("workers are too slow" in first["do"]) == bool(workers)
    assert ("Give the DataLoader workers" in first["do"]) == (not workers)


def test_python_time_counts_beside_operators():
    run = Program()
    with run.python("own.py(9): main"):
        for _ in range(3):
            with run.python("own.py(2): slow"):
                run.host(900)
            with run.operator("aten::addmm", us=20):
                run.host(10)
    document = analyse(run.trace())
    printed = lines(document)
    assert printed[0] == "CPU only: 97% of its time is Python code in slow() (own.py:2); operators take 3%."
    assert document["findings"][0]["line"] == 2
    assert "2.79 ms in all" in printed[1]
    shares = "Operators take 3 % of the CPU's time, Python 97 %"
    assert printed[2] == f"{shares}; most of it aten::addmm, 100 % of the operators' time."


def test_calls_into_other_code_count_for_the_users_line(tmp_path):
    script = tmp_path / "own.py"
    script.write_text("import time\n\n\ndef main():\n    time.sleep(1)\n")
    run = Program(script=script)
    with run.python("own.py(4): main"), run.python("<built-in function sleep>"):
        run.host(1000)
    printed = lines(analyse(run.trace()))
    assert printed[0] == "CPU only: 100% of its time is Python code in time.sleep(1) at own.py:5; operators take 0%."
    assert "1 ms in all" in printed[1]


@pytest.mark.parametrize("folder", ["profiler", "running/programs", "collecting"])
def test_the_recorders_own_time_does_not_count_for_the_program(folder):
    run = Program()
    with run.python(f"kernellab/{folder}/script.py(30): run"):
        with run.python("own.py(4): main"):
            run.host(100)
        with run.python(f"kernellab/{folder}/session.py(9): _later"), run.python("threading.py(5): start"):
            run.host(900)
    assert lines(analyse(run.trace()))[0].startswith("CPU only: 100% of its time is Python code in main() (own.py:4)")
    run = Program()
    with run.python(f"kernellab/{folder}/session.py(9): _later"), run.python("threading.py(5): start"):
        run.host(900)
    assert lines(analyse(run.trace()))[0].startswith("The trace contains no timed work")


def test_unrecorded_time_between_operators_does_not_count_for_them():
    run = Program()
    for _ in range(2):
        with run.operator("aten::sort", us=100):
            pass
        run.host(600)
    with run.operator("aten::sort", us=100):
        pass
    printed = lines(analyse(run.trace()))
    assert printed[0] == "CPU only: 20% of its time is aten::sort; all operators take 20%."
    assert "the rest was not recorded" in printed[2]


def test_marks_of_torch_compile_are_not_work_and_compilation_is_reported():
    run = Program()
    with run.python("own.py(1): main"), run.python("torch/_dynamo/eval_frame.py(9): compile_wrapper"):
        entered = run.python("<built-in method __enter__ of torch._C._profiler.RecordFunctionFast object at 0x1>")
        entered.__enter__()
        with run.operator("dynamo", us=1), run.operator("_compile.compile_inner (dynamo_timed)", us=1):
            entered.__exit__(None, None, None)
            for _ in range(4):
                with run.python("torch/_dynamo/convert_frame.py(7): transform"), run.operator("aten::empty", us=50):
                    run.host(150)
        with run.python("own.py(5): f"), run.operator("aten::tanh", us=200):
            pass
    document = analyse(run.trace())
    cpu = document["cpu"]
    assert cpu["compiling_us"] == pytest.approx(800, abs=5)
    assert cpu["operators_us"] == pytest.approx(200, abs=1)
    parts = cpu["operators_us"] + cpu["python_us"] + cpu["compiling_us"]
    assert parts == pytest.approx(cpu["whole_us"], abs=1)
    printed = lines(document)
    assert printed[0].startswith("CPU only: 80% of its time is compiling, for main() (own.py:1)")
    assert any("compiling 80 %" in line for line in printed)


def test_compilation_is_named_by_its_longest_part_within_the_steps():
    run = Program()
    for function, us, step in (("early", 900, "warm_up"), ("short", 100, "step_0"), ("long", 400, "step_1")):
        called = run.python(f"own.py(3): {function}")
        with run.range(step), called, run.operator("_compile.compile_inner (dynamo_timed)", us=us):
            pass
    title = analyse(run.trace())["findings"][0]["title"]
    assert title.startswith(
        "CPU only: 100% of its time is compiling, for _compile.compile_inner (dynamo_timed)() in long()"
    )


def test_compilation_is_found_without_python_calls():
    run = Program()
    with run.operator("_compile.compile_inner (dynamo_timed)", us=400), run.operator("aten::empty", us=500):
        pass
    with run.operator("Torch-Compiled Region: 0/0", us=100):
        pass
    printed = lines(analyse(run.trace()))
    assert printed[0] == "CPU only: 90% of its time is compiling; operators take 10%."
    assert printed[3].startswith("Operators take 10 % of the CPU's time, compiling 90 %; most of it Torch-Compiled")


def _loading(heavy_us, **options):
    run = Program()
    with run.python("own.py(1): <module>"):
        for number in range(4):
            with run.range(f"step_{number}"):
                with run.python("torch/utils/data/dataloader.py(700): __next__"):
                    run.host(900)
                with run.python("own.py(6): heavy"):
                    run.host(heavy_us)
    return analyse(run.trace(), **options)


def test_the_largest_part_of_a_step_comes_before_the_loader():
    first, second = _loading(heavy_us=8000)["findings"]
    assert "Python code in heavy() (own.py:6)" in first["title"]
    assert second["kind"] == "loader"
    assert [finding["kind"] for finding in _loading(heavy_us=500)["findings"]] == ["loader"]


def test_a_step_has_its_time_without_the_profiler_if_that_is_known():
    printed = lines(_loading(heavy_us=300, plain_step_us=600.0))
    assert "takes 450 µs a step. Without it a step takes about 150 µs instead of 600 µs (75 % less)." in printed[0]
    assert _loading(heavy_us=8000, plain_step_us=600.0)["findings"][0]["step_us"] == pytest.approx(600)
    printed = lines(_loading(heavy_us=300))
    assert "takes 900 µs a step. Without it a step takes about 300 µs instead of 1.2 ms as profiled" in printed[0]


PRODUCTS = """\
def slow(a):
    for _ in range(20):
        a = a @ a
    return a


def fast(a):
    return a @ a
"""


def test_an_operator_is_named_by_the_line_with_most_of_its_time_not_by_its_longest_call(tmp_path):
    script = tmp_path / "own.py"
    script.write_text(PRODUCTS)
    run = Program(script=script)
    for _ in range(3):
        with run.python("own.py(1): slow"):
            for _ in range(20):
                with run.operator("aten::mm", us=100):
                    pass
        with run.python("own.py(7): fast"), run.operator("aten::mm", us=110):
            pass
    assert "for a = a @ a at own.py:3" in analyse(run.trace())["findings"][0]["title"]
