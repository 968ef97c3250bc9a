"""A comparison of two traces is printed as one sentence and two tables."""

import pytest

from kernellab.analysis.comparison import compare
from kernellab.reporting.profiles.comparison import lines
from kernellab.traces import kineto
from support.terminal import set_terminal
from support.traced import MUL, Training


def test_the_first_line_has_the_times_and_the_largest_change(tmp_path):
    before, after = Training(tmp_path), Training(tmp_path, "gelu")
    printed = lines(compare(before.trace, after.trace), rows=3, name_width=30)
    assert "a step takes 2.1" in printed[0]
    assert printed[0].endswith("Largest change: aten::mul, +336 µs.")
    kernels = next(at for at, line in enumerate(printed) if line.startswith("kernels"))
    assert printed[kernels + 1].startswith(MUL[:29])
    assert lines(compare(before.trace, before.trace))[0].endswith("No operator's time changed.")


def test_the_first_line_says_whether_the_times_are_as_profiled(tmp_path):
    before, after = Training(tmp_path, steps=3).trace, Training(tmp_path, "host", steps=3).trace
    first = lines(compare(before, after))[0]
    assert "it took" in first
    assert ", both as profiled." in first
    before.metadata["kernellab"]["plain_step_us"] = 100.0
    after.metadata["kernellab"]["plain_step_us"] = 250.0
    assert "a step takes 250 µs, it took 100 µs, without the profiler." in lines(compare(before, after))[0]


@pytest.mark.parametrize("columns", [40, 60])
def test_a_narrow_terminal_keeps_the_column_of_changes(tmp_path, monkeypatch, columns):
    document = compare(Training(tmp_path, gpu_us=2).trace, Training(tmp_path, "gelu", gpu_us=2).trace)
    set_terminal(monkeypatch, columns)
    printed = lines(document)
    assert max(map(len, printed)) <= columns
    heads = [line for line in printed if line.startswith(("operators", "kernels"))]
    assert len(heads) == 2
    assert all("change" in line for line in heads)


def test_an_empty_trace_has_no_steps_to_compare(tmp_path):
    path = tmp_path / "empty.json"
    path.write_text('{"traceEvents": []}')
    empty, full = kineto.read(path), Training(tmp_path, gpu_us=2).trace
    for pair in ((empty, full), (full, empty)):
        assert lines(compare(*pair))[0].startswith("One of the traces has no steps to compare")
