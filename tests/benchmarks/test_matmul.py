"""benchmarks/matmul.py: what it runs, its model of the ladder, and the pages that it writes."""

import re

import pytest

from kernellab.gpumodel.device import Device
from support.benchmarks import load_script

matmul = load_script("matmul")
H200 = Device.from_database("h200")


def test_every_step_of_the_ladder_has_its_sizes():
    steps = [step.impl for step in matmul.steps_of("matmul")]
    assert set(matmul.REUSE) <= set(steps)
    assert {step for step in steps if step.startswith("cuda")} == {s for s in matmul.REUSE if s.startswith("cuda")}


def test_a_tile_is_reused_by_its_sides():
    assert matmul.intensity((1, 1), 4) == 0.25  # two operations for 8 bytes
    assert matmul.intensity((8, 8), 4) == 2
    assert matmul.intensity((128, 256), 2) == pytest.approx(85.33, abs=0.01)


@pytest.mark.parametrize(
    ("impl", "dtype", "limit"),
    [
        ("cuda-coalesced", "float32", "L1"),
        ("cuda-shared", "float32", "shared memory"),
        ("cuda-registers", "float32", "multiply-adds"),
        ("cuda", "float32", "multiply-adds"),
        ("cuda", "bfloat16", "L2"),
    ],
)
def test_what_limits_a_step(impl, dtype, limit):
    most, by = matmul.most_tflops(matmul.reuse_of(impl, dtype), dtype, H200)
    assert by == limit
    assert 0 < most <= H200.peak_matmul_tflops[dtype] * 1.001


def test_steps_are_commands_that_name_every_implementation():
    check, times, *_ = matmul.measuring_steps("1")
    assert "cuda-naive" in check.command[3]
    assert "triton-tf32" in check.command[3]
    assert "8192x8192x8192" in times.command[-3]
    for step in matmul.static_steps():
        assert "--static" in step.command
        assert not {"--seconds", "--timeout"} & set(step.command)


def test_a_page_without_records_says_how_to_get_them_and_is_drawn_the_same_again(tmp_path):
    page = matmul.draw(matmul.PAGE.read_text(), tmp_path)
    assert "python benchmarks/matmul.py OUT" in page
    assert "| `cuda-shared` | 8 | 0.25 | 8.36 | shared memory | – | – | – | – | – | no record |" in page
    assert matmul.draw(page, tmp_path) == page
    with pytest.raises(SystemExit, match="no place <!-- tf32 -->"):
        matmul.draw(page.replace("<!-- tf32 -->", ""), tmp_path)


def test_the_page_claims_no_figure_that_was_not_measured():
    """Until a record of a GPU is in the page, its measured columns are empty."""
    page = matmul.PAGE.read_text()
    measured = "- script: `benchmarks/matmul.py`" in page
    for row in re.findall(r"^\| `(?:cuda|triton|torch).*$", page, flags=re.M):
        cells = row.split(" | ")[6:10]
        assert measured or cells == ["–"] * 4, row


def case(**dims):
    return {"dims": dims, "dtype": "bfloat16", "options": {}, "layout": "contiguous", "device": "cuda"}


def series(impl, pass_name, times_us):
    entry = {"timer": "events", "cache": "cold", "pass": pass_name, "samples_us": times_us}
    return {
        "impl": impl,
        "case": case(B=8, D=8),
        "times": [{**entry, "rounds": list(range(len(times_us)))}],
        "derived": {"time": {"timer": "events", "cache": "cold"}},
    }


def test_the_gain_of_max_autotune_is_that_of_rounds_in_which_both_were_timed():
    plain = series("compile", "forward", [10.0 + n for n in range(12)])
    tuned = series("compile-max-autotune", "forward", [(10.0 + n) / 2 for n in range(12)])
    (line,) = matmul.gain_lines({"results": [plain, tuned]})
    assert line == "- max-autotune, B=8 D=8, forward: 2.000× (2.000–2.000) as fast"
    assert list(matmul.gain_lines({"results": [tuned]})) == []


def with_ratio(impl, size, median):
    base = {"median": median, "low": median, "high": median, "over": "torch"} if median else None
    return {"impl": impl, "case": case(M=size), "derived": {"speedup": {"baseline": base}}}


def test_goals_are_counted():
    results = [with_ratio("triton", 8, 0.96), with_ratio("triton", 9, None), with_ratio("cuda", 8, 0.6)]
    assert list(matmul.goal_lines({"results": results})) == [
        "triton, goal 0.95: reached at 1 of 5 sizes; missed at M=9: no time",
        "cuda, goal 0.9: reached at 0 of 5 sizes; missed at M=8: 0.600",
    ]
