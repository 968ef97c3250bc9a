"""Whether a ratio can be trusted apart from its times: each reason, and how often it is right on a simulated GPU."""

import random
from collections import Counter

import pytest

from kernellab.record.verdict import derive
from kernellab.stats.ratio_trust import Side, judge_ratio
from kernellab.stats.trust import summarise
from support.power import Load, SimulatedGpu, timed_record

ROUNDS = 120
THROTTLED = {"name": "throttled", "detail": "the clock was throttled (sw-power-cap) in 18 of 20 readings"}
MOVED = {"name": "clock-moved", "detail": "the SM clock moved between 1485 and 1980 MHz"}
CONTENDED = {"name": "contended", "detail": "1 other process used the GPU"}


def orders(names, seed=0):
    """Which implementation ran before each one, round by round, in random order."""
    rng, last, rounds = random.Random(seed), "", []
    for _ in range(ROUNDS):
        before = {}
        for name in rng.sample(names, len(names)):
            before[name], last = last, name
        rounds.append(before)
    return rounds


def sides(*, reasons=(), clocks=(1980.0, 1980.0), others=(), seed=1, factor=lambda number, before: 1.0, scatter=0.003):
    """Two implementations that are equally fast, but for `factor` of the second one."""
    rng, order = random.Random(seed), orders(["mine", "theirs", *others])
    common = [100.0 * rng.lognormvariate(0, 0.05) for _ in range(ROUNDS)]  # the clock moves, for both alike
    mine = {n: us * rng.lognormvariate(0, scatter) for n, us in enumerate(common)}
    theirs = {n: us * factor(n, order[n]) * rng.lognormvariate(0, scatter) for n, us in enumerate(common)}
    return [
        Side(name, times, {n: before[name] for n, before in enumerate(order)}, read_clocks(clock), list(reasons))
        for name, times, clock in (("mine", mine, clocks[0]), ("theirs", theirs, clocks[1]))
    ]


def read_clocks(clock):
    return {n: clock(n) if callable(clock) else clock for n in range(ROUNDS)} if clock else {}


def verdict(*pair, device="cuda"):
    return summarise(judge_ratio(*pair, device=device).reasons)


def test_what_falls_on_both_sides_alike_is_no_reason():
    assert verdict(*sides(reasons=[THROTTLED, MOVED])) == "trusted"
    assert verdict(*sides(reasons=[THROTTLED, MOVED], others=["third", "fourth"])) == "trusted"


def test_other_processes_may_hit_one_side_only():
    assert verdict(*sides(reasons=[CONTENDED])) == "contended"


def test_without_the_order_or_the_clocks_the_reasons_of_the_times_are_inherited():
    mine, theirs = sides(reasons=[THROTTLED, MOVED])
    old = [Side(side.impl, side.times_us, reasons=side.reasons) for side in (mine, theirs)]
    assert verdict(*old) == "throttled, clock-moved"
    without_clocks = sides(reasons=[THROTTLED], clocks=(None, None))
    assert verdict(*without_clocks) == "throttled"
    assert verdict(*sides(reasons=[], clocks=(None, None))) == "trusted"
    few = [
        Side(s.impl, {n: s.times_us[n] for n in range(12)}, s.before, s.clocks_mhz, s.reasons) for s in (mine, theirs)
    ]
    assert verdict(*few) == "throttled, clock-moved"


def test_a_clock_that_is_not_read_on_a_cpu_hides_nothing_that_the_rounds_show():
    drifted = {"name": "unsteady", "detail": "the last third of the rounds took 6 % more than the first"}
    assert verdict(*sides(reasons=[drifted], clocks=(None, None)), device="cpu") == "trusted"


def test_a_clock_that_differs_between_the_sides_is_found_and_part_of_the_interval():
    mine, theirs = sides(reasons=[THROTTLED], clocks=(1950.0, lambda n: 1980.0 - 15 * (n % 2)))
    judged = judge_ratio(mine, theirs, device="cuda")
    assert summarise(judged.reasons) == "uneven-clock"
    assert judged.reasons[0]["detail"].startswith("the SM clock was 1.1 % lower while it ran")
    low, high = judged.widen(1.0, 1.0)
    assert high == pytest.approx(1.0025 * 1972.5 / 1950, rel=1e-3)  # at one clock it would be faster by so much
    assert low == pytest.approx(1 / 1.0025)
    assert judge_ratio(theirs, mine, device="cuda").reasons[0]["detail"].startswith("the SM clock was 1.2 % higher")


def test_a_clock_that_scatters_equally_is_not_uneven():
    rng = random.Random(3)
    for _ in range(20):
        clocks = (lambda n: 1500 + 15 * rng.randrange(20),) * 2
        assert "uneven-clock" not in verdict(*sides(clocks=clocks))


