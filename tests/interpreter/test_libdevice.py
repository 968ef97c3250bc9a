"""The stand-ins of libdevice's functions."""

import math

import numpy as np
import pytest

from kernellab.interpreter.fault import CannotInterpret
from kernellab.interpreter.libdevice import compute

F32, F64, I32, I64 = (np.dtype(t) for t in (np.float32, np.float64, np.int32, np.int64))


@pytest.mark.parametrize(
    ("name", "arguments", "expected"),
    [
        ("tanhf", [0.5], math.tanh(0.5)),
        ("fast_expf", [1.5], math.exp(1.5)),
        ("erfcf", [2.0], math.erfc(2.0)),
        ("tgammaf", [4.5], math.gamma(4.5)),
        ("lgammaf", [4.5], math.lgamma(4.5)),
        ("powf", [2.0, 0.5], 2**0.5),
        ("atan2f", [1.0, -1.0], math.atan2(1, -1)),
        ("roundf", [-2.5], -3.0),
        ("rintf", [-2.5], -2.0),
        ("sinpif", [1.5], -1.0),
        ("erfcinvf", [0.25], 0.8134198475976185),
        ("remainderf", [5.0, 3.0], -1.0),
        ("rsqrtf", [4.0], 0.5),
        ("logbf", [10.0], 3.0),
        ("fdimf", [2.0, 5.0], 0.0),
        ("fast_fdividef", [1.0, 4.0], 0.25),
    ],
)
def test_functions_of_floats(name, arguments, expected):
    result = compute(name, [np.array([a], np.float32) for a in arguments], F32)
    assert result.dtype == np.float32
    assert result[0] == np.float32(expected)


def test_double_precision_is_not_rounded_to_single():
    assert compute("erf", [np.array([0.3])], F64)[0] == math.erf(0.3)


def test_an_operation_is_rounded_as_its_name_says():
    one, tiny = np.array([1.0], np.float32), np.array([2.0**-30], np.float32)
    rounded = {mode: compute(f"fadd_{mode}", [one, tiny], F32)[0] for mode in ("rn", "rz", "ru", "rd")}
    above = np.nextafter(np.float32(1), np.float32(2))
    assert rounded == {"rn": 1.0, "rz": 1.0, "ru": above, "rd": 1.0}
    assert compute("fsub_rz", [-one, tiny], F32)[0] == -1.0
    assert compute("fsub_rd", [-one, tiny], F32)[0] == -above


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("float2int_rn", 2.5, 2),
        ("float2int_ru", 2.5, 3),
        ("float2int_rz", -2.5, -2),
        ("float2int_rn", 1e20, 2**31 - 1),
        ("float2int_rn", math.nan, 0),
    ],
)
def test_conversions_saturate(name, value, expected):
    assert compute(name, [np.array([value], np.float32)], I32)[0] == expected


@pytest.mark.parametrize(
    ("name", "values", "expected"),
    [
        ("clz", [1], 31),
        ("popc", [-1], 32),
        ("ffs", [8], 4),
        ("brev", [1], -(2**31)),
        ("mulhi", [2**30, 8], 2),
        ("abs", [-7], 7),
    ],
)
def test_functions_of_integers(name, values, expected):
    assert compute(name, [np.array([v], np.int32) for v in values], I32)[0] == expected


def test_bits_are_reinterpreted_and_predicates_are_integers():
    assert compute("float_as_int", [np.array([1.0], np.float32)], I32)[0] == 0x3F800000
    assert compute("isnanf", [np.array([np.nan, 1.0], np.float32)], I32).tolist() == [1, 0]


def test_a_function_without_a_stand_in_cannot_be_interpreted():
    with pytest.raises(CannotInterpret, match="libdevice's ynf has no stand-in here"):
        compute("ynf", [np.array([1]), np.array([1.0])], F32)
