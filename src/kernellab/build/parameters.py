"""Compares the arguments of a launch with the parameters of the kernel, as its PTX declares them.

The driver is given the address of each argument's value and reads as many bytes as the parameter has: an argument of
another type gives a wrong number and no error. A struct passed by value is not looked into, unless it is a tensor map.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from kernellab.base.errors import UserError
from kernellab.build.tensor_maps import STRUCT_BYTES, TensorMap
from kernellab.machinecode.ptx import Param, parse_ptx

_C_NAMES = {"f32": "a float", "f64": "a double", "f16": "a half", "bf16": "a bfloat16"}
_POINTER_BYTES = 8


def verify_arguments(kernel: str, symbol: str, ptx: str, args: Sequence[object]) -> None:
    """Raise `UserError` if a kernel cannot take these arguments. `symbol`: its name in the PTX."""
    params = entry_parameters(ptx, symbol)
    if len(params) != len(args):
        count = f"{len(params)} argument{'' if len(params) == 1 else 's'}"
        raise UserError(f"CUDA kernel {kernel} takes {count} after grid and block, not {len(args)}")
    for number, (param, value) in enumerate(zip(params, args, strict=True)):
        mismatch = _mismatch(param, value)
        if mismatch is not None:
            raise UserError(
                f"CUDA kernel {kernel}: argument {number} (from 0) is {mismatch.passed}, "
                f"the kernel takes {_describe(param)}: {mismatch.advice}"
            )


def entry_parameters(ptx: str, symbol: str) -> list[Param]:
    """The parameters of a kernel. Only its head is parsed: a body has thousands of lines."""
    start = ptx.index(f".entry {symbol}(")
    (kernel,) = parse_ptx(ptx[start : ptx.index("{", start)] + "{ }").kernels
    return kernel.params


@dataclass(frozen=True)
class _Mismatch:
    passed: str
    advice: str


def _mismatch(param: Param, value: object) -> _Mismatch | None:
    """What is wrong with a value for a parameter; None if nothing is, or if it cannot be told."""
    if isinstance(value, TensorMap):
        if param.count * _size(param) != STRUCT_BYTES:
            return _Mismatch("a tensor map", f"declare the parameter as a struct of {STRUCT_BYTES} bytes")
        return None
    if param.count != 1:  # a struct: which fields it has is not known
        return None
    size, is_float = _size(param), param.type.startswith("f")
    match value:
        case torch.Tensor():
            if is_float or size != _POINTER_BYTES:
                return _Mismatch("a tensor", "declare the parameter as a pointer, or pass a number")
        # Numpy's float64 is a Python float too, and is passed as one.
        case np.generic():
            return _numpy_mismatch(param, value.dtype.kind, value.dtype.itemsize, value.dtype.name)
        case bool():
            if is_float or size != 1:
                return _Mismatch("a Python bool", "pass int(value), or declare the parameter bool")
        case int():
            if is_float:
                return _Mismatch("a Python int", f"pass np.float{8 * size}(value)")
            if not -(1 << (8 * size - 1)) <= value < 1 << (8 * size):
                return _Mismatch(f"the Python int {value}, which does not fit", "declare the parameter long long")
        case float():
            if param.type not in ("f64", "b64"):
                wanted = "np.float32(value)" if param.type == "f32" else "an int"
                advice = f"it is passed as a double. Pass {wanted}, or declare the parameter double"
                return _Mismatch("a Python float", advice)
    return None


def _numpy_mismatch(param: Param, kind: str, itemsize: int, name: str) -> _Mismatch | None:
    size, declared = _size(param), param.type[0]  # f, u, s; b tells the size only
    if itemsize == size and (declared == "b" or (kind == "f") == (declared == "f")):
        return None
    wanted = {"f": "float", "s": "int"}.get(declared, "uint")
    return _Mismatch(f"np.{name}", f"pass np.{wanted}{8 * size}(value)")


def _size(param: Param) -> int:
    return int(param.type.lstrip("bfsu")) // 8


def _describe(param: Param) -> str:
    if param.pointer:
        return "a pointer"
    if param.count != 1:
        return f"a struct of {param.count * _size(param)} bytes"
    bits = 8 * _size(param)
    integer = "an integer or a pointer of 64 bits" if bits == 64 else f"an integer of {bits} bits"
    return _C_NAMES.get(param.type, integer)
