"""The timing engine: input sets, windows, rounds, looks, and what is caught while timing."""

import random
import statistics
import time
import weakref
from contextlib import nullcontext

import pytest
import torch

from kernellab.base.user_code import PACKAGE
from kernellab.build.cuda import kernel
from kernellab.stats.intervals import FIRST_LOOK, LOOKS, by_round, level, median_interval, share
from kernellab.timing.input_sets import InputSets
from kernellab.timing.rounds import Plan, Rounds, calls_per_window
from kernellab.timing.timers import Burst, ClockTimer, HostTimer, NotApplicable, timer_for
from kernellab.timing.work import Work
from support.klab import OPFILES

pytestmark = pytest.mark.clocked

CPU = torch.device("cpu")


def made_sets(count=4):
    generator = torch.Generator().manual_seed(0)
    sets = InputSets([{"x": torch.randn(64, generator=generator), "none": None} for _ in range(2)])
    sets.grow(count)
    return sets


# Input sets --------------------------------------------------------------------------------------------


def test_neighbouring_sets_differ_and_contents_change_places_in_place():
    sets = made_sets()
    before = [sets[i]["x"].clone() for i in range(4)]
    addresses = [sets[i]["x"].data_ptr() for i in range(4)]
    assert not torch.equal(before[0], before[1])
    assert torch.equal(before[0], before[2])
    assert len(set(addresses)) == 4
    sets.turn()
    assert [sets[i]["x"].data_ptr() for i in range(4)] == addresses
    assert torch.equal(sets[0]["x"], before[1])
    assert [sets.content(i) for i in range(4)] == [1, 0, 1, 0]


def test_one_changed_bit_shows_and_can_be_mended():
    sets = made_sets()
    assert bool(sets.intact(1))
    sets[1]["x"][-1] = torch.nextafter(sets[1]["x"][-1], torch.tensor(9.0))
    assert not bool(sets.intact(1))
    assert bool(sets.intact(0))
    sets.restore(1)
    assert bool(sets.intact(1))


def test_rows_that_change_places_show():
    sets = InputSets([{"x": torch.randn(8, 256)}])
    sets.grow(1)
    sets[0]["x"].copy_(sets[0]["x"].flip(0))
    assert not bool(sets.intact(0))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.int8, torch.float64, torch.bool])
def test_checksums_work_for_every_width_and_odd_sizes(dtype):
    sets = InputSets([{"x": torch.ones(13, dtype=dtype)}])
    sets.grow(1)
    assert bool(sets.intact(0))
    sets[0]["x"][12] = 0
    assert not bool(sets.intact(0))


def test_touching_moves_the_version_counter_only():
    sets = made_sets()
    version, values = sets[0]["x"]._version, sets[0]["x"].clone()
    sets.touch()
    assert sets[0]["x"]._version > version
    assert torch.equal(sets[0]["x"], values)


# Timers ------------------------------------------------------------------------------------------------


def recorder(sets, log, **more):
    def prepare(inputs):
        return lambda: log.append(inputs["x"].data_ptr()) or inputs["x"]

    return Work("f", sets, prepare, order=random.Random(0), **more)


def test_a_cold_window_uses_every_set_once_and_hands_over_any_of_its_results():
    sets, log, seen = made_sets(5), [], []
    timer = ClockTimer(CPU, "cold")
    work = recorder(sets, log)
    burst = timer.burst(work, windows=1, calls=4, lead=0, turn=False, after=lambda y, n: seen.append((y, n)))
    # A quick call goes first, on inputs of its own: emptying the cache has emptied it of the code too.
    assert sorted(log) == sorted(sets[i]["x"].data_ptr() for i in range(5))
    assert seen[0][0].data_ptr() == sets[seen[0][1]]["x"].data_ptr()
    for _ in range(30):
        timer.burst(work, windows=1, calls=4, lead=0, turn=False, after=lambda y, n: seen.append((y, n)))
    asked = {log.index(y.data_ptr(), 5 * i) - 5 * i for i, (y, _) in enumerate(seen)}
    assert asked == {1, 2, 3, 4}  # any of a window's results may be looked at
    assert len(burst.samples) == 1


def test_a_warm_window_repeats_one_set_after_a_call_that_is_not_timed():
    log = []
    timer = ClockTimer(CPU, "warm")
    burst = timer.burst(recorder(made_sets(), log), windows=2, calls=3, lead=1, turn=False, after=lambda y, n: None)
    assert len(log) == 1 + 2 * (1 + 3)
    assert len(set(log[1:5])) == len(set(log[5:])) == 1
    assert len(burst.samples) == 2


