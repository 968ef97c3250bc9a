"""Functions of libdevice in the interpreter, by NumPy, and by torch where NumPy has no such function.

They are computed in float64 and rounded once, so that they are at least as accurate as the GPU's.
"""

from __future__ import annotations

import functools
import importlib
import math
import re
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import torch

from kernellab.base.functions import AnyFunction
from kernellab.interpreter.fault import CannotInterpret
from kernellab.interpreter.language import replace_function

# Any numbers: numpy declares its scalar types with Any.
Array: TypeAlias = npt.NDArray[np.generic]  # type: ignore[explicit-any]
Doubles: TypeAlias = npt.NDArray[np.float64]

_INTEGERS: Mapping[str, type[np.integer]] = {"int": np.int32, "uint": np.uint32, "ll": np.int64, "ull": np.uint64}  # type: ignore[explicit-any]
_ROUNDING = {"rn": np.rint, "rz": np.trunc, "ru": np.ceil, "rd": np.floor}
_OPERATORS: Mapping[str, AnyFunction] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": np.divide,
    "sqrt": np.sqrt,
    "rcp": np.reciprocal,
    "fma": lambda x, y, z: x * y + z,
}
_VIEWS = {
    "float_as_int": np.int32,
    "float_as_uint": np.uint32,
    "int_as_float": np.float32,
    "uint_as_float": np.float32,
    "double_as_longlong": np.int64,
    "longlong_as_double": np.float64,
}


def provide_libdevice(interpreter: ModuleType) -> None:
    """The names of `triton.language.extra.libdevice` get functions, and these the stand-ins below."""
    own = importlib.import_module("triton.language.extra.libdevice")  # without a body: the compiler replaces them
    cuda = importlib.import_module("triton.language.extra.cuda.libdevice")
    for name, function in vars(cuda).items():
        if callable(function) and getattr(function, "__module__", "") == cuda.__name__:
            setattr(own, name, function)

    def call(
        self: object, library: str, path: str, symbol: str, handles: list[object], result_type: object, pure: bool
    ) -> object:
        if path or not symbol.startswith("__nv_"):
            raise CannotInterpret(f"{symbol} is a function of the device library {path or library}")
        arrays = [handle.data for handle in handles]  # type: ignore[attr-defined]
        dtype = interpreter._get_np_dtype(result_type)
        result = compute(symbol.removeprefix("__nv_"), arrays, dtype)
        return interpreter.TensorHandle(result, result_type.scalar)  # type: ignore[attr-defined]

    replace_function(interpreter.InterpreterBuilder, "create_extern_elementwise", call)


def compute(name: str, arrays: list[Array], dtype: np.dtype[np.generic]) -> Array:  # type: ignore[explicit-any]
    """A function of libdevice by its name without `__nv_`, on arrays of one shape."""
    with np.errstate(all="ignore"):
        for family in (_change_type, _compute_on_bits, _round_operation):
            result = family(name, arrays, dtype)
            if result is not None:
                return result
        function = _find(name, arrays)
        doubles = [array.astype(np.float64) for array in arrays]
        return np.asarray(function(*doubles)).astype(dtype)


def _find(name: str, arrays: list[Array]) -> AnyFunction:
    """The stand-in of `expf`, `exp` or `fast_expf`."""
    for spelling in (name, name.removeprefix("fast_"), name.removeprefix("fast_").removesuffix("f")):
        if spelling in _FUNCTIONS:
            return _FUNCTIONS[spelling]
    raise CannotInterpret(f"libdevice's {name} has no stand-in here")


# Floating-point numbers --------------------------------------------------------------------------------


def _by_torch(name: str) -> Callable[[Doubles], Doubles]:
    def call(values: Doubles) -> Doubles:
        result: Doubles = getattr(torch.special, name)(torch.from_numpy(np.ascontiguousarray(values))).numpy()
        return result

    return call


def _round_half_away(x: Doubles) -> Doubles:
    whole = np.trunc(x)
    return np.asarray(np.copysign(np.abs(whole) + (np.abs(x - whole) >= 0.5), x))


