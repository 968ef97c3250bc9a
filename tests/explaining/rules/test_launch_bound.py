import dataclasses

import pytest

from kernellab.explaining.rules.launch_bound import examine
from kernellab.gpumodel.fusion import DispatchedOperator
from support.subjects import GOOD_KERNEL, SMALL_COST, first_finding, kernel, subject

TINY = kernel(times=64, blocks=64, pointer_bytes=250_000)
LAUNCHES = ["k"] * 64


def test_many_tiny_kernels_gain_what_one_kernel_would_take():
    tiny = subject(TINY, cost=SMALL_COST, time_us=280.0, profiled_gpu_us=180.0, profiled_kernels=LAUNCHES)
    finding = first_finding(tiny)
    assert (finding.name, finding.confidence) == ("launch-bound", "measured")
    assert finding.gain == pytest.approx(280 / 4)


def test_long_kernels_of_few_bytes_are_launch_bound_only_where_the_gpu_idles():
    idle = subject(TINY, cost=SMALL_COST, time_us=1500.0, profiled_gpu_us=128.0, profiled_kernels=LAUNCHES)
    assert first_finding(idle).name == "launch-bound"
    assert examine(dataclasses.replace(idle, profiled_gpu_us=1500.0)) is None  # they compute


def test_kernels_whose_bytes_take_longer_than_launching_them_are_not_launch_bound():
    large = kernel(times=64, blocks=64, pointer_bytes=50_000_000)
    assert examine(subject(large, cost=SMALL_COST, time_us=1000.0, profiled_gpu_us=900.0)) is None


def test_operators_count_among_the_launched_kernels():
    copies = [DispatchedOperator("aten::copy_", 1000, 1000)] * 30
    tiny = kernel(times=30, blocks=200, pointer_bytes=2000)
    finding = first_finding(subject(tiny, cost=SMALL_COST, operators=copies))
    assert finding.title.startswith("60 tiny kernels")


def test_a_host_slower_than_the_gpu_gains_the_difference():
    finding = first_finding(subject(GOOD_KERNEL, cost=SMALL_COST, time_us=5.0, launch_us=25.0))
    assert (finding.name, finding.gain) == ("launch-bound", 5.0)


def test_a_slow_host_in_a_profiled_call_is_possible_and_promises_no_gain():
    finding = examine(subject(GOOD_KERNEL, cost=SMALL_COST, time_us=5.0, profiled_host_us=25.0, profiled_gpu_us=5.0))
    assert (finding.confidence, finding.gain) == ("possible", None)
