"""Two sides compared: real differences are found, equal code is not called different, and changed statuses count."""

import json

import pytest

from kernellab.base.errors import UserError
from kernellab.comparison.compare import Side, compare
from kernellab.comparison.document import to_json
from support.comparisons import random_run, run, timed_results, variation
from support.records import result

STEADY = [100.0 + i / 100 for i in range(20)]


def sides(before, after):
    return Side("a", before if isinstance(before, list) else [before]), Side(
        "b", after if isinstance(after, list) else [after]
    )


def compared(before, after, *, known=variation(), **options):  # noqa: B008 — never changed
    return compare(*sides(before, after), load=lambda machine: known, **options)


def verdicts(comparison):
    return {pair.key.result.impl: pair.verdict for pair in comparison.pairs}


# Times -------------------------------------------------------------------------------------------------


def test_a_slowdown_beyond_the_variation_is_found_and_nothing_else():
    comparison = compared(random_run(1), random_run(2, slower={3: 1.03}))
    assert verdicts(comparison) == {f"impl-{n}": "slower" if n == 3 else "not resolved" for n in range(10)}
    (slower,) = comparison.with_verdict("slower")
    assert 1 < slower.low < slower.ratio < slower.high
    assert slower.ratio == pytest.approx(1.03, abs=0.01)
    assert comparison.exit_code == 1


def test_a_speedup_is_found_and_is_no_failure():
    comparison = compared(random_run(1), random_run(2, slower={0: 0.95}), precision=0.05)
    assert verdicts(comparison)["impl-0"] == "faster"
    assert set(verdicts(comparison).values()) == {"faster", "same"}
    assert comparison.exit_code == 0


def test_what_is_within_the_precision_is_the_same():
    assert compared(run(result("f", STEADY)), run(result("f", STEADY)), precision=0.02).exit_code == 0


def test_an_unknown_variation_is_assumed_to_be_1_percent_and_resolves_less():
    pair = compared(run(result("f", STEADY)), run(result("f", [1.03 * us for us in STEADY])), known=None).pairs[0]
    assert (pair.verdict, pair.variation.source, pair.variation.relative) == ("not resolved", "assumed", 0.01)
    assert "differences up to ±3.7" in pair.reason


def test_more_pairs_need_clearer_evidence():
    widths = [compared(random_run(1, results=n), random_run(2, results=n)).pairs[0].half_width for n in (1, 10, 100)]
    assert widths[0] < widths[1] < widths[2] < 3 * widths[0]


def test_several_runs_a_side_resolve_more():
    before, after = [random_run(seed) for seed in range(4)], [random_run(seed) for seed in range(10, 14)]
    one, several = compared(before[0], after[0]), compared(before, after)
    assert several.pairs[0].half_width < 0.7 * one.pairs[0].half_width


def test_runs_that_scatter_more_than_the_stored_variation_are_not_believed_to_be_exact():
    runs = [run(result("f", [us * factor for us in STEADY])) for factor in (1.0, 1.02, 0.98, 1.01, 0.99, 1.0)]
    pair = compared(runs[:3], runs[3:]).pairs[0]
    assert pair.variation.relative > 0.01


def test_times_of_few_rounds_are_not_judged():
    (pair,) = compared(run(result("f", STEADY[:5])), run(result("f", [2 * us for us in STEADY[:5]]))).pairs
    assert (pair.verdict, pair.reason, pair.low) == ("not resolved", "fewer than 8 rounds in a run", None)


@pytest.mark.parametrize("known", [variation(), variation(0.005), variation(0.01), None])
def test_equal_code_is_hardly_ever_called_slower(known):
    """At most 1 comparison in 100, of ten results each; here half of that, because only `slower` is counted."""
    varies = known["cases"][0]["variation"] if known else 0.01
    alarms = sum(
        bool(
            compared(random_run(n, varies=varies), random_run(1000 + n, varies=varies), known=known).with_verdict(
                "slower"
            )
        )
        for n in range(60)
    )
    assert alarms <= 2