def _gamma(x: Doubles) -> Doubles:
    def gamma(value: float) -> float:
        try:
            return math.gamma(value)
        except OverflowError:
            return math.inf
        except ValueError:  # a pole
            return math.copysign(math.inf, value) if value == 0 else math.nan

    return np.asarray(np.vectorize(gamma, otypes=[np.float64])(x))


def _remainder(x: Doubles, y: Doubles) -> Doubles:
    """IEEE's: the quotient is rounded to nearest even."""

    def remainder(a: float, b: float) -> float:
        try:
            return math.remainder(a, b)
        except ValueError:
            return math.nan

    return np.asarray(np.vectorize(remainder, otypes=[np.float64])(x, y))


def _norm(*values: Doubles) -> Doubles:
    return np.asarray(np.sqrt(sum(value * value for value in values)))


def _exponent(x: Doubles) -> Doubles:
    exponent = np.frexp(x)[1] - 1.0
    special = np.where(x == 0, -np.inf, np.where(np.isinf(x), np.inf, np.nan))
    return np.where((x == 0) | ~np.isfinite(x), special, exponent)


_FUNCTIONS: Mapping[str, AnyFunction] = {
    **{name: getattr(np, name) for name in ("cbrt", "ceil", "cos", "cosh", "exp", "exp2", "expm1", "floor", "fmod")},
    **{name: getattr(np, name) for name in ("hypot", "log", "log10", "log1p", "log2", "rint", "sin", "sinh", "sqrt")},
    **{name: getattr(np, name) for name in ("tan", "tanh", "trunc", "copysign", "fabs")},
    **{f"a{name}": getattr(np, f"arc{name}") for name in ("cos", "cosh", "sin", "sinh", "tan", "tanh")},
    **{name: _by_torch(name) for name in ("erf", "erfc", "erfcx", "erfinv")},
    "atan2": np.arctan2,
    "exp10": lambda x: np.power(10.0, x),
    "nearbyint": np.rint,
    "llrint": np.rint,
    "round": _round_half_away,
    "llround": _round_half_away,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "frsqrt_rn": lambda x: 1 / np.sqrt(x),
    "rcbrt": lambda x: 1 / np.cbrt(x),
    "sinpi": lambda x: np.sin(np.pi * np.fmod(x, 2)),
    "cospi": lambda x: np.cos(np.pi * np.fmod(x, 2)),
    "saturate": lambda x: np.where(np.isnan(x), 0.0, np.clip(x, 0.0, 1.0)),
    "logb": _exponent,
    "ilogb": _exponent,
    "ldexp": lambda x, n: np.ldexp(x, n.astype(np.int64)),
    "scalbn": lambda x, n: np.ldexp(x, n.astype(np.int64)),
    "pow": np.power,
    "powi": np.power,
    "fdim": lambda x, y: np.where(np.isnan(x - y), np.nan, np.maximum(x - y, 0)),
    "fdivide": np.divide,
    "fma": _OPERATORS["fma"],
    "remainder": _remainder,
    "rhypot": lambda x, y: 1 / np.hypot(x, y),
    "norm3d": _norm,
    "norm4d": _norm,
    "rnorm3d": lambda *values: 1 / _norm(*values),
    "rnorm4d": lambda *values: 1 / _norm(*values),
    "erfcinv": lambda x: -_by_torch("ndtri")(x / 2) / math.sqrt(2),
    "normcdf": _by_torch("ndtr"),
    "normcdfinv": _by_torch("ndtri"),
    "lgamma": _by_torch("gammaln"),
    "tgamma": _gamma,
    "j0": _by_torch("bessel_j0"),
    "j1": _by_torch("bessel_j1"),
    "y0": _by_torch("bessel_y0"),
    "y1": _by_torch("bessel_y1"),
    "cyl_bessel_i0": _by_torch("i0"),
    "cyl_bessel_i1": _by_torch("i1"),
    **dict.fromkeys(("isnanf", "isnand"), np.isnan),
    **dict.fromkeys(("isinff", "isinfd"), np.isinf),
    **dict.fromkeys(("finitef", "isfinited"), np.isfinite),
    **dict.fromkeys(("signbitf", "signbitd"), np.signbit),
}


