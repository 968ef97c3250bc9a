"""Triton's interpreter, made to compute like a GPU. It lives in a process of its own: nothing compiles there.

It keeps bfloat16 as the integers of its bits and does arithmetic with those. Here bfloat16 is widened, computed with in
float32 and rounded, as GPUs do.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable
from typing import Any

import numpy as np

# What the interpreter's builder computes with, and which of its arguments the result has the type of.
_ARITHMETIC = {"binary_op": 0, "unary_op": 0, "ternary_op": 2, "create_fma": 2, "create_dot": 2}
_COMPARISONS = (np.less, np.less_equal, np.greater, np.greater_equal, np.equal, np.not_equal)


def prepare() -> None:
    """Switch the interpreter on; to be called before anything imports triton."""
    os.environ["TRITON_INTERPRET"] = "1"
    try:
        import triton.language as tl
        from triton._C.libtriton import ir
        from triton.runtime import interpreter
    except ImportError:  # the check will say that triton is missing
        return
    theirs = interpreter._convert_float
    toward_zero = ir.ROUNDING_MODE.RTZ

    def convert(values: Any, source: Any, target: Any, rounding: Any) -> Any:
        # Theirs truncates float32 → bfloat16, where every GPU rounds to nearest even.
        if source == tl.float32 and target == tl.bfloat16 and rounding != toward_zero:
            return to_bfloat16_bits(values)
        if source == tl.bfloat16 and target == tl.float32:  # theirs gets denormals wrong
            return from_bfloat16_bits(values)
        return theirs(values, source, target, rounding)

    interpreter._convert_float = convert
    _compute_in_float32(interpreter, tl)
    if hasattr(interpreter, "_patch_builtin") and hasattr(interpreter, "_patch_attr"):
        _find_builtins_once(interpreter, tl.core.is_builtin)


def _compute_in_float32(interpreter: Any, tl: Any) -> None:
    builder, handle = interpreter.InterpreterBuilder, interpreter.TensorHandle

    def is_bfloat16(value: Any) -> bool:
        return isinstance(value, handle) and value.dtype.scalar == tl.bfloat16

    def wide(value: Any) -> Any:
        return handle(from_bfloat16_bits(value.data), tl.float32) if is_bfloat16(value) else value

    def narrow(value: Any) -> Any:
        return handle(to_bfloat16_bits(value.data.astype(np.float32)), tl.bfloat16)

    def widened(theirs: Callable[..., Any], typed_as: int) -> Callable[..., Any]:
        def compute(self: Any, *args: Any) -> Any:
            # Choosing leaves the bits as they are.
            if not any(map(is_bfloat16, args)) or any(arg is np.where for arg in args):
                return theirs(self, *args)
            result = theirs(self, *map(wide, args))
            compared = any(arg is one for arg in args for one in _COMPARISONS)
            return narrow(result) if is_bfloat16(args[typed_as]) and not compared else result

        return compute

    for name, typed_as in _ARITHMETIC.items():
        setattr(builder, name, widened(getattr(builder, name), typed_as))
    cast = builder.cast_impl

    def cast_impl(self: Any, source: Any, target: Any) -> Any:
        if target.scalar == tl.bfloat16:
            return source if is_bfloat16(source) else narrow(cast(self, source, tl.float32))
        return cast(self, wide(source), target)

    builder.cast_impl = cast_impl
    _reduce_in_float32(interpreter, tl, wide, narrow)
    if not hasattr(builder, "get_bf16"):  # a constant
        builder.get_bf16 = lambda self, value: narrow(handle(np.array([value], dtype=np.float32), tl.float32))


def _reduce_in_float32(interpreter: Any, tl: Any, wide: Callable[..., Any], narrow: Callable[..., Any]) -> None:
    """The reductions and scans it leaves to numpy; others go through the arithmetic above step by step."""

    def retyped(tensor: Any, handle: Any, dtype: Any) -> Any:
        kind = tl.block_type(dtype, list(tensor.shape)) if tensor.type.is_block() else dtype
        return tl.core.tensor(handle, kind)

    def widened(theirs: Callable[..., Any]) -> Callable[..., Any]:
        def reduce(self: Any, given: Any, *how: Any, **more: Any) -> Any:
            if given.dtype != tl.bfloat16:
                return theirs(self, given, *how, **more)
            found = theirs(self, retyped(given, wide(given.handle), tl.float32), *how, **more)
            several = isinstance(found, list | tuple)
            rounded = [
                retyped(one, narrow(one.handle), tl.bfloat16) if one.dtype == tl.float32 else one
                for one in (found if several else [found])
            ]
            return rounded if several else rounded[0]

        return reduce

    for owner, names in ((interpreter.ReduceOps, ("sum", "min_max")), (interpreter.ScanOps, ("cumsum", "cumprod"))):
        for name in names:
            setattr(owner, name, widened(getattr(owner, name)))


def _find_builtins_once(interpreter: Any, is_builtin: Callable[[Any], bool]) -> None:
    """Theirs goes through the whole language whenever a kernel calls a function like tl.sum: a third of all time."""
    names: dict[Any, list[str]] = {}

    def patch(owner: Any, *how: Any) -> None:
        if owner not in names:
            names[owner] = [name for name, _ in inspect.getmembers(owner, is_builtin)]
        for name in names[owner]:
            member = getattr(owner, name)
            if is_builtin(member):  # what is patched already is none
                interpreter._patch_attr(owner, name, member, *how)

    interpreter._patch_builtin = patch


def to_bfloat16_bits(values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """float32 → bfloat16 as uint16 bits, to nearest even, NaN staying NaN."""
    bits = np.ascontiguousarray(values).view(np.uint32)
    rounded = ((bits.astype(np.uint64) + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)
    return np.where(np.isnan(values), np.uint16(0x7FC0), rounded).astype(np.uint16)


def from_bfloat16_bits(values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """bfloat16 as uint16 bits → float32, exactly."""
    return (np.ascontiguousarray(values).view(np.uint16).astype(np.uint32) << 16).view(np.float32)