def test_a_way_that_changes_its_inputs_gets_them_written_anew():
    sets = made_sets(2)
    work = Work("f", sets, lambda inputs: lambda: inputs["x"].mul_(2), order=random.Random(0), restores=True)
    results = []
    for _ in range(5):
        ClockTimer(CPU, "cold").burst(
            work, windows=2, calls=1, lead=1, turn=False, after=lambda y, n: results.append((y.clone(), n))
        )
    for y, n in results:
        assert torch.equal(y, sets.masters[sets.content(n)]["x"] * 2)


def test_a_loop_is_not_timed_where_each_call_changes_its_inputs():
    work = Work("f", made_sets(2), lambda x: lambda: x["x"].mul_(2), order=random.Random(0), restores=True)
    with pytest.raises(NotApplicable):
        HostTimer(CPU, "warm").burst(work, windows=1, calls=20, lead=0, turn=False, after=lambda y, n: None)


def test_results_are_kept_apart_when_cold_and_not_when_warm():
    def most_alive(cache):
        alive, most = [], []

        def prepare(inputs):
            def call():
                y = torch.empty(8)
                alive.append(weakref.ref(y))
                most.append(sum(ref() is not None for ref in alive))
                return y

            return call

        work = Work("f", made_sets(4), prepare, order=random.Random(0))
        ClockTimer(CPU, cache).burst(work, windows=1, calls=4, lead=0, turn=False, after=lambda y, n: None)
        return max(most)

    assert most_alive("cold") >= 4
    assert most_alive("warm") <= 2


def test_the_clock_tells_the_time():
    work = Work("f", made_sets(2), lambda inputs: lambda: time.sleep(0.002), order=random.Random(0))
    for timer in (ClockTimer(CPU, "cold"), HostTimer(CPU, "warm")):
        burst = timer.burst(work, windows=3, calls=2, lead=0, turn=False, after=lambda y, n: None)
        assert 2000 <= statistics.median(burst.samples) < 4000
    assert timer_for(CPU).name == "clock"


@pytest.mark.bare
@pytest.mark.parametrize("arch", ["sm_75", "sm_90", "sm_120"])
def test_what_holds_a_stream_back_builds_for_every_gpu(arch):
    for name in ("hold", "nothing"):
        assert len(kernel(PACKAGE / "timing" / "hold.cu", name).compile(arch).code) > 1000


# Rounds ------------------------------------------------------------------------------------------------


class FakeTimer:
    """Hands out times from a distribution instead of measuring."""

    name, cache, least_calls = "fake", "cold", 1

    def __init__(self, means, noise):
        self.means, self.noise, self.bursts = means, noise, []
        self._random = random.Random(1)

    def burst(self, work, *, windows, calls, lead, turn, after):
        self.bursts.append((work.name, windows, calls, lead, turn))
        return Burst([self.means[work.name] * (1 + self._random.gauss(0, self.noise)) for _ in range(windows)])


class NoWitness:
    def after(self, work):
        return lambda result, number: None

    def judge(self, work, burst, *, timed):
        pass

    def clock(self):
        return None


def measured(means, noise, **plan):
    timer = FakeTimer(means, noise)
    sets = made_sets(2)
    works = {n: Work(n, sets, lambda x: lambda: None, order=random.Random(0)) for n in means}
    plan = Plan(**{"seconds": 30.0, **plan})
    rounds = Rounds(works, timer, plan, NoWitness(), lambda name: nullcontext(), seed=0)
    return rounds, timer, list(rounds)


def test_rounds_double_until_every_pair_is_decided():
    rounds, _, taken = measured({"a": 100.0, "b": 110.0}, 0.01)
    assert (rounds.decided, len(taken), rounds.looks) == (True, FIRST_LOOK, [FIRST_LOOK])
    rounds, _, taken = measured({"a": 100.0, "b": 100.6}, 0.02)
    assert rounds.decided
    assert len(taken) == rounds.looks[-1] > FIRST_LOOK


def test_the_time_budget_ends_what_cannot_be_decided():
    rounds, _, taken = measured({"a": 100.0, "b": 100.01}, 0.5, seconds=0.05, least=10)
    assert not rounds.decided
    assert len(taken) >= 10


def test_a_clear_answer_is_not_the_end_before_the_least_time():
    began = time.monotonic()
    rounds, _, taken = measured({"a": 100.0, "b": 200.0}, 0.01, least_seconds=0.2)
    assert time.monotonic() - began >= 0.2
    assert rounds.decided == (len(taken) == rounds.looks[-1])  # else time ended it, and has its error level


def test_order_windows_and_lead_in_are_random_and_everyone_is_in_every_round():
    _, timer, taken = measured({"a": 100.0, "b": 110.0, "c": 120.0}, 0.01)
    names = [name for name, *_ in timer.bursts]
    orders = {tuple(names[i : i + 3]) for i in range(0, len(names) - 2, 3)}
    assert len(orders) > 3
    assert all(set(order) == {"a", "b", "c"} for order in orders)
    assert {lead for *_, lead, _ in timer.bursts} == {0, 1}
    assert any(turn for *_, turn in timer.bursts)
    assert len({len(one["a"]) for one in taken}) > 2


