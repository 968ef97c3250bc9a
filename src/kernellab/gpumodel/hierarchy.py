"""The parts a program meets on a GPU or a CPU, from the whole grid down to a thread and from registers to memory.

Each part as a row: what it is, who sees it, how much of it there is here, and what matters about it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kernellab.machine.chips import Chip


@dataclass(frozen=True)
class Row:
    """`kind` is logical (the program's) or physical (the machine's)."""

    name: str
    kind: str
    scope: str
    capacity: str
    matters: str


def gpu_rows(chip: Chip, sms: int, l2_bytes: int | None, memory: str) -> list[Row]:
    """`memory` is the capacity in words: `80 GB HBM2e, 2039 GB/s`."""
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
            "its blocks run at the same time and reach each other's shared memory",
        )
    ]
    return [
        Row(
            "grid",
            "logical",
            "one launch",
            "2,147,483,647 × 65,535 × 65,535 blocks",
            f"blocks run in any order, on any SM; {4 * sms} or more (4 × {sms} SMs) keep the last round cheap",
        ),
        *(clusters if chip.max_cluster > 1 else []),
        Row(
            "block",
            "logical",
            "one SM",
            f"{chip.threads_per_block} threads per block; {chip.blocks_per_sm} blocks per SM",
            "stays on its SM from beginning to end; its threads share shared memory and barriers",
        ),
        Row(
            "warp",
            "physical",
            "one of 4 schedulers",
            f"{chip.warp_threads} threads; {chip.warps_per_sm} warps per SM",
            "its threads go in step; a scheduler that switches to another warp hides the wait of the first",
        ),
        Row(
            "thread",
            "logical",
            "itself",
            f"{chip.threads_per_sm} per SM; {chip.registers_per_thread} registers each at most",
            "threads of a warp that branch apart take turns",
        ),
        Row(
            "SM",
            "physical",
            "the GPU",
            f"{sms} SMs ({chip.generation}, {chip.arch}), 4 schedulers each",
            "an SM with more blocks than the others ends last: see klab waves",
        ),
        Row(
            "registers",
            "physical",
            "a thread",
            f"{chip.registers_per_sm:,} of 4 bytes per SM ({chip.registers_per_sm * 4 // kb} KB)",
            "the fastest memory; the more a thread takes, the fewer warps fit; what does not fit spills to memory",
        ),
        Row(
            "shared memory",
            "physical",
            "a block",
            f"{chip.shared_per_sm_bytes // kb} KB of the SM's {chip.l1_and_shared_bytes // kb} KB; "
            f"{chip.shared_per_block_bytes // kb} KB per block, {chip.shared_static_bytes // kb} KB without asking",
            f"one SRAM with L1, split as kernels need it: {splits} KB; 32 banks, a conflict takes turns",
        ),
        Row(
            "L1",
            "physical",
            "an SM",
            f"what shared memory leaves of {chip.l1_and_shared_bytes // kb} KB: "
            f"{smallest_l1 // kb} to {largest_l1 // kb} KB",
            "gathers a warp's accesses into lines of 128 bytes; does not see what other SMs write",
        ),
        Row(
            "L2",
            "physical",
            "the GPU",
            "not known" if l2_bytes is None else f"{_megabytes(l2_bytes)} MB",
            "all traffic goes global → L2 → L1 or shared → registers; atomics are done here",
        ),
        Row(
            "global memory",
            "physical",
            "the GPU",
            memory,
            "a warp's accesses to one line coalesce into one; blocks that write one line do not slow each other: "
            "there is no false sharing as on a CPU",
        ),
    ]


def cpu_rows(cpu: Mapping[str, Any], caches: Sequence[Mapping[str, Any]]) -> list[Row]:
    """`cpu` as `machine.environment` tells it, `caches` as `machine.caches` does."""
    rows = [
        Row(
            "thread",
            "logical",
            "a core",
            "as many as wanted",
            "more threads than cores take turns: by default one each",
        ),
        Row(
            "core", "physical", "itself", f"{cpu['cores']} cores for this process", "fast alone; vectors are its warps"
        ),
    ]
    for cache in caches:
        shared = "a core" if cache["cores"] == 1 else f"{cache['cores']} cores"
        rows.append(Row(f"L{cache['level']}", "physical", shared, _size(cache["bytes"]), _CACHES[cache["level"]]))
    memory = f"{cpu['memory_bytes'] / 2**30:.0f} GiB"
    rows.append(Row("memory", "physical", "all cores", memory, "all cores share its bandwidth; a few can use it up"))
    return rows


_CACHES = {
    1: "lines of 64 bytes; two cores that write one line take it from each other: false sharing",
    2: "holds a core's working set",
    3: "what fits here is read many times faster than memory: timings empty it first",
    4: "what fits here is read faster than memory",
}


def _megabytes(size: int) -> str:
    return f"{size / 2**20:g}"


def _size(size: int) -> str:
    return f"{size / 2**20:g} MB" if size >= 2**20 else f"{size / 2**10:g} KB"
