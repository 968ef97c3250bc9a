"""Coalescing: how many sectors of memory a warp's accesses touch, relative to the minimum.

Accesses with unknown addresses are ignored. If no address is known, the result is None.

Several instructions may access parts of the same sector. Stores are merged in L2. Loads are merged in L1 as long as the
data that a warp touches stays there: if it exceeds the warp's share of L1, each load fetches its sectors again.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from kernellab.codeanalysis.warp import Warp
from kernellab.machinecode.instruction_classes import classify
from kernellab.machinecode.ptx import PtxFunction

SECTOR_BYTES = 32
_MIN_DIFFERENT_ADDRESSES = 16  # with fewer, most lanes share a value, and one sector for it is the best possible
_LOADS = ("global_load", "async_copy")


@dataclass(frozen=True)
class _Traffic:
    """The sectors that accesses touch, and the addresses of the bytes they move."""

    sectors: frozenset[int]
    bytes: frozenset[int]


def sector_ratio(
    kernel: PtxFunction,
    arguments: Sequence[int | None],
    block: Sequence[int],
    l1_share_bytes: float | None = None,
) -> float | None:
    """Sectors that the first warp's loads and stores touch, over the fewest that hold their bytes; 1 is coalesced.

    `arguments` are those of the launch in order, None for a pointer. `l1_share_bytes` is a warp's share of L1 when the
    SM is full; None means that L1 holds everything.
    """
    loads: list[_Traffic] = []
    stores: list[_Traffic] = []
    warp = Warp(kernel, arguments, block)
    for line in warp.reachable(kernel.body):
        kind = classify(line)
        if kind.name in (*_LOADS, "global_store") and kind.bytes:
            starts = set(warp.addresses(line))
            if len(starts) >= _MIN_DIFFERENT_ADDRESSES:
                (loads if kind.name in _LOADS else stores).append(_traffic(starts, kind.bytes))
        warp.execute(line)
    all_loads = _merge(loads)
    fits_l1 = l1_share_bytes is None or len(all_loads.sectors) * SECTOR_BYTES <= l1_share_bytes
    groups = [*([all_loads] if fits_l1 else loads), _merge(stores)]
    moved = sum(len(group.bytes) for group in groups)
    return sum(len(group.sectors) for group in groups) * SECTOR_BYTES / moved if moved else None


def _traffic(starts: set[int], size_bytes: int) -> _Traffic:
    """The traffic of one instruction, from the addresses of its lanes."""
    moved = frozenset(at for start in starts for at in range(start, start + size_bytes))
    return _Traffic(frozenset(at // SECTOR_BYTES for at in moved), moved)


def _merge(parts: Iterable[_Traffic]) -> _Traffic:
    parts = list(parts)
    sectors: frozenset[int] = frozenset().union(*(part.sectors for part in parts))
    return _Traffic(sectors, frozenset().union(*(part.bytes for part in parts)))