def test_ways_of_like_speed_get_windows_of_like_length():
    rounds, _, _ = measured({"a": 120.0, "b": 130.0, "slow": 5000.0}, 0.001)
    assert rounds.calls["a"] == rounds.calls["b"] == calls_per_window(120.0) == 2
    assert rounds.calls["slow"] == 1
    assert calls_per_window(5.0) == 32
    assert calls_per_window(0.0) == 32


# Looks -------------------------------------------------------------------------------------------------


def test_the_looks_share_the_error_level():
    for looks in range(LOOKS + 1):
        spent = sum(0.01 * share(look) for look in range(1, looks + 1))
        assert 2 * level(looks, decided=False) + spent == pytest.approx(0.01)
        assert 0 < level(looks, decided=True) <= 0.0100001


def test_there_is_a_last_look():
    assert sum(share(look) for look in range(1, LOOKS + 1)) < 1
    rounds, _, taken = measured({"a": 100.0, "b": 100.0001}, 0.3, seconds=60.0, least=FIRST_LOOK * 2**LOOKS, most=1)
    assert len(taken) == FIRST_LOOK * 2**LOOKS
    assert len(rounds.looks) == LOOKS
    assert 0 < level(LOOKS, decided=False) < 0.01


def test_a_hold_that_gives_up_once_changes_nothing_and_twice_everybodys_windows():
    class Late(FakeTimer):
        def burst(self, work, **how):
            burst = super().burst(work, **how)
            burst.held = not (work.name == "a" and len(self.bursts) in self.late)
            return burst

    def calls(late):
        timer = Late({"a": 5.0, "b": 5.1}, 0.001)
        timer.late = late
        sets = made_sets(2)
        works = {n: Work(n, sets, lambda x: lambda: None, order=random.Random(0)) for n in ("a", "b")}
        rounds = Rounds(works, timer, Plan(seconds=0.2), NoWitness(), lambda name: nullcontext(), seed=0)
        list(rounds)
        return rounds.calls

    assert set(calls({3, 4}).values()) == {32}
    assert set(calls(range(3, 7)).values()) == {16}


def test_looking_often_does_not_cry_wolf_more_often():
    """Equal ways, 400 runs of up to five looks: a difference is claimed in at most 1 % of them, give or take."""
    rng = random.Random(7)
    alarms = 0
    for _ in range(400):
        ratios = []
        for look in range(1, 6):
            while len(ratios) < FIRST_LOOK * 2 ** (look - 1):
                ratios.append(1 + rng.gauss(0, 0.01))
            low, high = median_interval(ratios, level(look, decided=True))
            if low > 1 or high < 1:
                alarms += 1
                break
        else:
            low, high = median_interval(ratios, level(5, decided=False))
            alarms += low > 1 or high < 1
    assert alarms <= 10


def test_samples_of_a_round_count_once():
    assert by_round([1.0, 3.0, 5.0, 10.0], [0, 0, 0, 2]) == {0: 3.0, 2: 10.0}


# Caught while timing -----------------------------------------------------------------------------------

CHEATS = {
    "caches-by-pointer": "values looked at are wrong",
    "skips-every-second-call": "values looked at are wrong",
    "lazy-after-the-tenth-call": "values looked at are wrong",
    "mutates-its-input-later": "changed its input while it was timed",
    "returns-its-input-later": "returned the memory of its input x",
    "recompiles-per-call": "while timing",  # compiled in the timed region, or the limit of recompiles is hit
    "caches-by-value": "it remembers results",
    "caches-copies-by-value": "times as long on inputs it has not seen",
    "patches-torch": "replaced torch.add",
}


def test_ways_that_cheat_while_timed_are_caught_and_honest_ones_are_not(klab):
    seen = klab("bench", OPFILES / "cheats.py", "--seconds", "0.3", "--device", "cpu", "--json")
    assert seen.code == 1
    for impl, reason in CHEATS.items():
        derived = seen.result(impl)["derived"]
        assert derived["status"] == ("error" if impl.startswith("recompiles") else "wrong"), impl
        assert "while timing" in derived["reason"]
        assert reason in derived["reason"]
    assert "returned a Lazy, not a plain tensor" in seen.result("computes-when-looked-at")["derived"]["reason"]
    for impl in ("manual", "honest", "compile", "caches-by-version"):
        assert seen.result(impl)["derived"]["status"] == "ok", impl
        assert seen.result(impl)["derived"]["time"]["rounds"] >= 10
    # A cache keyed by version finds nothing. The least of each: whatever else this machine does comes on top.
    least = {n: min(seen.result(n)["times"][0]["samples_us"]) for n in ("honest", "caches-by-version")}
    assert least["caches-by-version"] > least["honest"] / 2
