"""How many blocks of a kernel fit on one multiprocessor, what limits that, and what would lift the limit.

The rules are CUDA's own (`cuda_occupancy.h`). A warp gets its registers in steps, from one of the SM's four register
files; a block gets its shared memory in steps, plus what the driver keeps for itself; the SRAM is taken to be split in
favour of shared memory as far as the kernel needs it, which is what the driver does unless told otherwise.

More resident warps hide more latency, up to a point: occupancy is room to hide, not speed. Clusters do not change what
fits on an SM, but all blocks of one must find room in one group of SMs (GPC) at once: how many fit on a GPU only
`cudaOccupancyMaxActiveClusters` knows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from kernellab.errors import UserError
from kernellab.machine.chips import Chip

# In the order in which they are named when several hold at once: what can be changed without changing the block first.
_RESOURCES = ("registers", "shared", "barriers", "threads", "blocks")

# As people say it after "limited by", where that is not the resource's name here.
LIMITERS = {"shared": "shared memory", "barriers": "named barriers"}


@dataclass(frozen=True)
class Occupancy:
    """`limits` has the blocks each resource allows, None where it limits nothing; `blocks_per_sm` 0 cannot launch."""

    blocks_per_sm: int
    warps_per_sm: int
    fraction: float
    limiter: str  # threads, blocks, registers, shared or barriers
    limits: dict[str, int | None]
    remedy: str
    warps_per_block: int
    shared_split_bytes: int  # how much of the SRAM must be shared memory for this; the rest is L1
    l1_bytes: int


def occupancy(
    chip: Chip, threads: int, registers: int, shared_bytes: int = 0, cluster: int = 1, *, barriers: int = 1
) -> Occupancy:
    """`registers` per thread, `shared_bytes` per block (static and dynamic together), `barriers` of bar.sync."""
    _plausible(chip, threads, registers, shared_bytes, cluster, barriers)
    limits = _limits(chip, threads, registers, shared_bytes, barriers)
    warps = _warps(chip, threads)
    allowed = {name: limit for name, limit in limits.items() if limit is not None}
    blocks = min(allowed.values())
    limiters = [name for name in _RESOURCES if allowed.get(name) == blocks]
    split = _split(chip, blocks * _allocated(chip, shared_bytes))
    return Occupancy(
        blocks_per_sm=blocks,
        warps_per_sm=blocks * warps,
        fraction=blocks * warps / chip.warps_per_sm,
        # A full SM is full, whatever else would not have let another block in either.
        limiter="threads" if blocks * warps == chip.warps_per_sm else limiters[0],
        limits=limits,
        remedy=_remedy(chip, threads, registers, shared_bytes, barriers, blocks, limiters),
        warps_per_block=warps,
        shared_split_bytes=split,
        l1_bytes=chip.l1_and_shared_bytes - split,
    )


def shared_for(chip: Chip, threads: int, registers: int, blocks: int) -> int:
    """The shared memory per block, in bytes, with which exactly so many blocks fit."""
    if blocks < 1:
        raise UserError(f"{blocks} blocks on an SM: at least 1")
    room = chip.shared_per_sm_bytes // blocks // chip.shared_unit_bytes * chip.shared_unit_bytes
    asked = max(0, min(room - chip.shared_reserved_bytes, chip.shared_per_block_bytes))
    found = occupancy(chip, threads, registers, asked).blocks_per_sm
    if found != blocks:
        raise UserError(f"{blocks} blocks of {threads} threads cannot be had on an SM of {chip.arch}: {found} fit")
    return asked


def _plausible(chip: Chip, threads: int, registers: int, shared_bytes: int, cluster: int, barriers: int) -> None:
    if threads < 1:
        raise UserError(f"a block of {threads} threads: it has at least 1")
    if not 0 <= registers <= chip.registers_per_thread:
        raise UserError(f"{registers} registers per thread: {chip.arch} has up to {chip.registers_per_thread}")
    if shared_bytes < 0 or barriers < 0:
        raise UserError("shared memory and barriers cannot be negative")
    if not 1 <= cluster <= chip.max_cluster:
        most = f"up to {chip.max_cluster} blocks" if chip.max_cluster > 1 else "no clusters: they come with sm_90"
        raise UserError(f"a cluster of {cluster}: {chip.arch} has {most}")


def _limits(chip: Chip, threads: int, registers: int, shared_bytes: int, barriers: int) -> dict[str, int | None]:
    warps = _warps(chip, threads)
    return {
        "threads": chip.warps_per_sm // warps if threads <= chip.threads_per_block else 0,
        "blocks": chip.blocks_per_sm,
        "registers": _by_registers(chip, warps, registers),
        "shared": _by_shared(chip, shared_bytes),
        # An SM has at least one for each block it holds: who uses no more is limited by the blocks.
        "barriers": None if chip.barriers_per_sm is None or barriers < 2 else chip.barriers_per_sm // barriers,
    }


def _warps(chip: Chip, threads: int) -> int:
    return -(-threads // chip.warp_threads)


def _by_registers(chip: Chip, warps: int, registers: int) -> int | None:
    if registers == 0:
        return None
    per_warp = _up(registers * chip.warp_threads, chip.register_unit)
    # The hardware admits a block as if it took the same number of warps in every part of the SM.
    if per_warp * _up(warps, chip.warp_unit) > chip.registers_per_block:
        return 0
    in_a_part = chip.registers_per_sm // chip.warp_unit // per_warp
    return in_a_part * chip.warp_unit // warps


def _by_shared(chip: Chip, shared_bytes: int) -> int | None:
    if shared_bytes > chip.shared_per_block_bytes:
        return 0
    allocated = _allocated(chip, shared_bytes)
    return chip.shared_per_sm_bytes // allocated if allocated else None


def _allocated(chip: Chip, shared_bytes: int) -> int:
    return _up(shared_bytes + chip.shared_reserved_bytes, chip.shared_unit_bytes)


def _split(chip: Chip, needed_bytes: int) -> int:
    return next((size for size in chip.shared_splits if size >= needed_bytes), chip.shared_splits[-1])


def _up(value: int, unit: int) -> int:
    return -(-value // unit) * unit


# What would lift it ------------------------------------------------------------------------------------


def _remedy(
    chip: Chip, threads: int, registers: int, shared_bytes: int, barriers: int, blocks: int, limiters: list[str]
) -> str:
    """One sentence; where several resources hold at the same number of blocks, all of them must give way."""
    warps = _warps(chip, threads)
    if blocks * warps == chip.warps_per_sm:
        return "nothing to lift: every warp slot is taken"
    if threads > chip.threads_per_block:
        return f"a block has at most {chip.threads_per_block} threads: launch smaller ones"
    if "blocks" in limiters:
        least = chip.threads_per_sm // chip.blocks_per_sm
        return f"an SM holds {chip.blocks_per_sm} blocks whatever their size: use blocks of {least} threads or more"
    needs = []
    if "threads" in limiters:
        needs.append(_other_size(chip, threads, registers, shared_bytes, barriers))
    if "registers" in limiters:
        fewer = _most(registers, lambda r: (_by_registers(chip, warps, r) or 0) > blocks)
        needs.append(f"{fewer} registers per thread or fewer" if fewer else "smaller blocks")
    if "shared" in limiters:
        room = chip.shared_per_sm_bytes // (blocks + 1) // chip.shared_unit_bytes * chip.shared_unit_bytes
        less = min(room - chip.shared_reserved_bytes, chip.shared_per_block_bytes)
        needs.append(f"{less} bytes of shared memory per block or less")
    if "barriers" in limiters:
        needs.append("fewer named barriers")
    if "threads" in limiters:
        # Another size of block may be all it takes: the others were counted at this size.
        return needs[0] if needs[0] or len(needs) == 1 else f"smaller blocks with {' and '.join(needs[1:])}"
    now, after = (f"{100 * n * warps / chip.warps_per_sm:.0f} %" for n in (blocks, blocks + 1))
    if not blocks:
        return f"{' and '.join(needs)} would let a block be launched at all"
    return f"{' and '.join(needs)} would let {blocks + 1} blocks fit ({now} → {after} of the warps)"


def _other_size(chip: Chip, threads: int, registers: int, shared_bytes: int, barriers: int) -> str:
    """The size of block that would fill most warp slots, everything else as it is; empty where none does better."""

    def warps_at(size: int) -> int:
        limits = _limits(chip, size, registers, shared_bytes, barriers).values()
        return min(limit for limit in limits if limit is not None) * _warps(chip, size)

    sizes = range(chip.warp_threads, chip.threads_per_block + 1, chip.warp_threads)
    best = max(sizes, key=lambda size: (warps_at(size), -abs(size - threads)))
    over = chip.warps_per_sm - warps_at(threads)
    left = chip.warps_per_sm - warps_at(best)
    if left >= over:
        return ""
    say = "none" if left == 0 else str(left)
    return f"blocks of this size leave {over} of {chip.warps_per_sm} warp slots over: {best} threads leave {say}"


def _most(value: int, good: Callable[[int], bool]) -> int:
    return next((v for v in range(value, 0, -1) if good(v)), 0)
