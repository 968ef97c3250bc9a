"""The roofline: what bounds an op, and which share of the limit a time attains."""

import pytest

from kernellab.gpumodel.roofline import roofline

CEILINGS = {"copy_gbps": 4000.0, "matmul_tflops": {"bfloat16": 800.0}}
GELU = {"bytes_read": 1_000_000_000, "bytes_written": 1_000_000_000, "flops": {}}


def matmul(n):
    return {"bytes_read": 4 * n * n, "bytes_written": 2 * n * n, "flops": {"matmul": 2 * n**3}}


def test_an_op_without_matmuls_is_bound_by_memory():
    limit = roofline(GELU, "float32", 1000.0, CEILINGS)
    assert (limit.bound, limit.roof_us, limit.fraction) == ("memory", 500.0, 0.5)
    assert limit.gbps == 2000.0
    assert limit.intensity is None


def test_a_large_matmul_is_bound_by_arithmetic_and_a_small_one_by_memory():
    large, small = (roofline(matmul(n), "bfloat16", None, CEILINGS) for n in (8192, 64))
    assert large.bound == "matmul"
    assert small.bound == "memory"
    assert large.roof_us == pytest.approx(2 * 8192**3 / 800e6)


def test_the_ridge_is_where_the_two_roofs_meet():
    ridge = roofline(matmul(64), "bfloat16", None, CEILINGS).ridge
    assert ridge == 200.0
    for n, bound in ((599, "memory"), (601, "matmul")):  # n³·2 / 6n² operations per byte
        assert roofline(matmul(n), "bfloat16", None, CEILINGS).bound == bound


def test_without_ceilings_there_are_rates_but_no_shares():
    limit = roofline(matmul(1024), "bfloat16", 10.0, None)
    assert limit.tflops == pytest.approx(214.7, rel=0.01)
    assert limit.bound is limit.fraction is limit.roof_us is None


def test_a_matmul_whose_rate_was_not_measured_has_no_limit():
    assert roofline(matmul(1024), "float64", 10.0, CEILINGS).roof_us is None


def test_float32_that_is_multiplied_as_tf32_has_the_rate_of_tf32_or_no_limit():
    cost = {**matmul(8192), "flops": {"tf32": 2 * 8192**3}}
    assert roofline(cost, "float32", 10.0, {**CEILINGS, "matmul_tflops": {"float32": 50.0}}).roof_us is None
    limit = roofline(cost, "float32", None, {**CEILINGS, "matmul_tflops": {"float32": 50.0, "tf32": 400.0}})
    assert (limit.bound, limit.roof_us) == ("matmul", pytest.approx(2 * 8192**3 / 400e6))


def test_units_without_a_measured_ceiling_bound_nothing():
    busy = {**GELU, "flops": {"fp32": 10**15}}
    assert roofline(busy, "float32", 500.0, CEILINGS).fraction == 1.0
