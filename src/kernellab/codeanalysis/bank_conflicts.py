"""Whether a warp's accesses to shared memory meet in the same banks: how its addresses lie to each other.

Shared memory has 32 banks of 4 bytes, and a bank gives one word in a go. Lanes that ask for other words of one bank are
served one after the other. Wide accesses are taken in parts, so that each has as many bytes as the banks together:
halves of the warp for 8 bytes, quarters for 16. Where a kernel's arrays begin does not matter, only how far lanes lie
apart. Addresses that are not known do not count, nor do ldmatrix and stmatrix.
"""

from __future__ import annotations

from collections.abc import Sequence

from kernellab.codeanalysis.warp import Warp
from kernellab.machinecode.instruction_classes import classify
from kernellab.machinecode.ptx import Entry

_BANKS, _WORD_BYTES, _WARP = 32, 4, 32


def conflicts(entry: Entry, values: Sequence[int | None], block: Sequence[int]) -> float | None:
    """Goes that the first warp's accesses take, over the fewest that would do; None where no address is known."""
    warp = Warp(entry, values, block)
    taken = fewest = 0
    for line in warp.followed(entry.body):
        kind = classify(line)
        if kind.name in ("shared_load", "shared_store") and line.base in ("ld", "st") and kind.bytes:
            address = warp.address(line)
            if address:
                parts = max(1, kind.bytes // _WORD_BYTES)
                size = max(1, _WARP // parts)
                taken += sum(_goes(address[at : at + size], kind.bytes) for at in range(0, len(address), size))
                fewest += -(-len(address) // size)
        warp.do(line)
    return taken / fewest if fewest else None


def _goes(address: Sequence[int], size_bytes: int) -> int:
    """The most different words of one bank."""
    words = {at // _WORD_BYTES for start in address for at in range(start, start + size_bytes)}
    return max(sum(word % _BANKS == bank for word in words) for bank in range(_BANKS))
