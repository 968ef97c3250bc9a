"""Triton's interpreter, made to round like a GPU. It lives in a process of its own: nothing compiles there."""

from __future__ import annotations

import os
from typing import Any

import numpy as np


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


def to_bfloat16_bits(values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """float32 → bfloat16 as uint16 bits, to nearest even, NaN staying NaN."""
    bits = np.ascontiguousarray(values).view(np.uint32)
    rounded = ((bits.astype(np.uint64) + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)
    return np.where(np.isnan(values), np.uint16(0x7FC0), rounded).astype(np.uint16)


def from_bfloat16_bits(values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """bfloat16 as uint16 bits → float32, exactly."""
    return (np.ascontiguousarray(values).view(np.uint16).astype(np.uint32) << 16).view(np.float32)
