"""How large the tiles of the Triton kernels are, and with how many warps and stages they run: one table.

Nothing is tuned at run time. The reasons given here are what the compiled code shows: registers of a thread, shared
memory of a block, spills. None was timed yet.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import NamedTuple

import torch

from kernellab.ops.gpus import capability

WIDEST_HEAD, OLDEST_GPU = 256, (8, 0)
PASSES = ("forward", "keys", "queries", "atomic")  # the last one is that of the keys, which adds to dq too


class Sizes(NamedTuple):
    """A tile has `queries` × `keys` pairs. `described`: the copy engine loads what a loop walks along, if it can."""

    queries: int
    keys: int
    warps: int
    stages: int
    described: bool = False


# By pass: sizes for heads of up to 64, 128 and 256 columns.
_Table = dict[str, tuple[Sizes, Sizes, Sizes]]

_HOPPER_16_BITS: _Table = {
    "forward": (
        Sizes(128, 64, 4, 3, True),  # 2 blocks on an SM: one multiplies while the other one takes exponentials
        Sizes(128, 128, 8, 2, True),  # scores and y take 64 registers each; 64 keys would read k and v as often
        Sizes(128, 64, 8, 2, True),  # y takes 128 registers, scores 32
    ),
    "keys": (
        Sizes(64, 64, 4, 2, True),  # 3 blocks on an SM
        Sizes(64, 128, 8, 2, True),  # dk and dv take 64 registers each, both tiles of pairs 32: 128 queries would spill
        Sizes(32, 64, 8, 2, True),  # dk and dv take 64 registers each, of half as many keys
    ),
    "queries": (
        Sizes(128, 128, 8, 2, True),  # 190 registers
        Sizes(128, 64, 8, 2, True),  # 179 registers; with 128 keys 255 and spills
        Sizes(64, 32, 4, 2, True),  # 241 registers; with 128 queries 255 and spills
    ),
    "atomic": (
        Sizes(64, 128, 8, 2, True),  # 180 registers; with 128 queries 255 and spills
        Sizes(64, 128, 8, 2, True),  # spills 128 bytes; with 32 queries dq's product would not use wgmma
        Sizes(32, 64, 8, 2, True),
    ),
}

# Scores and sums are in the memory of the tensor cores; a thread reads those of one row at a time.
_BLACKWELL_16_BITS: _Table = {
    **_HOPPER_16_BITS,
    "forward": (
        Sizes(128, 128, 8, 2, True),  # with 4 warps a thread has whole rows, and spills
        Sizes(128, 128, 8, 2, True),
        Sizes(128, 32, 8, 2, True),  # with 64 keys it spills
    ),
    "keys": (
        Sizes(64, 128, 8, 2, True),  # 164 registers; with 128 queries 255 and spills
        Sizes(64, 128, 8, 2, True),
        Sizes(32, 64, 8, 2, True),
    ),
}

# Operands come from shared memory through registers. Tiles fit into the 99 KiB of GPUs with little shared memory.
_OTHERS_16_BITS: _Table = {
    "forward": (
        Sizes(128, 64, 4, 3),  # with 128 keys as many registers, and twice the warps
        Sizes(128, 64, 8, 2),  # with 4 warps it spills
        Sizes(64, 32, 8, 2),  # with 4 warps, or 128 queries, it spills
    ),
    "keys": (
        Sizes(32, 128, 8, 2),  # 175 registers; with 64 queries 255 and spills
        Sizes(32, 64, 4, 2),  # with 128 keys it spills
        Sizes(16, 64, 8, 2),
    ),
    "queries": (
        Sizes(128, 64, 8, 2),  # with 4 warps it spills
        Sizes(128, 32, 8, 2),  # 195 registers
        Sizes(64, 32, 8, 1),  # 212 registers; with 128 queries it spills
    ),
    "atomic": (Sizes(32, 128, 8, 2), Sizes(32, 64, 4, 2), Sizes(16, 64, 8, 2)),
}

# Without tensor cores a thread has rows and columns of both operands in registers: only small tiles do not spill.
_32_BITS: _Table = {
    "forward": (Sizes(64, 32, 8, 2), Sizes(32, 32, 8, 2), Sizes(32, 16, 8, 2)),
    "keys": (Sizes(32, 32, 8, 2), Sizes(16, 32, 8, 2), Sizes(32, 16, 8, 2)),
    "queries": (Sizes(32, 32, 4, 2), Sizes(32, 32, 8, 2), Sizes(32, 16, 8, 2)),
    "atomic": (Sizes(32, 32, 8, 2), Sizes(16, 32, 8, 2), Sizes(16, 16, 8, 2)),
}

_others: dict[str, Sizes] = {}


def sizes_for(pass_name: str, x: torch.Tensor, head_width: int) -> Sizes:
    """The sizes for tensors like x, of heads of so many columns."""
    if pass_name in _others:
        return _others[pass_name]
    if x.dtype == torch.float32:
        table = _32_BITS
    else:
        major = capability(x.device)[0]
        table = {9: _HOPPER_16_BITS, 10: _BLACKWELL_16_BITS}.get(major, _OTHERS_16_BITS)
    return table[pass_name][0 if head_width <= 64 else 1 if head_width <= 128 else 2]


@contextlib.contextmanager
def use_sizes(**sizes: Sizes) -> Iterator[None]:
    """In the body, other sizes for the named passes, to compare them."""
    before = dict(_others)
    _others.update(sizes)
    try:
        yield
    finally:
        _others.clear()
        _others.update(before)
