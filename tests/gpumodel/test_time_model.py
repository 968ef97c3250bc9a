"""The predicted time of a kernel, by resource."""

import dataclasses

import pytest

from kernellab.gpumodel.time_model import (
    TimeEstimate,
    bytes_in_flight,
    estimate_time,
    is_compute_bound,
    loop_iterations,
    needed_bytes_in_flight,
    slowest_kernel,
    total_time_us,
)
from support.subjects import COST, GB, GOOD_KERNEL, H200, LIMIT_US, MATMUL_KERNEL, kernel, matmul, subject


def estimate(measured_kernel, **fields):
    return estimate_time(subject(measured_kernel, **fields), measured_kernel)


def test_the_slowest_resource_is_the_predicted_time():
    times = TimeEstimate(memory=3.0, flight=5.0, issue=4.0)
    assert (times.time_us, times.bottleneck, times.bound) == (5.0, "flight", "memory")
    assert times.time_us_with(flight=1.0) == 4.0


def test_a_good_kernel_is_bound_by_the_bytes_of_its_op():
    times = estimate(GOOD_KERNEL)
    assert (times.bottleneck, times.time_us) == ("memory", pytest.approx(LIMIT_US))


def test_nothing_is_predicted_on_a_cpu_or_without_a_cost():
    assert estimate(GOOD_KERNEL, device=None) is None
    without_cost = dataclasses.replace(subject(GOOD_KERNEL), cost=None, limit=None)
    assert estimate_time(without_cost, GOOD_KERNEL) is None
    assert slowest_kernel(without_cost) is None
    assert total_time_us(without_cost) == 0


def test_a_loop_of_constant_length_counts_with_its_length():
    code = {"global_load": 1, "global_store": 1, "fp32": 10, "control": 2}
    repeated = {**code, "fp32": 10_000}
    once, often = estimate(kernel(instructions=code)), estimate(kernel(instructions=code, executed=repeated))
    assert often.issue == pytest.approx(once.issue * sum(repeated.values()) / sum(code.values()))


def test_the_length_of_a_loop_that_loads_follows_from_the_bytes():
    looping = kernel(blocks=1000, loop={"global_load": 2})
    assert loop_iterations(looping, GB) == pytest.approx(GB / (2 * 16 * 1000 * 128))
    assert loop_iterations(kernel(instructions={"fp32": 1}), GB) == 1.0  # loads nothing


def test_kernels_share_the_bytes_of_the_op_by_their_tensors():
    small, large = kernel(name="small", pointer_bytes=GB), kernel(name="large", pointer_bytes=3 * GB)
    both = subject(small, large)
    assert estimate_time(both, large).memory == pytest.approx(0.75 * LIMIT_US)
    assert slowest_kernel(both)[0] is large
    assert total_time_us(both) == pytest.approx(LIMIT_US)


def test_matmuls_take_the_rate_of_the_units_that_multiply():
    multiply_adds = kernel(instructions={"global_load": 8, "fp32": 2000})
    on_tensor_cores = estimate_time(matmul(MATMUL_KERNEL), MATMUL_KERNEL)
    without = estimate_time(matmul(multiply_adds), multiply_adds)
    assert without.matmul == pytest.approx(16 * on_tensor_cores.matmul)


def test_littles_law_bounds_what_an_sm_receives():
    assert bytes_in_flight(GOOD_KERNEL, H200) == 16 * 128 * 16
    assert needed_bytes_in_flight(H200) == pytest.approx(4000 * 1e3 * 0.8 / 132 / 2)
    one_block = kernel(blocks_per_sm=1)
    assert estimate(one_block).flight == pytest.approx(16 * estimate(GOOD_KERNEL).flight)


def test_local_memory_is_served_by_l1_if_it_fits_and_by_l2_otherwise():
    code = {**GOOD_KERNEL.instructions, "local_load": 10, "local_store": 10}
    spilling = kernel(spill_bytes=80, stack_bytes=48, instructions=code)
    in_l1, in_l2 = estimate(spilling), estimate(dataclasses.replace(spilling, l1_bytes=0))
    assert 0 < in_l1.local < in_l2.local


def test_loops_of_unknown_length_make_it_compute_bound_only_if_the_time_is_unexplained():
    looping = kernel(unknown_turns={"fp32": 4})
    for time_us, bound in ((None, False), (1.5 * LIMIT_US, False), (3 * LIMIT_US, True)):
        assert is_compute_bound(subject(looping, time_us=time_us), looping, estimate(looping)) is bound


def test_declared_operations_take_the_vendors_rate():
    times = estimate(GOOD_KERNEL, cost={**COST, "flops": {"fp32": 10**12}})
    assert times.fp32 == pytest.approx(10**12 / (132 * 1980 * H200.chip.fp32_per_clock))
