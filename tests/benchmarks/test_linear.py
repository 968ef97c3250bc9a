"""benchmarks/linear.py: its commands name what exists, and its page says which goals are missed."""

import pytest

from kernellab.declaration.case_request import CaseRequest, parse_shapes
from kernellab.declaration.kinds import match_names
from kernellab.declaration.targets import load, resolve
from support.benchmarks import BENCHMARKS, load_script
from support.records import timed

linear = load_script("linear")
STEPS = [*linear.steps(quick_check=False), *linear.tuning_steps()]


def option(step, name):
    return step.command[step.command.index(name) + 1] if name in step.command else None


@pytest.mark.parametrize("step", STEPS, ids=lambda step: step.name)
def test_every_command_names_implementations_and_sizes_that_exist(step):
    target = step.command[1].replace("benchmarks/", f"{BENCHMARKS}/")
    (op,) = load(resolve(target)).values()
    for pattern in (option(step, "--impl") or "manual").split(","):
        assert match_names(pattern, op.impls)
    for shape in (option(step, "--shape") or "").split(","):
        if shape:
            assert op.expand(CaseRequest(parse_shapes(shape), ["bfloat16"], {}, {}, False), "cuda")


def test_candidates_have_names_of_their_own():
    (gelu,) = load(resolve(f"{BENCHMARKS}/linear_tiles.py:linear_gelu")).values()
    (loss,) = load(resolve(f"{BENCHMARKS}/linear_tiles.py:linear_cross_entropy")).values()
    tiles = load_script("linear_tiles")
    assert sum("x" in name.removeprefix("triton-") for name in gelu.impls) >= len(tiles.gelu_launcher().CANDIDATES)
    assert {f"triton-{count}-chunks" for count in tiles.CHUNKS} <= loss.impls.keys()


def results(**microseconds):
    found = [timed(impl.replace("_", "-"), us) for impl, us in microseconds.items()]
    for one in found:
        time = {"median_us": microseconds[one["impl"].replace("-", "_")]}
        one["derived"] = {"passes": {"forward": {"time": time}, "both": {"time": time}}, "timing": {}, "reason": None}
        one["times"] = [one["times"][0], {**one["times"][0], "pass": "both"}]
        one["memory"] = {"both": {"allocated_bytes": 1000 if one["impl"] == "torch" else 200}}
    return found


def sized(size, pass_name="forward", **microseconds):
    return linear.Timed(size, pass_name, results(**microseconds))


def test_the_best_separate_kernel_is_the_one_to_beat():
    pairs = (("a", 106), ("b", 100), ("c", 100))
    slow, fast, other = (sized(size, torch=120, separate_cuda=110, triton=us) for size, us in pairs)
    assert fast.best(linear.SEPARATE) == "separate-cuda"
    assert fast.speedup("triton", "separate-cuda") == pytest.approx((1.1, 1.1), abs=1e-3)
    assert linear._gelu_misses([fast, other, slow]) == []
    (missed,) = linear._gelu_misses([fast, slow])
    assert "at 1 sizes, not 2" in missed
    assert "a: 1.038–1.038× separate" in missed


def test_the_loss_must_be_neither_slower_nor_take_a_quarter_of_the_memory():
    good = sized("a", "both", torch=100, triton=99)
    assert linear._loss_misses([good]) == []
    good.bytes["triton"] = 250
    slow = sized("a", "both", torch=100, triton=102)
    assert linear._loss_misses([good]) == ["linear_cross_entropy a takes 25.0% of torch's memory"]
    assert linear._loss_misses([slow]) == ["linear_cross_entropy a is 0.980–0.980× torch"]
    rows = list(linear._loss_table([good]))
    assert rows[2] == "| a | both | torch | 100 µs | – | 1000 B | 100.0% |"


def test_what_is_not_measured_is_missed(tmp_path):
    text, missed = linear.page(tmp_path)
    assert missed == [
        "gelu is not measured yet",
        "gelu-training is not measured yet",
        "loss is not measured yet",
        "check-gelu has not run",
        "check-loss has not run",
    ]
    assert "missed: loss is not measured yet" in text


def test_a_step_that_ended_with_verdicts_is_not_run_again(tmp_path):
    (tmp_path / "gelu").mkdir()
    assert not linear.is_done(tmp_path, linear.Step("gelu", ("bench",)))
    (tmp_path / "gelu" / "exit-code").write_text("1")
    assert linear.is_done(tmp_path, linear.Step("gelu", ("bench",)))
