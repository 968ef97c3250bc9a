"""Findings about launches: too many, too small, too few blocks or warps, or one that is refused."""

import dataclasses

import pytest

from kernellab.explaining.rulebook import findings
from kernellab.gpumodel.time_model import needed_bytes, prices
from support.described import COST, GOOD, H200, ROOF_US, TINY, but, first, way

SLICE = dict(times=64, blocks=64, pointer_bytes=250_000)


def test_launch_bound_by_many_tiny_kernels():
    found = first(way(but(**SLICE), cost=TINY, time_us=280.0, gpu_us=180.0, launched=[{"name": "k"}] * 64))
    assert (found.rule, found.sure) == ("launch-bound", "measured")
    assert found.gain == pytest.approx(280 / 4)


def test_launch_bound_where_the_gpu_waits_for_the_host():
    many = way(but(**SLICE), cost=TINY, time_us=1500.0, gpu_us=128.0, launched=[{"name": "k"}] * 64)
    assert first(many).rule == "launch-bound"
    busy = dataclasses.replace(many, gpu_us=1500.0)  # they compute, whatever it is
    assert all(f.rule != "launch-bound" for f in findings(busy))


def test_kernels_whose_bytes_take_longer_than_starting_them_are_not_launch_bound():
    large = way(but(times=64, blocks=64, pointer_bytes=50_000_000), cost=TINY, time_us=1000.0, gpu_us=900.0)
    assert all(f.rule != "launch-bound" for f in findings(large))


def test_launch_bound_on_the_host():
    found = first(way(GOOD, cost=TINY, time_us=5.0, launch_us=25.0))
    assert (found.rule, found.gain) == ("launch-bound", 5.0)
    # A profiled call is slower than others: it says that it may be so, and promises nothing.
    vague = findings(way(GOOD, cost=TINY, time_us=5.0, host_us=25.0, gpu_us=5.0))
    assert [(f.sure, f.gain) for f in vague if f.rule == "launch-bound"] == [("possible", None)]


def test_too_few_blocks():
    few = but(blocks=16, threads=256, blocks_per_sm=8, loop={"global_load": 1, "integer": 10})
    found = first(way(few))
    assert found.rule == "too-few-blocks"
    # 16 SMs have one block under way each, where 132 could have eight.
    priced = prices(way(few), few)
    assert priced.dearest == "flight"
    assert found.gain == pytest.approx(priced.flight / ROOF_US)
    assert first(way(few, time_us=20 * ROOF_US)).gain == pytest.approx(20.0)


def test_too_few_blocks_that_compute_gain_the_sms_they_do_not_use():
    busy = {**COST, "flops": {"fp32": 10**13}}
    few = but(blocks=33, threads=1024, blocks_per_sm=1, loop={"global_load": 1})
    assert first(way(few, cost=busy)).gain == pytest.approx(132 / 33)


BUSY = {"bytes_read": 32_000_000, "bytes_written": 32_000_000, "flops": {"fp32": 10**10}}


def test_tail_wave():
    lone = but(
        threads=1024,
        blocks=133,
        shared_bytes=120 * 1024,
        blocks_per_sm=1,
        loop={"global_load": 1},
        pointer_bytes=64_000_000,
    )
    found = first(way(lone, cost=BUSY))
    assert (found.rule, found.gain) == ("tail-wave", pytest.approx(2 * 132 / 133))
    assert findings(way(dataclasses.replace(lone, blocks=4 * 132), cost=BUSY)) == []


def test_loops_of_unknown_turns_may_be_what_a_long_time_is_spent_in():
    """Nothing is declared and nothing says how often the loop turns: the time does."""
    lone = but(threads=1024, blocks=133, blocks_per_sm=1, registers=64, unknown_turns={"fp32": 2})
    assert all(f.rule != "tail-wave" for f in findings(way(lone)))
    found = first(way(lone, time_us=20 * ROOF_US))
    assert (found.rule, found.gain) == ("tail-wave", pytest.approx(2 * 132 / 133))
    few = dataclasses.replace(lone, blocks=33, flight_bytes=0)
    assert first(way(few, time_us=20 * ROOF_US)).rule == "too-few-blocks"
    assert first(way(few, time_us=20 * ROOF_US)).gain == pytest.approx(4.0)


def test_a_tail_costs_a_memory_bound_kernel_nothing():
    assert all(f.rule != "tail-wave" for f in findings(way(but(blocks=16 * 132 + 1))))


def test_low_occupancy():
    lonely = but(blocks_per_sm=1, occupancy=4 / 64, limiter="shared", shared_bytes=200_000, remedy="less shared memory")
    found = first(way(lonely))
    assert found.rule == "low-occupancy"
    assert "limited by shared" in found.title
    assert found.gain == pytest.approx(needed_bytes(H200) / (128 * 16), rel=0.05)


def test_few_warps_that_have_enough_under_way_are_left_in_peace():
    assert findings(way(but(blocks_per_sm=1, occupancy=4 / 64, flight_bytes=256))) == []


def test_what_cannot_launch_is_told_so_and_of_nothing_else():
    refused = but(blocks_per_sm=0, occupancy=0.0, refusal="too many threads", remedy="fewer", sectors=8.0)
    (found,) = findings(way(refused))
    assert (found.rule, found.title, found.do) == ("cannot-launch", "cannot launch: too many threads", "fewer")
    assert all(f.rule != "cannot-launch" for f in findings(way(refused, time_us=3 * ROOF_US)))  # it was launched


def test_too_few_threads_on_every_sm():
    """A block of one warp on each SM, going over everything in a loop."""
    lone = but(blocks=132, threads=32, blocks_per_sm=32, occupancy=0.5, loop={"global_load": 1, "integer": 10})
    found = first(way(lone))
    assert (found.rule, found.sure) == ("too-few-blocks", "likely")
    assert "132 blocks of 32 threads on 132 SMs, where 4224 would fit" in found.title
    small = {"bytes_read": 132 * 32 * 16, "bytes_written": 132 * 32 * 16, "flops": {}}
    assert all(f.rule != "too-few-blocks" for f in findings(way(lone, cost=small)))  # there is no more to split


def test_one_block_is_called_one():
    title = first(way(but(blocks=1, loop={"global_load": 1}))).title
    assert title.startswith("1 block on 132 SMs: 131 of them")


def test_blocks_of_few_threads_leave_lanes_idle():
    single = but(threads=1, blocks=62_500_000, blocks_per_sm=32, occupancy=0.5)
    found = first(way(single))
    assert found.rule == "low-occupancy"
    assert "32 of 2048 threads fit on an SM" in found.title
    assert found.gain > 10
    assert found.do.startswith("make blocks of whole warps")


def test_operators_count_among_the_kernels_that_are_launched():
    tiny = [{"op": "aten::copy_", "read_bytes": 1000, "write_bytes": 1000}] * 30
    found = first(way(but(times=30, blocks=200, pointer_bytes=2000), cost=TINY, traffic=tiny))
    assert found.title.startswith("60 kernels of hardly any work")
