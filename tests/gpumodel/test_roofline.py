"""The roofline: what bounds an op, how near a time comes to it."""

import pytest

from kernellab.gpumodel.roofline import roofline

CEILINGS = {"copy_gbps": 4000.0, "matmul_tflops": {"bfloat16": 800.0}}
GELU = {"bytes_read": 1_000_000_000, "bytes_written": 1_000_000_000, "flops": {}}


def product(n):
    return {"bytes_read": 4 * n * n, "bytes_written": 2 * n * n, "flops": {"matmul": 2 * n**3}}


def test_an_op_without_products_is_bound_by_memory():
    found = roofline(GELU, "float32", 1000.0, CEILINGS)
    assert (found.bound, found.roof_us, found.fraction) == ("memory", 500.0, 0.5)
    assert found.gbps == 2000.0
    assert found.intensity is None


def test_a_large_product_is_bound_by_arithmetic_and_a_small_one_by_memory():
    large, small = (roofline(product(n), "bfloat16", None, CEILINGS) for n in (8192, 64))
    assert large.bound == "matmul"
    assert small.bound == "memory"
    assert large.roof_us == pytest.approx(2 * 8192**3 / 800e6)


def test_the_ridge_is_where_the_two_roofs_meet():
    ridge = roofline(product(64), "bfloat16", None, CEILINGS).ridge
    assert ridge == 200.0
    for n, bound in ((599, "memory"), (601, "matmul")):  # n³·2 / 6n² operations per byte
        assert roofline(product(n), "bfloat16", None, CEILINGS).bound == bound


def test_rates_are_told_without_ceilings_and_shares_are_not():
    found = roofline(product(1024), "bfloat16", 10.0, None)
    assert found.tflops == pytest.approx(214.7, rel=0.01)
    assert found.bound is found.fraction is found.roof_us is None


def test_a_product_whose_rate_was_not_measured_has_no_roof():
    assert roofline(product(1024), "float64", 10.0, CEILINGS).roof_us is None


def test_other_units_bound_nothing():
    busy = {**GELU, "flops": {"fp32": 10**15}}
    assert roofline(busy, "float32", 500.0, CEILINGS).fraction == 1.0
