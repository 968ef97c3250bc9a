"""Tables of what Nsight Compute counted."""

import pytest

from kernellab.counters import ncu_pages as pages
from kernellab.counters import tables
from support.ncu_pages import COST, MB, SOFTMAX_PAGE, details, launch, raw


def test_a_genuine_launch_has_a_row_and_what_was_not_counted_is_none():
    (read,) = pages.launches(SOFTMAX_PAGE.read_text())
    row = tables.kernel_row(read, [])
    assert (row["registers"], row["theoretical_occupancy_percent"], row["sms"]) == (52, 56.25, 132)
    assert row["duration_us"] is None
    assert row["limit"] is None


def test_the_possible_improvement_is_the_largest_estimate_for_the_whole_launch():
    rules = pages.rules(
        details(
            (0, "A", "small", "OPT", "…", "global", "10"),
            (0, "B", "large", "OPT", "…", "global", "25"),
            (0, "C", "of a unit only", "OPT", "…", "local", "80"),
            (1, "D", "another launch's", "OPT", "…", "global", "90"),
        )
    )
    row = tables.kernel_row(pages.launches(raw(launch(time=400.0)))[0], rules)
    assert (row["estimated_speedup_percent"], row["possible_improvement_us"]) == (25, 100)
    assert len(row["rules"]) == 3


def test_counted_and_declared_bytes_have_a_roofline_each():
    launches = pages.launches(raw(launch(), launch(id=1, time=100.0, read=500.0, written=500.0, dram=90.0)))
    impl = tables.impl_row("triton", launches, [], COST, "float32")
    assert (impl["counted_bytes"], impl["fewest_bytes"], impl["time_us"]) == (2980 * MB, 2000 * MB, 600)
    assert impl["counted_to_fewest"] == pytest.approx(1.49)
    assert impl["peak_gbps"] == pytest.approx(1980 / 500 * 1000 / 0.9)  # of the longer launch
    roofs = impl["roofline"]
    assert roofs["counted"]["fraction"] / roofs["declared"]["fraction"] == pytest.approx(1.49)
    missing = pages.launches(raw(launch(), launch(read="n/a")))
    assert tables.impl_row("x", missing, [], COST, "float32")["counted_bytes"] is None


@pytest.mark.parametrize(
    ("counted", "limit"),
    [
        ({"memory": 90.0, "compute": 20.0}, "memory"),
        ({"memory": 30.0, "compute": 70.0}, "compute"),
        ({"memory": 30.0, "compute": 20.0}, "latency"),
        ({"memory": 1.0, "compute": 1.0, "blocks": 8}, "blocks"),
    ],
)
def test_the_limit_of_a_kernel_follows_from_its_counters(counted, limit):
    assert tables.kernel_row(pages.launches(raw(launch(**counted)))[0], [])["limit"] == limit


def test_both_units_limit_a_kernel_if_they_are_equally_busy():
    assert tables.kernel_row(pages.launches(raw(launch(memory=91.0, compute=88.0)))[0], [])["limit"] == "both"


def test_a_row_has_every_column_of_the_csv_file():
    row = tables.kernel_row(pages.launches(raw(launch()))[0], [], "triton")
    assert set(tables.COLUMNS) <= set(row)
    (cells,) = tables.csv_rows([row])
    assert (cells["impl"], cells["grid"], cells["l2_hit_percent"]) == ("triton", "4096x1x1", "")
