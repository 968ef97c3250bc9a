"""bfloat16 in numpy: as the 16 bits of each number, since numpy has no such type."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt


def to_bits(values: npt.NDArray[np.float32]) -> npt.NDArray[np.uint16]:
    """float32 → bfloat16, rounded to nearest even; NaN stays NaN."""
    bits = np.ascontiguousarray(values).view(np.uint32)
    rounded = ((bits.astype(np.uint64) + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)
    return np.where(np.isnan(values), np.uint16(0x7FC0), rounded).astype(np.uint16)


def from_bits(bits: npt.NDArray[np.uint16]) -> npt.NDArray[np.float32]:
    """bfloat16 → float32, exactly."""
    return (np.ascontiguousarray(bits).view(np.uint16).astype(np.uint32) << 16).view(np.float32)
