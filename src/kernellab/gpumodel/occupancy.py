"""How many blocks of a kernel fit on one multiprocessor (SM), what limits that, and what would raise the limit.

The rules are CUDA's own (`cuda_occupancy.h`). A warp gets registers in units, from one of the SM's four register files.
A block gets shared memory in units, plus what the driver reserves. The SRAM is split between shared memory and L1 as
the driver does by default: as much shared memory as the kernel needs.

More resident warps can hide more latency, but high occupancy does not guarantee speed. Clusters do not change what fits
on an SM, but all blocks of a cluster must fit into one group of SMs (GPC) at once. How many clusters fit on a GPU is
known only to `cudaOccupancyMaxActiveClusters`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from kernellab.base.errors import UserError
from kernellab.machine.chips import Chip

# The order in which resources are named if several limit at once: first those that do not need another block size.
_RESOURCES = ("registers", "shared", "threads", "blocks", "barriers")
# The names in messages of resources that have another name here.
_RESOURCE_NAMES = {"shared": "shared memory", "barriers": "named barriers"}

# The largest sizes along x, y and z, on every architecture.
_MAX_GRID, _MAX_BLOCK = (2**31 - 1, 65535, 65535), (1024, 1024, 64)


@dataclass(frozen=True)
class Occupancy:
    """`limits` has the number of blocks that each resource allows, None if it limits nothing.

    `refusal` is the reason why CUDA would not launch the kernel, and empty otherwise. With a refusal, `blocks_per_sm`
    is 0 and `remedy` says how to lift it.
    """

    blocks_per_sm: int
    warps_per_sm: int
    fraction: float
    limiter: str  # threads, blocks, registers, shared or barriers: the first of `limiters`
    limiters: list[str]  # all resources that allow no more than this number of blocks
    limits: dict[str, int | None]
    refusal: str
    remedy: str
    warps_per_block: int
    shared_split_bytes: int  # how much of the SRAM is shared memory; the rest is L1
    l1_bytes: int


@dataclass(frozen=True)
class _Block:
    """A requested block, and how many of it each resource allows."""

    chip: Chip
    threads: int
    registers: int
    shared_bytes: int
    barriers: int
    max_threads: int | None = None
    exact: bool = False

    @property
    def warps(self) -> int:
        return -(-self.threads // self.chip.warp_threads)

    @property
    def limits(self) -> dict[str, int | None]:
        chip = self.chip
        barriers = chip.barriers_per_sm
        return {
            "threads": 0 if self.exceeds_chip or self.exceeds_build else chip.warps_per_sm // self.warps,
            "blocks": chip.blocks_per_sm,
            "registers": _blocks_by_registers(chip, self.warps, self.registers),
            "shared": _blocks_by_shared(chip, self.shared_bytes),
            # An SM has at least one barrier for each block: with one per block, the number of blocks limits first.
            "barriers": None if not barriers or self.barriers < 2 else barriers // self.barriers,
        }

    @property
    def blocks_per_sm(self) -> int:
        return min(limit for limit in self.limits.values() if limit is not None)

    @property
    def exceeds_chip(self) -> bool:
        return self.threads > self.chip.threads_per_block

    @property
    def exceeds_build(self) -> bool:
        """Whether the kernel was not compiled for this number of threads."""
        limit = self.max_threads
        return limit is not None and (self.threads != limit if self.exact else self.threads > limit)


def occupancy(
    chip: Chip,
    threads: int,
    registers: int,
    shared_bytes: int = 0,
    cluster: int = 1,
    *,
    barriers: int = 1,
    max_threads: int | None = None,
    exact: bool = False,
) -> Occupancy:
    """The occupancy of a kernel. `registers` is per thread, `shared_bytes` per block, static and dynamic together,
    `barriers` counts those of bar.sync.

    `max_threads` is the largest block that the kernel was compiled for (`__launch_bounds__`); with `exact`, the only
    one.
    """
    _validate(chip, threads, registers, shared_bytes, cluster, barriers)
    block = _Block(chip, threads, registers, shared_bytes, barriers, max_threads, exact)
    blocks, warps, limits = block.blocks_per_sm, block.warps, block.limits
    full = blocks * warps == chip.warps_per_sm
    # On a full SM, only the warp slots are named, even if other resources would not admit another block either.
    limiters = ["threads"] if full else [name for name in _RESOURCES if limits[name] == blocks]
    split = _shared_split(chip, blocks * _allocated_bytes(chip, shared_bytes))
    refusals = [] if blocks else list(_refusals(block))
    return Occupancy(
        blocks_per_sm=blocks,
        warps_per_sm=blocks * warps,
        fraction=blocks * warps / chip.warps_per_sm,
        limiter=limiters[0],
        limiters=limiters,
        limits=limits,
        refusal="; ".join(reason for reason, _ in refusals),
        remedy=_remedy(block, limiters) if blocks else " and ".join(remedy for _, remedy in refusals),
        warps_per_block=warps,
        shared_split_bytes=split,
        l1_bytes=chip.l1_and_shared_bytes - split,
    )


def grid_refusal(grid: Sequence[int], block: Sequence[int]) -> tuple[str, str]:
    """Why CUDA refuses a grid or block of this shape for any kernel, and the remedy; empty if it does not."""
    for name, part, sizes, limits in (("grid", "block", grid, _MAX_GRID), ("block", "thread", block, _MAX_BLOCK)):
        for dim, size, limit in zip("xyz", sizes, limits, strict=False):
            if size > limit:
                reason = f"a {name} has at most {limit} {part}s along {dim}, not {size}"
                return reason, f"distribute the work along {dim} over another dim, or give each {part} more of it"
    return "", ""


def describe_limiters(limiters: Sequence[str]) -> str:
    """`registers and shared memory`."""
    return " and ".join(_RESOURCE_NAMES.get(name, name) for name in limiters)


def shared_bytes_for(chip: Chip, threads: int, registers: int, blocks: int) -> int:
    """The shared memory per block, in bytes, with which exactly this number of blocks fits on an SM."""
    if blocks < 1:
        raise UserError(f"{blocks} blocks on an SM: at least 1")
    available = chip.shared_per_sm_bytes // blocks // chip.shared_unit_bytes * chip.shared_unit_bytes
    requested = max(0, min(available - chip.shared_reserved_bytes, chip.shared_per_block_bytes))
    fitting = occupancy(chip, threads, registers, requested).blocks_per_sm
    if fitting != blocks:
        raise UserError(f"an SM of {chip.arch} cannot hold {blocks} blocks of {threads} threads: {fitting} fit")
    return requested


def _validate(chip: Chip, threads: int, registers: int, shared_bytes: int, cluster: int, barriers: int) -> None:
    if threads < 1:
        raise UserError(f"a block of {threads} threads: it has at least 1")
    if not 0 <= registers <= chip.registers_per_thread:
        raise UserError(f"{registers} registers per thread: {chip.arch} has up to {chip.registers_per_thread}")
    if shared_bytes < 0 or barriers < 0:
        raise UserError("shared memory and barriers cannot be negative")
    if not 1 <= cluster <= chip.max_cluster:
        limit = f"up to {chip.max_cluster} blocks" if chip.max_cluster > 1 else "no clusters: they come with sm_90"
        raise UserError(f"a cluster of {cluster}: {chip.arch} has {limit}")


def _blocks_by_registers(chip: Chip, warps: int, registers: int) -> int | None:
    if registers == 0:
        return None
    per_warp = _round_up(registers * chip.warp_threads, chip.register_unit)
    # The hardware admits a block as if it had the same number of warps in each of the four parts of the SM.
    if per_warp * _round_up(warps, chip.warp_unit) > chip.registers_per_block:
        return 0
    warps_per_part = chip.registers_per_sm // chip.warp_unit // per_warp
    return warps_per_part * chip.warp_unit // warps


def _blocks_by_shared(chip: Chip, shared_bytes: int) -> int | None:
    if shared_bytes > chip.shared_per_block_bytes:
        return 0
    allocated = _allocated_bytes(chip, shared_bytes)
    return chip.shared_per_sm_bytes // allocated if allocated else None


def _allocated_bytes(chip: Chip, shared_bytes: int) -> int:
    return _round_up(shared_bytes + chip.shared_reserved_bytes, chip.shared_unit_bytes)


def _shared_split(chip: Chip, needed_bytes: int) -> int:
    return next((size for size in chip.shared_splits if size >= needed_bytes), chip.shared_splits[-1])


def _round_up(value: int, unit: int) -> int:
    return -(-value // unit) * unit


# Remedies ----------------------------------------------------------------------------------------------


def _refusals(block: _Block) -> Iterator[tuple[str, str]]:
    """Each reason why the block cannot be launched, with its remedy."""
    chip, limits = block.chip, block.limits
    if block.exceeds_build:
        quantifier = "exactly" if block.exact else "at most"
        reason = f"the kernel is compiled for blocks of {quantifier} {block.max_threads} threads, not {block.threads}"
        recompile = "" if block.exceeds_chip else f", or compile it for {block.threads}"
        yield reason, f"launch blocks of {block.max_threads} threads{recompile}"
    elif block.exceeds_chip:
        reason = f"a block of {chip.arch} has at most {chip.threads_per_block} threads, not {block.threads}"
        yield reason, f"launch blocks of {chip.threads_per_block} threads or fewer"
    elif limits["registers"] == 0:
        threads = _largest(
            block.threads, lambda t: _blocks_by_registers(chip, -(-t // chip.warp_threads), block.registers) != 0
        )
        registers = _largest(block.registers, lambda r: _blocks_by_registers(chip, block.warps, r) != 0)
        yield (
            f"{block.threads} threads of {block.registers} registers each need more than the "
            f"{chip.registers_per_block} registers of a block",
            f"limit a thread to {registers} registers (maxnreg, __launch_bounds__), or launch blocks of {threads} "
            "threads or fewer",
        )
    if limits["shared"] == 0:
        limit = chip.shared_per_block_bytes
        reason = f"{block.shared_bytes} bytes of shared memory exceed the {limit} that a block of {chip.arch} can have"
        yield reason, f"request {limit} bytes of shared memory per block or less"


def _remedy(block: _Block, limiters: Sequence[str]) -> str:
    """How to raise the occupancy by one step, and to the maximum for blocks of this size."""
    chip, warps, blocks = block.chip, block.warps, block.blocks_per_sm
    if blocks * warps == chip.warps_per_sm:
        return "none needed: every warp slot is in use"
    if "threads" in limiters or "blocks" in limiters:
        return _better_size(block)
    step = _with_room_for(block, blocks + 1)
    most = _with_room_for(block, min(chip.warps_per_sm // warps, chip.blocks_per_sm))
    now, after, best = (
        f"{100 * n * warps / chip.warps_per_sm:.0f} %" for n in (blocks, step.blocks_per_sm, most.blocks_per_sm)
    )
    first = f"{_reductions(block, step)} would let {step.blocks_per_sm} blocks fit ({now} → {after} of the warps)"
    if most.blocks_per_sm == step.blocks_per_sm:
        return first
    return f"{first}; {_reductions(block, most)}, {most.blocks_per_sm} blocks ({best})"


def _better_size(block: _Block) -> str:
    """The block size that fills most warp slots with everything else unchanged, and what would fill all of them.

    All limits are computed again for each size.
    """
    chip, threads = block.chip, block.threads
    sizes = range(chip.warp_threads, chip.threads_per_block + 1, chip.warp_threads)
    resized = {size: _Block(chip, size, block.registers, block.shared_bytes, block.barriers) for size in sizes}
    unused = {size: chip.warps_per_sm - other.blocks_per_sm * other.warps for size, other in resized.items()}
    unused_now = chip.warps_per_sm - block.blocks_per_sm * block.warps
    best = min(sizes, key=lambda size: (unused[size], abs(size - threads)))
    now = f"blocks of this size leave {unused_now} of {chip.warps_per_sm} warp slots empty"
    better = f"{now}: {best} threads leave {unused[best] or 'none'}"
    if unused[best] == 0:
        return better
    divisors = [size for size in sizes if chip.warps_per_sm % resized[size].warps == 0]
    divisors = [size for size in divisors if chip.warps_per_sm // resized[size].warps <= chip.blocks_per_sm]

    def changes(size: int) -> tuple[int, int]:
        other = resized[size]
        return len(_insufficient(other, chip.warps_per_sm // other.warps)), abs(size - threads)

    size = min(divisors, key=changes)
    full = _with_room_for(resized[size], chip.warps_per_sm // resized[size].warps)
    none = f"{size} threads with {_reductions(resized[size], full)} leave none"
    return f"{better}; {none}" if unused[best] < unused_now else f"{now}: {none}"


def _insufficient(block: _Block, blocks: int) -> list[str]:
    """The resources that do not suffice for this number of blocks."""
    return [name for name, limit in block.limits.items() if limit is not None and limit < blocks]


def _with_room_for(block: _Block, blocks: int) -> _Block:
    """The block with each insufficient resource reduced so that this number of blocks fits."""
    chip, insufficient = block.chip, _insufficient(block, blocks)
    available = chip.shared_per_sm_bytes // blocks // chip.shared_unit_bytes * chip.shared_unit_bytes
    registers = _largest(block.registers, lambda r: (_blocks_by_registers(chip, block.warps, r) or 0) >= blocks)
    return replace(
        block,
        registers=registers if "registers" in insufficient else block.registers,
        shared_bytes=available - chip.shared_reserved_bytes if "shared" in insufficient else block.shared_bytes,
        barriers=(chip.barriers_per_sm or 0) // blocks if "barriers" in insufficient else block.barriers,
    )


def _reductions(block: _Block, smaller: _Block) -> str:
    """`at most 48 registers per thread`: the resources of which the smaller block needs less."""
    parts = {
        f"{smaller.registers} registers per thread": smaller.registers < block.registers,
        f"{smaller.shared_bytes} bytes of shared memory per block": smaller.shared_bytes < block.shared_bytes,
        f"{smaller.barriers} named barriers": smaller.barriers < block.barriers,
    }
    return f"at most {' and '.join(part for part, less in parts.items() if less)}"


def _largest(limit: int, fits: Callable[[int], bool]) -> int:
    """The largest value up to `limit` that fits; 0 if none does."""
    return next((value for value in range(limit, 0, -1) if fits(value)), 0)
