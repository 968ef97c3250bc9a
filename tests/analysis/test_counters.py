"""Counters of launches become a table beside the bytes an op declares."""

import pytest

from kernellab.analysis import counters
from kernellab.traces import ncu
from support.klab import HERE
from support.ncu_pages import COST, MB, details, launch, raw


def test_a_counter_that_was_not_collected_is_none():
    (softmax,) = ncu.launches((HERE / "samples" / "ncu-raw-softmax.csv").read_text())
    row = counters.launch_counters(softmax, [])
    assert (row["registers"], row["theoretical_occupancy_percent"], row["sms"]) == (52, 56.25, 132)
    assert row["duration_us"] is None
    assert row["limit"] is None


def test_the_possible_saving_is_the_largest_estimate_of_its_own_rules_for_the_whole_launch():
    rules = ncu.rules(
        details(
            (0, "A", "small", "OPT", "…", "global", "10"),
            (0, "B", "large", "OPT", "…", "global", "25"),
            (0, "C", "of a unit only", "OPT", "…", "local", "80"),
            (1, "D", "another launch's", "OPT", "…", "global", "90"),
        )
    )
    row = counters.launch_counters(ncu.launches(raw(launch(time=400.0)))[0], rules)
    assert (row["estimated_speedup_percent"], row["possible_improvement_us"]) == (25, 100)
    assert len(row["rules"]) == 3


def test_counted_bytes_are_compared_with_declared_ones_and_both_give_a_roofline():
    launches = ncu.launches(raw(launch(), launch(id=1, time=100.0, read=500.0, written=500.0, dram=90.0)))
    document = counters.impl_counters("triton", launches, [], COST, "float32")
    assert (document["counted_bytes"], document["fewest_bytes"], document["time_us"]) == (2980 * MB, 2000 * MB, 600)
    assert document["counted_to_fewest"] == pytest.approx(1.49)
    assert document["peak_gbps"] == pytest.approx(1980 / 500 * 1000 / 0.9)  # of the longer launch
    roofs = document["roofline"]
    assert roofs["counted"]["fraction"] / roofs["declared"]["fraction"] == pytest.approx(1.49)
    missing = ncu.launches(raw(launch(), launch(read="n/a")))
    assert counters.impl_counters("x", missing, [], COST, "float32")["counted_bytes"] is None


@pytest.mark.parametrize(
    ("counted", "limit"),
    [
        ({"memory": 90.0, "compute": 20.0}, "memory"),
        ({"memory": 30.0, "compute": 70.0}, "compute"),
        ({"memory": 30.0, "compute": 20.0}, "latency"),
        ({"memory": 1.0, "compute": 1.0, "blocks": 8}, "blocks"),
    ],
)
def test_the_limit_of_a_kernel_follows_from_its_throughput(counted, limit):
    assert counters.launch_counters(ncu.launches(raw(launch(**counted)))[0], [])["limit"] == limit