def test_three_percent_are_found_where_runs_vary_as_on_an_h200():
    found = sum(
        compared(random_run(n), random_run(1000 + n, slower={0: 1.03})).pairs[0].verdict == "slower" for n in range(40)
    )
    assert found >= 38


# Statuses ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("before", "after", "verdict", "code"),
    [
        ("ok", "wrong", "worse", 1),
        ("imprecise", "crashed", "worse", 1),
        ("skipped", "error", "worse", 1),
        ("wrong", "ok", "better", 0),
        ("wrong", "wrong", "failed before", 0),
        ("timeout", "wrong", "failed before", 0),
        ("ok", "unknown", "cannot tell", 3),
        ("ok", "skipped", "changed", 0),
        ("ok", "imprecise", "changed", 0),
    ],
)
def test_a_changed_status_counts(before, after, verdict, code):
    runs = [run(result("f", status=status, reason="because")) for status in (before, after)]
    comparison = compared(*runs)
    (change,) = comparison.changes
    assert (change.before.status, change.after.status, change.verdict) == (before, after, verdict)
    assert comparison.exit_code == code


def test_a_result_that_is_wrong_is_not_called_faster():
    before = run(result("f", STEADY))
    after = run(result("f", [us / 2 for us in STEADY], status="wrong", reason="wrong values"))
    comparison = compared(before, after)
    assert (comparison.pairs, comparison.exit_code) == ([], 1)


def test_the_worst_status_of_several_runs_counts():
    good, bad = run(result("f", STEADY)), run(result("f", status="crashed", reason="signal 11"))
    assert compared(good, [good, bad]).changes[0].after.reason == "signal 11"


def test_a_side_without_a_battery_is_compared_at_the_declared_cases():
    before, after = run(result("f", STEADY)), run(result("f", STEADY))
    trial = {"kind": "sizes", "case": before["results"][0]["case"], "layouts": {}, "values": {}, "of": "forward"}
    outcome = {
        "op": "f",
        "impl": "f",
        "number": 0,
        "interpreter": False,
        "trial": trial,
        "status": "wrong",
        "reason": "x",
    }
    before |= {"trials": [outcome], "stages": ["check", "battery", "time"]}
    assert compared(before, after).changes == []
    after["stages"] = before["stages"]
    assert compared(before, after).changes[0].verdict == "better"


def test_new_and_missing_results_are_listed_and_do_not_fail():
    comparison = compared(
        run(result("f", STEADY), result("old")), run(result("f", STEADY), result("new")), precision=0.05
    )
    assert [key.impl for key in comparison.only_before] == ["old"]
    assert [key.impl for key in comparison.only_after] == ["new"]
    assert comparison.exit_code == 0


def test_a_result_that_is_no_longer_timed_is_listed():
    comparison = compared(run(result("f", STEADY)), run(result("f")))
    assert [key.impl for key in comparison.untimed] == ["f"]


# What is refused, and what is warned of ----------------------------------------------------------------


def test_different_machines_are_refused_unless_told():
    runs = run(result("f", STEADY), machine="slow machine"), run(result("f", STEADY), machine="fast machine")
    with pytest.raises(UserError, match=r"a on slow machine; b on fast machine.*--across-machines"):
        compared(*runs)
    comparison = compared(*runs, across_machines=True, precision=0.05)
    assert comparison.warnings == ["the machines differ: slow machine before, fast machine after"]


def test_a_new_driver_is_another_version_and_not_another_machine():
    def on_gpu(driver, uuid="GPU-1"):
        made = run(result("f", STEADY), machine=f"NVIDIA H200 driver {driver}")
        made["machine"] |= {"device": "cuda:0", "name": f"NVIDIA H200 {uuid} driver {driver}"}
        made["environment"]["gpus"] = [{"name": "NVIDIA H200", "uuid": uuid, "driver": driver}]
        return made

    known = {"NVIDIA H200 driver 1": variation(machine="NVIDIA H200 driver 1")}
    comparison = compare(*sides(on_gpu("1"), on_gpu("2")), load=known.get)
    assert any("versions differ: driver 1 before, 2 after" in warning for warning in comparison.warnings)
    assert comparison.pairs[0].variation.source == "measured"
    boards = compare(*sides(on_gpu("1"), on_gpu("1", "GPU-2")), load=known.get)
    assert boards.warnings == [
        "the runs were on different boards of one model, and boards differ more than runs on one board do"
    ]


