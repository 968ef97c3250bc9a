import dataclasses

import pytest

from kernellab.explaining.rules.too_few_blocks import examine
from kernellab.gpumodel.time_model import estimate_time
from support.subjects import COST, LIMIT_US, MATMUL_KERNEL, first_finding, kernel, matmul, subject

FEW = kernel(blocks=16, threads=256, blocks_per_sm=8, loop={"global_load": 1, "integer": 10})


def test_a_few_blocks_with_too_little_in_flight_gain_up_to_the_limit():
    """16 SMs have one block in flight each, where 132 could have eight."""
    finding = first_finding(subject(FEW))
    assert finding.name == "too-few-blocks"
    estimate = estimate_time(subject(FEW), FEW)
    assert estimate.bottleneck == "flight"
    assert finding.gain == pytest.approx(estimate.flight / LIMIT_US)
    assert first_finding(subject(FEW, time_us=20 * LIMIT_US)).gain == pytest.approx(20.0)


def test_few_blocks_that_compute_gain_the_idle_sms():
    busy = {**COST, "flops": {"fp32": 10**13}}
    few = kernel(blocks=33, threads=1024, blocks_per_sm=1, loop={"global_load": 1})
    assert first_finding(subject(few, cost=busy)).gain == pytest.approx(132 / 33)


def test_few_blocks_with_loops_of_unknown_length_gain_the_idle_sms():
    few = kernel(threads=1024, blocks=33, blocks_per_sm=1, registers=64, unknown_turns={"fp32": 2}, flight_bytes=0)
    finding = first_finding(subject(few, time_us=20 * LIMIT_US))
    assert (finding.name, finding.gain) == ("too-few-blocks", pytest.approx(4.0))


def test_a_matmul_on_few_sms_gains_the_others():
    finding = first_finding(matmul(dataclasses.replace(MATMUL_KERNEL, blocks=33)))
    assert (finding.name, finding.gain) == ("too-few-blocks", pytest.approx(4.0))


def test_one_small_block_on_every_sm_is_too_few_where_each_thread_goes_over_several_portions():
    looping = kernel(blocks=132, threads=32, blocks_per_sm=32, occupancy=0.5, loop={"global_load": 1, "integer": 10})
    finding = first_finding(subject(looping))
    assert (finding.name, finding.confidence) == ("too-few-blocks", "likely")
    assert "132 blocks of 32 threads on 132 SMs, where 4224 would fit" in finding.title
    small = {"bytes_read": 132 * 32 * 16, "bytes_written": 132 * 32 * 16, "flops": {}}
    assert examine(subject(looping, cost=small)) is None  # there is nothing left to split


def test_the_title_of_a_single_block_is_singular():
    title = first_finding(subject(kernel(blocks=1, loop={"global_load": 1}))).title
    assert title == "1 block on 132 SMs: 131 of the SMs are idle"


def test_a_small_kernel_of_several_gains_no_more_than_its_part_of_the_time():
    """One block adds up what a good kernel left. Spread over the GPU it would take next to nothing."""
    last = kernel(name="last", blocks=1, threads=512, blocks_per_sm=4, flight_bytes=32, loop={"global_load": 1})
    both = subject(kernel(), dataclasses.replace(last, pointer_bytes=40_000_000))
    finding = examine(both)
    good_us, last_us = (estimate_time(both, k).time_us for k in both.kernels)
    assert last_us > good_us
    assert finding.gain == pytest.approx((good_us + last_us) / good_us, rel=0.05)
    assert finding.title.startswith("last: 1 block on 132 SMs")