def _round_operation(name: str, arrays: list[Array], dtype: np.dtype[np.generic]) -> Array | None:  # type: ignore[explicit-any]
    """`fadd_rz`: an operation with its rounding. That of float32 is exact in float64, or nearly, and then rounded."""
    match = re.fullmatch(r"([fd])(add|sub|mul|div|sqrt|rcp)_(rn|rz|ru|rd)|(fmaf?)_(rn|rz|ru|rd)", name)
    if match is None:
        return None
    kind, operator, mode = match[1] or match[4], match[2] or "fma", match[3] or match[5]
    if mode != "rn" and kind in ("d", "fma"):
        raise CannotInterpret(f"libdevice's {name} has no stand-in here")
    function = _OPERATORS[operator]
    exact = np.asarray(function(*(array.astype(np.float64) for array in arrays)))
    nearest = exact.astype(dtype)
    if mode == "rn":
        return nearest
    below, above = (np.nextafter(nearest, np.array(way, nearest.dtype)) for way in (-np.inf, np.inf))
    down = np.where(nearest.astype(np.float64) > exact, below, nearest)
    up = np.where(nearest.astype(np.float64) < exact, above, nearest)
    return {"rd": down, "ru": up, "rz": np.where(exact > 0, down, up)}[mode]


# Integers, bits and conversions ------------------------------------------------------------------------


def _change_type(name: str, arrays: list[Array], dtype: np.dtype[np.generic]) -> Array | None:  # type: ignore[explicit-any]
    if name in _VIEWS:
        return np.ascontiguousarray(arrays[0]).view(_VIEWS[name])
    if name == "nextafter" or name == "nextafterf":
        return np.asarray(np.nextafter(*arrays)).astype(dtype)
    to_integer = re.fullmatch(r"(?:float|double)2(int|uint|ll|ull)_(rn|rz|ru|rd)", name)
    if to_integer is not None:
        limits = np.iinfo(_INTEGERS[to_integer[1]])
        whole = _ROUNDING[to_integer[2]](arrays[0].astype(np.float64))
        inside = np.clip(np.nan_to_num(whole, nan=0.0), float(limits.min), np.nextafter(float(limits.max), 0.0))
        saturated = np.where(whole >= float(limits.max), limits.max, inside.astype(limits.dtype))
        return saturated.astype(limits.dtype).astype(dtype)
    if re.fullmatch(r"(?:int|uint|ll|ull|double)2(?:float|double)_rn", name):
        return arrays[0].astype(dtype)
    return None


def _compute_on_bits(name: str, arrays: list[Array], dtype: np.dtype[np.generic]) -> Array | None:  # type: ignore[explicit-any]
    """Functions of integers, in Python's integers of any length."""
    bits = arrays[0].dtype.itemsize * 8
    functions: Mapping[str, AnyFunction] = {
        "abs": abs,
        "clz": lambda v: bits - (v % (1 << bits)).bit_length(),
        "popc": lambda v: (v % (1 << bits)).bit_count(),
        "ffs": lambda v: (v & -v).bit_length() if v else 0,
        "brev": lambda v: _as_signed(int(f"{v % (1 << bits):0{bits}b}"[::-1], 2), bits),
        "mulhi": lambda a, b: (a * b) >> bits,
        "mul64hi": lambda a, b: (a * b) >> bits,
        "hadd": lambda a, b: (a + b) >> 1,
        "rhadd": lambda a, b: (a + b + 1) >> 1,
        "sad": lambda a, b, c: abs(a - b) + c,
    }
    spellings = (name, name.removeprefix("u"), name.removeprefix("ll"), name.removesuffix("ll"))
    function = next((functions[spelling] for spelling in spellings if spelling in functions), None)
    if function is None or not all(np.issubdtype(array.dtype, np.integer) for array in arrays):
        return None
    exact = np.vectorize(functools.partial(_call_with_integers, function), otypes=[object])(*arrays)
    return np.asarray(exact, dtype)


def _call_with_integers(function: AnyFunction, *values: int) -> object:
    return function(*map(int, values))


def _as_signed(value: int, bits: int) -> int:
    return value - (1 << bits) if value >> (bits - 1) else value