def test_runs_without_a_common_result_are_refused():
    other = result("f", STEADY) | {"op": "softmax"}
    with pytest.raises(UserError, match=r"no result in common, their ops are f and softmax"):
        compared(run(result("f", STEADY)), run(other))


def test_a_run_that_planned_nothing_is_refused():
    empty = run() | {"machine": {}}
    with pytest.raises(UserError, match="ended before anything was planned"):
        compared(empty, run(result("f")))


def test_versions_checks_seeds_and_unfinished_runs_are_warned_of():
    before = run(result("f", STEADY), python="3.11.2")
    after = run(result("f", STEADY), python="3.12.1", packages={"torch": "2.14"}) | {"seed": 1, "complete": False}
    after["stages"] = ["check", "battery", "time"]
    assert compared(before, after).warnings == [
        "versions differ: torch 2.13 before, 2.14 after, python 3.11.2 before, 3.12.1 after",
        "the checks differ (check before, check, battery after): statuses at the declared cases are compared",
        "the runs had different seeds, so their inputs differ",
        "a run after did not finish: results may be missing",
    ]


def test_a_run_compared_with_itself_is_warned_of():
    same = run(result("f", STEADY))
    assert compared(same, same).warnings == ["both sides are the same runs"]
    assert compared(same, run(result("f", [us + 1 for us in STEADY]))).warnings == []


def test_times_that_cannot_be_trusted_are_warned_of_and_marked():
    drifting = [100.0 + 5 * i for i in range(40)]
    comparison = compared(run(result("f", drifting)), run(result("f", STEADY)))
    assert not comparison.pairs[0].trusted
    assert any(warning.startswith("1 time before cannot be trusted: ") for warning in comparison.warnings)


def test_times_of_different_power_states_are_warned_of():
    def at(clock_mhz):
        timed = result("f", STEADY)
        timed["case"]["device"] = "cuda"
        timed["times"][0]["telemetry"] = {"sm_mhz": [clock_mhz] * 9, "throttle": [[]] * 9}
        return run(timed)

    assert compared(at(1980.0), at(1950.0)).warnings == []
    comparison = compared(at(1980.0), at(1530.0))
    expected = "1 time at another clock of the GPU, 1980 MHz before and 1530 MHz after for f f: "
    assert any(warning.startswith(expected) for warning in comparison.warnings)
    assert to_json(comparison)["pairs"][0]["clock_after_mhz"] == 1530.0


def test_another_choice_of_an_autotuner_is_marked():
    def tuned(block):
        built = {"seconds": 1.0, "tuned": [{"kernel": "k", "config": {"BLOCK": block}}]}
        return run(result("f", STEADY, built=built))

    assert not compared(tuned(64), tuned(64)).pairs[0].tuned_differently
    assert compared(tuned(64), tuned(128)).pairs[0].tuned_differently


# The document ------------------------------------------------------------------------------------------


def test_the_document_has_everything_and_is_json():
    comparison = compared(random_run(1), random_run(2, slower={3: 1.03}))
    document = json.loads(json.dumps(to_json(comparison), allow_nan=False))
    assert document["exit_code"] == 1
    assert len(document["pairs"]) == 10
    slower = document["pairs"][3]
    assert (slower["impl"], slower["verdict"], slower["pass"]) == ("impl-3", "slower", "forward")
    assert slower["variation"]["source"] == "measured"


def test_a_comparison_of_many_results_is_quick():
    import random

    rng = random.Random(1)
    runs = [run(*timed_results(rng, results=150)) for _ in range(2)]
    assert len(compared(*runs).pairs) == 150
