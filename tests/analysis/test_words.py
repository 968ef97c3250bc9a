"""What is said of one trace, or of two that are compared, and how it fits the terminal."""

import sys
from pathlib import Path

import pytest

from kernellab.analysis.comparison import compare
from kernellab.analysis.summary import analyse
from kernellab.base.errors import UserError
from kernellab.reporting.profiles import ranks as rank_words
from kernellab.reporting.profiles import recording
from kernellab.reporting.profiles.comparison import lines as compared_lines
from kernellab.reporting.profiles.summary import lines
from kernellab.traces import kineto
from support.traced import GELU, MUL, Program, Training, named


def test_what_got_slower_comes_first(tmp_path):
    before, after = Training(tmp_path), Training(tmp_path, "gelu")
    found = compare(before.trace, after.trace)
    assert found["by"] == "gpu"
    assert found["step_us"]["ratio"] > 1
    slower, faster = found["kernels"][0], found["kernels"][-1]
    assert slower["name"] == MUL
    assert slower["b_us"] == 8 * 18 * 3
    assert slower["b_count"] == 144
    assert faster["name"] == GELU
    assert (faster["a_us"], faster["b_us"], faster["ratio"]) == (24, 0, 0)
    assert named(found["operators"], "aten::addmm")["change_us"] == 0
    told = compared_lines(found, rows=3, name_width=30)
    assert "a step takes 2.1" in told[0]
    assert told[0].endswith("Largest change: aten::mul, +336 µs.")
    kernels = next(at for at, line in enumerate(told) if line.startswith("kernels"))
    assert told[kernels + 1].startswith(MUL[:29])
    assert compared_lines(compare(before.trace, before.trace))[0].endswith("No operator's time changed.")


def test_steps_are_compared_without_the_profiler_where_both_are_known_so(tmp_path):
    before, after = Training(tmp_path, steps=3).trace, Training(tmp_path, "host", steps=3).trace
    assert "it took" in (told := compared_lines(compare(before, after))[0])
    assert ", both as profiled." in told
    before.about["kernellab"]["plain_step_us"] = 100.0
    assert compare(before, after)["step_us"]["as_profiled"]
    after.about["kernellab"]["plain_step_us"] = 250.0
    assert compare(before, after)["step_us"] == {"a": 100, "b": 250, "ratio": 2.5, "as_profiled": False}
    assert "a step takes 250 µs, it took 100 µs, without the profiler." in compared_lines(compare(before, after))[0]


def test_the_first_lines_answer_and_names_are_cut(tmp_path):
    document = analyse(Training(tmp_path, "print", gpu_us=10).trace)
    told = lines(document, rows=2, name_width=20)
    assert told[0].startswith("print(loss) at train.py:18 makes the CPU wait for the GPU in every step")
    assert "Without it a step takes about" in told[0]
    assert "" in told[:11]
    head = told.index("Operators")
    assert told[head + 2].startswith("aten::mm ")
    assert told[head + 4].startswith("… and")
    assert all(len(line.split("  ")[0]) <= 20 for line in told[head + 2 : head + 4])
    by_count = lines(document, sort="count")
    assert by_count[by_count.index("Operators") + 2].split()[1] == str(
        max(one["count"] for one in document["operators"])
    )


@pytest.fixture
def terminal(monkeypatch):
    def of(columns):
        monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
        monkeypatch.setenv("COLUMNS", str(columns))
        monkeypatch.setenv("TERM", "xterm")

    return of


@pytest.mark.parametrize("columns", [40, 60])
def test_a_narrow_terminal_gets_wrapped_sentences_and_narrow_tables(tmp_path, terminal, columns):
    document = analyse(Training(tmp_path, "print", gpu_us=2).trace)
    piped = lines(document)
    terminal(columns)
    told = lines(document)
    assert max(map(len, piped)) > 100
    assert max(map(len, told)) <= columns
    assert " ".join(" ".join(told).split()).startswith(" ".join(piped[0].split()))
    kernels = told[told.index("Kernels") :]
    assert kernels[1].split()[:3] == ["kernel", "runs", "GPU"]
    assert any(line.startswith("A wider terminal shows: ") for line in kernels[: kernels.index("")])
    assert not any("wider" in line for line in piped)
    compared = compared_lines(compare(Training(tmp_path, gpu_us=2).trace, Training(tmp_path, "gelu", gpu_us=2).trace))
    assert max(map(len, compared)) <= columns
    assert all("change" in line for line in compared if line.startswith(("operators", "kernels")))


@pytest.mark.parametrize("columns", [40, 60])
def test_what_is_said_around_a_profile_fits_a_narrow_terminal(terminal, columns):
    layers = [{"layer": "layer_0", "forward_us": 1234.5, "backward_us": 567.8}]
    rank = {"all_reduces": 9, "all_reduce_us": 2e5, "wait_us": 5e4, "collective_us": 9e5, "collectives": 9}
    ranks = [{**rank, "rank": number, "came_last": 3, "layers": layers} for number in range(4)]
    stretches = [{"phase": phase, "cycle": 1, "first": 0, "last": 99} for phase in ("wait", "warm-up", "active")]
    session = {"steps": stretches, "step_us": 13760.0, "plain_step_us": 10580.0, "notes": ["a " * 60], "traces": []}
    terminal(columns)
    together = rank_words.lines({"ranks": ranks, "matched": 9, "uneven": False})
    assert max(map(len, [*together, *recording.recording_lines(session, Path())])) <= columns
    layer = next(line for line in together if line.startswith("layer_0"))
    assert layer.count("1.234 ms + 567.8 µs") == layer.count("+") > 0  # figures are not cut
    assert "A wider terminal shows: " in "\n".join(together)


def test_of_many_ranges_the_dearest_are_shown_in_their_order():
    run = Program()
    with run.range("whole"):
        for number in range(50):
            with run.range(f"part {number}"):
                run.host(100 if number in (20, 30) else 1)
    told = lines(analyse(run.trace()), rows=3)
    told = told[told.index("Ranges, in total") :]
    assert [line.split("  1")[0].rstrip() for line in told[2:5]] == ["whole", "  part 20", "  part 30"]
    assert told[5:] == ["… and 48 more"]


def test_a_trace_of_nothing_says_so_once_and_compares_with_nothing(tmp_path):
    nothing = tmp_path / "nothing.json"
    nothing.write_text('{"traceEvents": []}')
    empty = kineto.read(nothing)
    told = "\n".join(lines(analyse(empty)))
    assert told.count("no events") == 1
    assert "1 ns" not in told
    some = Training(tmp_path, gpu_us=2).trace
    for pair in ((empty, some), (some, empty)):
        assert compared_lines(compare(*pair))[0].startswith("One of the traces has no steps to compare")


def test_an_unknown_order_is_refused_in_words():
    with pytest.raises(UserError, match="did you mean gpu"):
        lines(analyse(Program().trace()), sort="gpus")


def test_what_a_terminal_would_obey_is_not_passed_on():
    run = Program()
    with run.operator("aten::\x1b[2Jmm\n<script>"):
        run.kernel("kernel\x1b]0;title\x07" + "x" * 100_000, 5)
    told = lines(analyse(run.trace()))
    assert not any(c in "\x1b\x07\n" for line in told for c in line)
    assert max(map(len, told)) < 500
