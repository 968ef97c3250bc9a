"""The hierarchy of a GPU or a CPU as a table: from the grid down to a thread, and from registers to memory.

Each row has a part, its scope, its capacity on this device, and what matters about it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kernellab.machine.chips import Chip


@dataclass(frozen=True)
class Row:
    """`kind` is logical (part of the program) or physical (part of the device)."""

    name: str
    kind: str
    scope: str
    capacity: str
    matters: str


def gpu_rows(chip: Chip, sms: int, l2_bytes: int | None, memory: str) -> list[Row]:
    """The rows of a GPU. `memory` describes the capacity: `80 GB HBM2e, 2039 GB/s`."""
    kb = 1024
    smallest_l1 = chip.l1_and_shared_bytes - chip.shared_splits[-1]
    largest_l1 = chip.l1_and_shared_bytes - chip.shared_splits[0]
    splits = ", ".join(str(size // kb) for size in chip.shared_splits)
    clusters = [
        Row(
            "cluster",
            "logical",
            "neighbouring SMs",
            f"{chip.max_cluster} blocks" + (", 8 on any GPU that has clusters" if chip.max_cluster > 8 else ""),
            "its blocks run at the same time and can access each other's shared memory",
        )
    ]
    return [
        Row(
            "grid",
            "logical",
            "one launch",
            "2,147,483,647 × 65,535 × 65,535 blocks",
            f"blocks run in any order, on any SM; {4 * sms} or more (4 × {sms} SMs) make the last round cheap",
        ),
        *(clusters if chip.max_cluster > 1 else []),
        Row(
            "block",
            "logical",
            "one SM",
            f"{chip.threads_per_block} threads per block; {chip.blocks_per_sm} blocks per SM",
            "stays on one SM until it ends; its threads share shared memory and barriers",
        ),
        Row(
            "warp",
            "physical",
            "one of 4 schedulers",
            f"{chip.warp_threads} threads; {chip.warps_per_sm} warps per SM",
            "its threads execute in lockstep; while it waits, its scheduler issues from another warp",
        ),
        Row(
            "thread",
            "logical",
            "itself",
            f"{chip.threads_per_sm} per SM; {chip.registers_per_thread} registers each at most",
            "threads of a warp that take different branches execute one branch after the other",
        ),
        Row(
            "SM",
            "physical",
            "the GPU",
            f"{sms} SMs ({chip.generation}, {chip.arch}), 4 schedulers each",
            "an SM with more blocks than the others finishes last: see klab waves",
        ),
        Row(
            "registers",
            "physical",
            "a thread",
            f"{chip.registers_per_sm:,} of 4 bytes per SM ({chip.registers_per_sm * 4 // kb} KB)",
            "the fastest memory; the more a thread uses, the fewer warps fit; what does not fit is spilled to memory",
        ),
        Row(
            "shared memory",
            "physical",
            "a block",
            f"{chip.shared_per_sm_bytes // kb} KB of the SM's {chip.l1_and_shared_bytes // kb} KB; "
            f"{chip.shared_per_block_bytes // kb} KB per block, {chip.shared_static_bytes // kb} KB without opt-in",
            f"one SRAM with L1, split as kernels need it: {splits} KB; 32 banks, conflicting accesses are serialised",
        ),
        Row(
            "L1",
            "physical",
            "an SM",
            f"the rest of {chip.l1_and_shared_bytes // kb} KB beside shared memory: "
            f"{smallest_l1 // kb} to {largest_l1 // kb} KB",
            "combines a warp's accesses into lines of 128 bytes; not coherent with writes of other SMs",
        ),
        Row(
            "L2",
            "physical",
            "the GPU",
            "not known" if l2_bytes is None else _megabytes(l2_bytes),
            "all traffic goes global → L2 → L1 or shared → registers; atomics execute here",
        ),
        Row(
            "global memory",
            "physical",
            "the GPU",
            memory,
            "a warp's accesses to one line are coalesced into one; blocks that write to the same line do not slow each "
            "other down: there is no false sharing as on a CPU",
        ),
    ]


def cpu_rows(cores: int, memory_bytes: int, caches: Sequence[Mapping[str, int]]) -> list[Row]:
    """The rows of a CPU with this number of cores for this process.

    `caches` are those of one core, nearest first: `level`, `bytes`, `cores`.
    """
    rows = [
        Row(
            "thread",
            "logical",
            "a core",
            "no limit",
            "more threads than cores share the cores in turn; the default is one per core",
        ),
        Row(
            "core",
            "physical",
            "itself",
            f"{cores} cores for this process",
            "fast with a single thread; vector instructions take the place of warps",
        ),
    ]
    for cache in caches:
        scope = "a core" if cache["cores"] == 1 else f"{cache['cores']} cores"
        rows.append(Row(f"L{cache['level']}", "physical", scope, _size(cache["bytes"]), _CACHES[cache["level"]]))
    memory = f"{memory_bytes / 2**30:.0f} GiB"
    rows.append(
        Row("memory", "physical", "all cores", memory, "all cores share its bandwidth; a few cores can saturate it")
    )
    return rows


_CACHES = {
    1: "lines of 64 bytes; cores that write to the same line invalidate each other's copy: false sharing",
    2: "holds a core's working set",
    3: "data that fits here is read many times faster than from memory; cold timings evict it first",
    4: "data that fits here is read faster than from memory",
}


def _megabytes(size: int) -> str:
    return f"{size / 2**20:g} MB"


def _size(size: int) -> str:
    return _megabytes(size) if size >= 2**20 else f"{size / 2**10:g} KB"
