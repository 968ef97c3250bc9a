"""Bank conflicts: how many transactions a warp's accesses to shared memory need, relative to the minimum.

Shared memory has 32 banks of 4 bytes. In one transaction a bank delivers one word, so lanes that access different words
of the same bank are served one after another. The hardware splits wide accesses so that each part has as many bytes as
the banks together: half a warp for 8 bytes, a quarter for 16. Only the distances between lanes matter, not where a
kernel's arrays begin. Accesses with unknown addresses are ignored, and so are ldmatrix and stmatrix.
"""

from __future__ import annotations

from collections.abc import Sequence

from kernellab.codeanalysis.warp import Warp
from kernellab.machinecode.instruction_classes import classify
from kernellab.machinecode.ptx import PtxFunction

_BANKS, _WORD_BYTES, _WARP = 32, 4, 32


def transaction_ratio(kernel: PtxFunction, arguments: Sequence[int | None], block: Sequence[int]) -> float | None:
    """Transactions of the first warp's accesses over the fewest possible; 1 is free of conflicts.

    `arguments` are those of the launch, None for a pointer. The result is None if no address is known.
    """
    warp = Warp(kernel, arguments, block)
    transactions = fewest = 0
    for line in warp.reachable(kernel.body):
        kind = classify(line)
        if kind.name in ("shared_load", "shared_store") and line.base in ("ld", "st") and kind.bytes:
            addresses = warp.addresses(line)
            if addresses:
                parts = max(1, kind.bytes // _WORD_BYTES)
                size = max(1, _WARP // parts)
                transactions += sum(
                    _count_transactions(addresses[i : i + size], kind.bytes) for i in range(0, len(addresses), size)
                )
                fewest += -(-len(addresses) // size)
        warp.execute(line)
    return transactions / fewest if fewest else None


def _count_transactions(addresses: Sequence[int], size_bytes: int) -> int:
    """The largest number of different words in one bank."""
    words = {at // _WORD_BYTES for start in addresses for at in range(start, start + size_bytes)}
    return max(sum(word % _BANKS == bank for word in words) for bank in range(_BANKS))
