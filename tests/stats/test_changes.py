"""Change points: found where they were planted, and not where nothing changed. Every history is made from a seed."""

import math
import random

import pytest

from kernellab.stats.changes import find_changes

COMMITS, NOISE = 200, 0.01


def history(seed, runs=1, steps=None, commits=COMMITS, noise=NOISE):
    """Times of `runs` runs for each commit. `steps`: by how much the time grows at commits."""
    draw, level, groups = random.Random(seed), 10.0, []
    for commit in range(commits):
        level *= 1 + (steps or {}).get(commit, 0.0)
        groups.append([level * math.exp(draw.gauss(0, noise)) for _ in range(runs)])
    return groups


def planted(seed, runs, step=0.03):
    at = random.Random(-seed).randrange(20, COMMITS - 20)
    return at, find_changes(history(seed, runs, {at: step}))


@pytest.mark.parametrize(("runs", "distance"), [(1, 1), (5, 0)])
@pytest.mark.parametrize("step", [0.03, -0.03])
def test_a_planted_change_is_found_in_95_of_100_histories(runs, distance, step):
    found = 0
    for seed in range(100):
        at, changes = planted(seed, runs, step)
        found += any(abs(change.at - at) <= distance for change in changes)
    assert found >= 95


@pytest.mark.parametrize("runs", [1, 5])
def test_nothing_is_found_in_98_of_100_flat_histories(runs):
    assert sum(bool(find_changes(history(seed, runs))) for seed in range(100)) <= 2


def test_slow_drift_of_the_machine_is_seldom_a_change():
    alarms = 0
    for seed in range(100):
        draw, deviation, groups = random.Random(seed), 0.0, []
        for _ in range(COMMITS):
            deviation = 0.5 * deviation + draw.gauss(0, NOISE)
            groups.append([10 * math.exp(deviation)])
        alarms += bool(find_changes(groups))
    assert alarms <= 5


def test_the_size_of_a_change_lies_in_its_interval_and_its_place_among_its_places():
    sizes = places = 0
    for seed in range(100):
        at, changes = planted(seed, 1)
        (change,) = changes[:1]
        sizes += change.low <= 1.03 <= change.high
        places += change.earliest <= at <= change.latest
        assert change.low < change.ratio < change.high
        assert change.ratio == pytest.approx(change.after / change.before)
    assert sizes >= 95
    assert places >= 95


def test_several_changes_are_found_and_one_that_was_undone_soon():
    changes = find_changes(history(1, steps={30: 0.05, 100: -0.05, 150: 0.10, 158: 1 / 1.10 - 1}, runs=3))
    assert [change.at for change in changes] == [30, 100, 150, 158]
    assert [change.ratio > 1 for change in changes] == [True, False, True, False]


def test_a_single_run_that_stands_out_is_no_change_wherever_it_is():
    for at in (0, 1, 50, 198, 199):
        groups = history(2)
        groups[at] = [13.0]
        assert find_changes(groups) == []


def test_two_last_runs_that_agree_are_a_change():
    groups = history(3)
    groups[-2:] = [[13.0], [13.1]]
    assert [change.at for change in find_changes(groups)] == [198]


def test_two_commits_with_many_runs_are_enough_and_a_few_runs_are_not():
    assert [change.at for change in find_changes(history(4, runs=20, steps={1: 0.03}, commits=2))] == [1]
    assert find_changes(history(4, runs=2, steps={1: 0.03}, commits=2)) == []


def test_runs_of_one_commit_that_resemble_each_other_do_not_pass_for_many():
    alarms = 0
    for seed in range(100):
        draw = random.Random(seed)
        levels = [10 * math.exp(draw.gauss(0, NOISE)) for _ in range(50)]  # of the machine on that day
        groups = [[level * math.exp(draw.gauss(0, NOISE / 10)) for _ in range(10)] for level in levels]
        alarms += bool(find_changes(groups))
    assert alarms <= 5


def test_differences_below_the_precision_are_no_change():
    assert find_changes(history(5, steps={100: 0.004}, noise=0.0005)) == []
    assert len(find_changes(history(5, steps={100: 0.006}, noise=0.0005))) == 1


@pytest.mark.parametrize("groups", [[], [[1.0]], [[1.0], [2.0]], [[1.0]] * 50, [[0.01], [1e9], [0.01], [1e9]]])
def test_series_that_are_short_or_constant_have_no_change(groups):
    assert find_changes(groups) == []


def test_a_clean_step_of_a_coarse_timer_is_found():
    assert [change.at for change in find_changes([[10.0]] * 10 + [[11.0]] * 10)] == [10]


def test_times_that_cannot_be_are_no_error():
    (change,) = find_changes([[1e-320]] * 20 + [[1e308]] * 20)
    assert change.at == 20
    assert math.isfinite(change.high)
    assert find_changes([[1e-320], [1e308]] * 20) == []


def test_the_same_series_has_the_same_changes():
    groups = history(6, steps={100: 0.03})
    assert find_changes(groups) == find_changes(groups)
