import pytest

from kernellab.gpumodel.time_model import needed_bytes_in_flight
from support.subjects import H200, first_finding, found_rules, kernel, subject


def test_too_few_threads_to_hide_the_latency_gain_what_is_missing_in_flight():
    lonely = kernel(
        blocks_per_sm=1, occupancy=4 / 64, limiter="shared memory", shared_bytes=200_000, remedy="less shared memory"
    )
    finding = first_finding(subject(lonely))
    assert finding.name == "low-occupancy"
    assert "limited by shared memory" in finding.title
    assert finding.gain == pytest.approx(needed_bytes_in_flight(H200) / (128 * 16), rel=0.05)


def test_few_threads_with_enough_bytes_in_flight_are_not_reported():
    assert found_rules(subject(kernel(blocks_per_sm=1, occupancy=4 / 64, flight_bytes=256))) == []


def test_blocks_of_few_threads_leave_lanes_idle():
    finding = first_finding(subject(kernel(threads=1, blocks=62_500_000, blocks_per_sm=32, occupancy=0.5)))
    assert finding.name == "low-occupancy"
    assert "32 of 2048 threads fit on an SM" in finding.title
    assert finding.gain > 10
    assert finding.do.startswith("make blocks of whole warps")
