"""Sweeps found in records, and the points of their curves."""

import statistics

import pytest

from kernellab.reporting.charts import series
from support.records import timed
from support.sweeps import at, derived_record, swept


def lines(*dims, **more):
    return [
        (s.dim, s.together, dict(s.fixed), s.sizes)
        for s in series.find(derived_record(*(at(timed("t", 5), d) for d in dims)))
    ]


def test_three_sizes_of_one_dim_make_a_sweep_and_two_do_not():
    assert lines({"N": 4}, {"N": 1}, {"N": 2}) == [("N", (), {}, [1, 2, 4])]
    assert lines({"N": 1}, {"N": 2}) == []


def test_dims_that_follow_another_vary_with_it():
    assert lines(*({"M": n, "K": n, "N": n} for n in (8, 16, 32))) == [("M", ("K", "N"), {}, [8, 16, 32])]
    assert lines(*({"M": n, "K": 16, "N": n} for n in (8, 16, 32))) == [("M", ("N",), {"K": 16}, [8, 16, 32])]


def test_a_size_that_happens_to_equal_a_fixed_one_stays_in_the_sweep():
    assert lines(*({"...": [16], "N": n} for n in (8, 16, 32))) == [("N", (), {"dim0": 16}, [8, 16, 32])]


def test_leading_dims_are_swept_too():
    assert lines(*({"...": [n, 3], "N": 7} for n in (1, 2, 4))) == [("dim0", (), {"N": 7, "dim1": 3}, [1, 2, 4])]


def test_a_grid_is_one_sweep_for_each_row_and_every_case_is_in_one():
    sweeps = lines(*({"M": m, "N": n} for m in (1, 2, 3) for n in (10, 20, 30, 40)))
    assert sweeps == [("N", (), {"M": m}, [10, 20, 30, 40]) for m in (1, 2, 3)]


def test_dtypes_and_options_are_sweeps_of_their_own_with_their_own_files():
    results = [at(timed("t", n), {"N": n}, dtype=d) for n in (1, 2, 4) for d in ("float32", "bfloat16")]
    assert [s.stem for s in series.find(derived_record(*results))] == ["f-N-float32", "f-N-bfloat16"]
    results = [at(timed("t", n), {"N": n}, mode=m) for n in (1, 2, 4) for m in ("a", "b/c")]
    assert [s.stem for s in series.find(derived_record(*results))] == ["f-N-float32-mode_a", "f-N-float32-mode_b_c"]


def test_rates_are_bytes_or_matmul_flops_over_time_with_the_band_of_the_samples():
    (sweep,) = series.find(swept())
    point = sweep.curve("torch")[64]
    samples = [64 + i / 100 for i in range(20)]
    assert sweep.unit == "GB/s"
    assert point.value == pytest.approx(1_000_000 / statistics.median(samples) / 1e3)
    assert point.low == pytest.approx(1e3 / (64 + 0.152))
    assert point.high == pytest.approx(1e3 / (64 + 0.038))
    assert sorted(sweep.curve("liar")) == [64, 128, 256, 512, 1024]
    assert sweep.curve("cuda") == {}
    cost = {"bytes_read": 1, "bytes_written": 1, "flops": {"matmul": 2_000_000}}
    (sweep,) = series.find(
        derived_record(*({**at(timed("t", 10), {"M": n}), "cost": {"forward": cost}} for n in (1, 2, 3)))
    )
    assert (sweep.unit, round(sweep.curve("t")[1].value, 3)) == ("TFLOP/s", 0.198)
    (sweep,) = series.find(derived_record(*({**at(timed("t", 10), {"M": n}), "cost": {}} for n in (1, 2, 3))))
    assert (sweep.unit, round(sweep.curve("t")[1].value, 1)) == ("µs", 10.1)
