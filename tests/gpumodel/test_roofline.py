"""The roofline: what bounds an op, and which share of the limit a time attains."""

import pytest

from kernellab.gpumodel.roofline import matmul_limits, roofline

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


BY_CLOCK = {
    **CEILINGS,
    "matmul_by_clock": {
        "bfloat16": [
            {"tflops": 800.0, "clock_mhz": 1980.0, "power_w": 480.0},
            {"tflops": 600.0, "clock_mhz": 1480.0, "power_w": 700.0},
        ]
    },
}


@pytest.mark.parametrize(
    ("clock", "tflops"), [(1980.0, 800.0), (1480.0, 600.0), (1730.0, 700.0), (740.0, 300.0), (2079.0, 840.0)]
)
def test_the_matmul_rate_is_that_at_the_clock(clock, tflops):
    limit = roofline(matmul(8192), "bfloat16", 2000.0, BY_CLOCK, clock)
    assert limit.matmul_tflops == pytest.approx(tflops)
    assert limit.clock_mhz == clock
    assert limit.fraction == pytest.approx(2 * 8192**3 / tflops / 1e6 / 2000)


def test_without_a_clock_or_rates_by_clock_the_rate_is_the_measured_one():
    for ceilings, clock in ((CEILINGS, 1480.0), (BY_CLOCK, None)):
        limit = roofline(matmul(8192), "bfloat16", None, ceilings, clock)
        assert (limit.matmul_tflops, limit.clock_mhz) == (800.0, None)
    assert roofline(GELU, "bfloat16", None, BY_CLOCK, 1480.0).matmul_tflops is None


def test_limits_are_drawn_at_each_clock():
    assert matmul_limits(BY_CLOCK, "bfloat16") == {
        "bfloat16 limit at 1480 MHz, measured": 600.0,
        "bfloat16 limit at 1980 MHz, measured": 800.0,
    }
    assert matmul_limits(CEILINGS, "bfloat16") == {"bfloat16 limit, measured": 800.0}
    assert matmul_limits(BY_CLOCK, "float64") == {}