@pytest.mark.parametrize("others", [[], ["third"], ["third", "fourth", "fifth"]])
def test_a_neighbour_that_slows_what_follows_is_found(others):
    def factor(number, before):
        return 1.03 if before["theirs"] == "mine" else 1.0

    judged = judge_ratio(*sides(others=others, factor=factor), device="cuda")
    assert summarise(judged.reasons) == "order-dependent"
    low, high = judged.widen(1.0, 1.0)
    assert low < 1 < high
    assert 1.01 < high / low < 1.05


def test_a_ratio_that_drifts_is_found():
    judged = judge_ratio(*sides(factor=lambda number, before: 1 + 0.03 * number / ROUNDS), device="cuda")
    assert summarise(judged.reasons) == "drifting"
    assert judged.reasons[0]["detail"].endswith("first and last third of the rounds")


def test_a_ratio_that_depends_on_the_clock_is_found():
    def clock(number):
        return 1500.0 if number % 3 else 1900.0

    judged = judge_ratio(
        *sides(clocks=(clock, clock), factor=lambda number, before: 1500 / clock(number)), device="cuda"
    )
    assert summarise(judged.reasons) == "clock-dependent"
    assert judged.reasons[0]["detail"] == "the ratio depends on the clock: 1 at 1500 MHz, 0.7891 at 1900 MHz"


def test_an_even_ratio_hardly_ever_has_a_reason():
    reasons = Counter(verdict(*sides(seed=seed, others=["third"], scatter=0.02)) for seed in range(200))
    assert reasons["trusted"] >= 196


# A simulated GPU at its power limit ---------------------------------------------------------------------

HOT, COOL = Load(1000, 900), Load(1000, 500)  # equally fast at any clock


def judged(monkeypatch, loads, seeds, *, control_s, drift=0.0, **options):
    """The verdicts on the first implementation over its fastest rival, with the trust of both, by run."""
    runs = []
    for seed in range(seeds):
        gpu = SimulatedGpu(control_s=control_s, drift=drift, seed=seed)
        derived = derive(timed_record(monkeypatch, gpu, loads, **options))["results"][0]["derived"]
        speedup = derived["speedup"]["fastest_other"]
        runs.append((speedup["verdict"], speedup["trust"]["verdict"], derived["trust"]["verdict"]))
    return runs


def called_different(runs):
    return sum(verdict in ("faster", "slower") and trust == "trusted" for verdict, trust, _ in runs)


def test_equal_implementations_are_not_called_different_whatever_the_controller_does(monkeypatch):
    runs = [
        run
        for control_s in (0.002, 0.004, 0.007, 0.02, 0.1)
        for loads in ({"a": HOT, "b": HOT}, {"a": HOT, "b": COOL}, {"a": HOT, "b": COOL, "c": Load(1200, 700)})
        for run in judged(monkeypatch, loads, 14, control_s=control_s)
    ]
    assert len(runs) == 210
    assert called_different(runs) <= 2
    assert sum(times != "trusted" for _, _, times in runs) >= 180  # the absolute times cannot be trusted


def test_three_percent_are_found_at_the_power_limit_and_trusted(monkeypatch):
    runs = judged(monkeypatch, {"a": HOT, "b": Load(1030, 900)}, 30, control_s=0.02)
    runs += judged(monkeypatch, {"a": HOT, "b": Load(1030, 900), "c": Load(1200, 500)}, 30, control_s=0.1)
    assert called_different(runs) >= 58
    assert sum("throttled" in times for _, _, times in runs) >= 50


def test_a_controller_as_fast_as_a_burst_gives_each_its_own_clock_which_is_found(monkeypatch):
    for options in ({}, {"clock_is_readable": False}):
        runs = judged(monkeypatch, {"a": HOT, "b": COOL}, 30, control_s=0.002, **options)
        found = "order-dependent" if options else "uneven-clock"
        assert sum(found in trust for _, trust, _ in runs) >= 20
        assert called_different(runs) == 0


def test_a_kernel_bound_by_memory_depends_less_on_a_clock_that_falls(monkeypatch):
    loads = {"a": Load(1000, 900), "b": Load(0, 900, fixed_us=1100)}
    runs = judged(monkeypatch, loads, 20, control_s=0.05, drift=0.3)
    assert sum(trust != "trusted" for _, trust, _ in runs) >= 18


def test_an_old_record_has_no_order_and_inherits(monkeypatch):
    gpu = SimulatedGpu(seed=1)
    loads = {"a": HOT, "b": HOT}
    record = timed_record(monkeypatch, gpu, loads, order_is_recorded=False, clock_is_readable=False)
    derived = derive(record)["results"][0]["derived"]
    assert derived["speedup"]["fastest_other"]["trust"]["verdict"] == derived["trust"]["verdict"] != "trusted"
