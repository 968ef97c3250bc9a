"""Verdicts: computed from records alone."""

import random
import subprocess
import sys

import pytest

from kernellab.record.verdict import RULES, derive, exit_code, regime
from kernellab.stats import intervals
from kernellab.stats.intervals import compare_ratio, median_interval
from kernellab.timing.timer import BurstTimer
from kernellab.timing.timers import TIMERS
from support.records import record, result


def derived(rec, impl):
    return next(r["derived"] for r in derive(rec)["results"] if r["impl"] == impl)


def test_the_interval_covers_the_median_as_often_as_it_says():
    rng = random.Random(1)
    for n in (10, 25, 60):
        covered = 0
        for _ in range(2000):
            low, high = median_interval([rng.lognormvariate(0, 1) for _ in range(n)])
            covered += low <= 1.0 <= high
        assert covered / 2000 >= 0.985


def test_more_samples_give_a_narrower_interval():
    rng = random.Random(2)
    draw = [rng.gauss(100, 5) for _ in range(400)]
    widths = [high - low for low, high in (median_interval(draw[:n]) for n in (10, 50, 400))]
    assert widths == sorted(widths, reverse=True)


@pytest.mark.parametrize(
    ("low", "high", "verdict"),
    [
        (1.01, 1.2, "faster"),
        (0.7, 0.99, "slower"),
        (0.997, 1.004, "same"),
        (0.9, 1.1, "not resolved"),
        (1.0, 1.002, "same"),
    ],
)
def test_a_ratio_becomes_a_verdict(low, high, verdict):
    assert compare_ratio(low, high) == verdict


def test_speedups_are_paired_by_round():
    # Both drift by the same factor of up to 3: only pairing shows that the ratio is always exactly 2.
    drift = [1 + i / 5 for i in range(10)]
    rec = record(result("manual", [200 * d for d in drift]), result("fast", [100 * d for d in drift]))
    speedup = derived(rec, "fast")["speedup"]["baseline"]
    assert (speedup["over"], speedup["verdict"]) == ("manual", "faster")
    assert (speedup["low"], speedup["median"], speedup["high"]) == pytest.approx((2, 2, 2))
    assert derived(rec, "manual")["speedup"]["fastest_other"]["verdict"] == "slower"


def test_the_fastest_other_implementation_must_be_right():
    rec = record(
        result("manual", [300.0] * 10),
        result("a", [100.0] * 10),
        result("b", [120.0] * 10),
        result("cheat", [1.0] * 10, status="wrong", reason="zeros"),
    )
    assert derived(rec, "a")["speedup"]["fastest_other"]["over"] == "b"
    assert derived(rec, "b")["speedup"]["fastest_other"]["over"] == "a"


def test_statuses_and_exit_codes():
    good, bad = result("a", [1.0] * 9), result("b", status="wrong", reason="zeros")
    skipped, unknown = result("c", status="skipped", reason="needs a GPU"), result("d", status="unknown", reason="?")
    unreached = {**result("e"), "check": None}
    assert exit_code(derive(record(good, skipped))) == 0
    assert exit_code(derive(record(good, bad))) == 1
    assert exit_code(derive(record(good, unknown))) == 3
    assert exit_code(derive(record(skipped))) == 3
    assert derived(record(unreached), "e")["status"] == "skipped"
    assert derived(record(bad), "b")["reason"] == "zeros"


def test_a_crash_while_timing_is_the_status():
    crashed = result("a")
    crashed["times"] = [{"pass": "forward", "status": "crashed", "reason": "SIGSEGV", "samples_us": [], "rounds": []}]
    assert (derived(record(crashed), "a")["status"], derived(record(crashed), "a")["reason"]) == ("crashed", "SIGSEGV")


def test_the_limit_is_the_slower_of_copying_and_multiplying():
    ceilings = {"copy_gbps": 100.0, "matmul_tflops": {"float32": 1.0}}
    moved = result("a", [20.0] * 9, cost={"bytes_read": 10**6, "bytes_written": 0, "flops": {"fp32": 10**12}})
    limit = derived(record(moved, ceilings=ceilings), "a")["limit"]
    assert (limit["bound"], limit["roof_us"], limit["fraction"]) == ("memory", pytest.approx(10), pytest.approx(0.5))
    multiplied = result("a", [20.0] * 9, cost={"bytes_read": 8, "bytes_written": 8, "flops": {"matmul": 16 * 10**6}})
    limit = derived(record(multiplied, ceilings=ceilings), "a")["limit"]
    assert (limit["bound"], limit["fraction"]) == ("matmul", pytest.approx(0.8))
    multiplied["case"]["dtype"] = "bfloat16"
    assert derived(record(multiplied, ceilings=ceilings), "a")["limit"]["bound"] is None


