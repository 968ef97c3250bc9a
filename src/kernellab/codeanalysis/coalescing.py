"""Whether a warp's accesses are coalesced: how its addresses lie to each other.

Accesses whose addresses are unknown do not count; where none is known there is no answer.

Several instructions may take parts of one sector. Stores find each other again in L2. Loads do so in L1, as long as
what a warp touches stays there: where that is more than its share of L1, each load fetches its sectors anew.
"""

from __future__ import annotations

from collections.abc import Sequence

from kernellab.codeanalysis.warp import Warp
from kernellab.machinecode.instruction_classes import classify
from kernellab.machinecode.ptx import Entry

SECTOR_BYTES = 32
_FEWEST_LANES = 16  # that must differ: a value all lanes share is one sector, and nobody's fault
_LOADS = ("global_load", "async_copy")


def spread(
    entry: Entry, values: Sequence[int | None], block: Sequence[int], l1_share_bytes: float | None = None
) -> float | None:
    """Sectors the first warp's loads and stores touch, over the fewest that would hold what they move; 1 is coalesced.

    `values` are the launch's arguments in order, None for a pointer. `l1_share_bytes` is what a warp has of L1 when all
    that fit on an SM are there; None takes L1 to hold everything.
    """
    loads: list[tuple[set[int], set[int]]] = []
    stores: list[tuple[set[int], set[int]]] = []
    warp = Warp(entry, values, block)
    for line in warp.followed(entry.body):
        kind = classify(line)
        if kind.name in (*_LOADS, "global_store") and kind.bytes:
            starts = set(warp.address(line))
            if len(starts) >= _FEWEST_LANES:
                (loads if kind.name in _LOADS else stores).append(_touched(starts, kind.bytes))
        warp.do(line)
    read = set().union(*(sectors for sectors, _ in loads))
    stays = l1_share_bytes is None or len(read) * SECTOR_BYTES <= l1_share_bytes
    groups = [*([_together(loads)] if stays else loads), _together(stores)]
    moved = sum(len(bytes_moved) for _, bytes_moved in groups)
    return sum(len(sectors) for sectors, _ in groups) * SECTOR_BYTES / moved if moved else None


def _touched(starts: set[int], size_bytes: int) -> tuple[set[int], set[int]]:
    """The sectors of one instruction, and its bytes."""
    moved = {at for start in starts for at in range(start, start + size_bytes)}
    return {at // SECTOR_BYTES for at in moved}, moved


def _together(each: list[tuple[set[int], set[int]]]) -> tuple[set[int], set[int]]:
    return set().union(*(sectors for sectors, _ in each)), set().union(*(moved for _, moved in each))
