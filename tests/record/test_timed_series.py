"""Verdicts on times, comparisons, limits and energies of a GPU at its power limit."""

import pytest

from kernellab.record.reading import load
from kernellab.record.verdict import comparisons_hold, derive
from support.powered import CEILINGS, energy, powered, powered_record
from support.sample_records import sample_run


def derived(*results):
    return {result["impl"]: result["derived"] for result in derive(powered_record(*results))["results"]}


def test_the_comparison_is_trusted_where_the_times_are_not():
    a = derived(powered("a", 1800), powered("b", 1900))["a"]
    assert a["trust"]["verdict"] == "throttled"
    assert (a["speedup"]["fastest_other"]["verdict"], a["speedup"]["fastest_other"]["trust"]["verdict"]) == (
        "faster",
        "trusted",
    )
    assert comparisons_hold([a])


def test_without_the_order_the_comparison_inherits():
    a = derived(powered("a", 1800, order=False), powered("b", 1900, order=False))["a"]
    assert a["speedup"]["fastest_other"]["trust"]["verdict"] == "throttled"
    assert not comparisons_hold([a])


def test_a_difference_that_the_clock_explains_is_not_resolved():
    slow_clock, fast_clock = powered("a", 1800, clock=1480.0), powered("b", 1785, clock=1510.0)
    speedup = derived(slow_clock, fast_clock)["b"]["speedup"]["fastest_other"]
    assert speedup["trust"]["verdict"] == "uneven-clock"
    assert speedup["low"] < 1 < speedup["median"]
    assert speedup["verdict"] == "not resolved"


def test_the_power_state_is_that_of_the_telemetry():
    power = derived(powered("a", 1800))["a"]["power"]
    assert power == {"at_limit": True, "limit_w": 700.0, "power_w": 700.0, "clock_mhz": 1480.0}
    assert not derived(powered("a", 1800, cause="sw-thermal"))["a"]["power"]["at_limit"]


@pytest.mark.parametrize(("clock", "tflops"), [(1480.0, 603.0), (1730.0, 703.0), (1980.0, 803.0)])
def test_the_limit_is_the_matmul_rate_at_the_clock_while_timing(clock, tflops):
    limit = derived(powered("a", 1800, clock=clock))["a"]["limit"]
    assert limit["clock_mhz"] == clock + 7.5  # the median over its rounds
    assert limit["matmul_tflops"] == pytest.approx(tflops, rel=1e-3)
    assert limit["fraction"] == pytest.approx(2 * 8192**3 / tflops / 1e6 / 1800, rel=2e-3)


def test_without_clocks_the_limit_is_as_before():
    old = powered_record(powered("a", 1800))
    old["machine"]["ceilings"] = {key: CEILINGS[key] for key in ("copy_gbps", "matmul_tflops")}
    limit = derive(old)["results"][0]["derived"]["limit"]
    assert (limit["matmul_tflops"], limit["clock_mhz"]) == (800.0, None)
    unread = powered("a", 1800, order=False)
    unread["times"][0]["telemetry"] = None
    limit = derived(unread)["a"]["limit"]
    assert (limit["matmul_tflops"], limit["clock_mhz"]) == (800.0, None)


def test_energies_are_compared_with_the_implementations_that_times_are():
    verdicts = derived(powered("manual", 9000, 4.0), powered("a", 1800, 1.0), powered("b", 1801, 0.8))
    b = verdicts["b"]
    assert b["energy"]["median_j"] == pytest.approx(0.8, rel=1e-3)
    assert b["energy"]["idle_share"] == pytest.approx(120 / (0.8 / 1.5e-3), rel=1e-3)
    assert (b["energy_ratio"]["fastest_other"]["over"], b["energy_ratio"]["fastest_other"]["verdict"]) == ("a", "less")
    assert b["energy_ratio"]["baseline"]["median"] == pytest.approx(0.2)
    assert verdicts["a"]["energy_ratio"]["fastest_other"]["verdict"] == "more"
    assert verdicts["manual"]["energy_ratio"]["baseline"] is None


def test_energy_may_be_measured_beside_another_series_of_the_pass():
    entry = powered("a", 1800)
    entry["times"].append({**entry["times"][0], "cache": "warm", "energy": energy(0.5)})
    assert derived(entry)["a"]["energy"]["median_j"] == pytest.approx(0.5, rel=1e-3)
    assert derived(powered("a", 1800))["a"]["energy"] is None


def test_records_of_earlier_versions_have_verdicts_as_before():
    for result in derive(load(sample_run("run-gelu", "h200")))["results"]:
        verdict = result["derived"]
        if verdict["time"]:
            assert verdict["energy"] is None
            assert verdict["energy_ratio"] == {"baseline": None, "fastest_other": None}
            assert verdict["limit"]["clock_mhz"] is None
            for speedup in verdict["speedup"].values():
                assert speedup is None or speedup["trust"]["verdict"] == "trusted"