def test_build_time_is_the_first_call_beyond_an_ordinary_one():
    built = result("triton", [500_000.0] * 9, kind="triton", check={"first_call_s": 2.0})
    assert derived(record(built), "triton")["build_s"] == pytest.approx(1.5)
    assert (
        derived(record(result("torch", [1.0] * 9, kind="torch", check={"first_call_s": 2.0})), "torch")["build_s"]
        is None
    )


def test_verdicts_need_no_torch():
    code = "import sys, kernellab.record.verdict; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
    assert RULES == 7


def test_with_few_samples_nothing_is_resolved():
    rec = record(result("manual", [2.0] * 7), result("fast", [1.0] * 7))
    assert derived(rec, "fast")["speedup"]["baseline"]["verdict"] == "not resolved"


def test_ranks_of_the_interval_for_few_and_many_samples_and_times_of_zero():
    assert [intervals._rank(n, 0.01) for n in (8, 20, 100, 400, 999, 1000, 1100, 5000)] == [
        *(0, 3, 36, 173, 458),
        *(458, 506, 2408),
    ]
    assert derived(record(result("a", [0.0] * 9), result("b", [0.0] * 9)), "a")["speedup"]["fastest_other"] is None


PEAKS = {"pin_gbps": 1000.0, "l2_bytes": 0, "tflops": None}
COST = {"bytes_read": 10**9, "bytes_written": 0, "flops": {}}  # takes a millisecond at `pin_gbps`


def judged(timer="events", **cost):
    timed = result("a", [5.0] * 9, cost={**COST, **cost})
    timed["times"][0]["timer"] = timer
    rec = record(timed)
    rec["machine"]["peaks"] = PEAKS
    return derived(rec, "a")


def test_a_time_below_the_hardware_limit_is_wrong():
    assert judged()["status"] == "wrong"
    assert "implausible: 5 µs is not possible" in judged()["reason"]


def test_what_an_assumed_cost_rules_out_cannot_be_told_until_a_cost_is_declared():
    assumed = judged(assumed=True)
    assert assumed["status"] == "unknown"
    assert assumed["reason"].startswith("cannot tell: 5 µs is not possible: 1000 MB")
    assert assumed["reason"].endswith("if every byte is moved once: declare cost=")
    assert judged(assumed=True, bytes_read=10**6)["status"] == "ok"


def test_the_sum_of_two_passes_rules_nothing_out():
    both = result("a", [5.0] * 9)
    both["times"][0].update({"pass": "both", "timer": "events"})
    both["cost"] = {"both": {**COST, "assumed": True}}
    made = record(both)
    made["machine"]["peaks"] = PEAKS
    assert derived(made, "a")["status"] == "ok"
    both["times"][0]["pass"], both["cost"] = "backward", {"backward": {**COST, "assumed": True}}
    assert derived(made, "a")["reason"].endswith("declare grad_cost=")


def test_nobody_is_accused_by_a_timer_that_tells_no_duration():
    launched = judged(timer="launch")
    assert launched["status"] == "ok"
    assert launched["limit"]["gbps"] is None


def test_only_a_timer_of_the_host_measures_the_time_of_launches(monkeypatch):
    class Energy(BurstTimer):
        name, devices, is_duration, overhead_rank = "energy", ("cuda",), False, -1

    monkeypatch.setitem(TIMERS, "energy", Energy)
    timed = result("a", [8.0] * 9)
    timed["times"][0]["timer"] = "events"
    timed["times"].append({**timed["times"][0], "timer": "energy", "cache": "warm", "samples_us": [30.0] * 9})
    assert regime(timed, None) == []
    timed["times"].append({**timed["times"][1], "timer": "launch"})
    assert [entry["name"] for entry in regime(timed, None)] == ["launch-bound"]


def test_a_further_series_makes_an_implementation_wrong_but_not_failed():
    timed = result("a", [5.0] * 9)
    failed = {"pass": "forward", "timer": "graph", "cache": "cold", "status": "oom", "reason": "full"}
    timed["times"].append({**failed, "samples_us": [], "rounds": []})
    assert derived(record(timed), "a")["status"] == "ok"
    timed["times"][-1]["status"] = "wrong"
    assert derived(record(timed), "a")["status"] == "wrong"
