"""How many blocks of a kernel fit on one multiprocessor, what limits that, and what would lift the limit.

The rules are CUDA's own (`cuda_occupancy.h`). A warp gets its registers in steps, from one of the SM's four register
files; a block gets its shared memory in steps, plus what the driver keeps for itself; the SRAM is taken to be split in
favour of shared memory as far as the kernel needs it, which is what the driver does unless told otherwise.

More resident warps hide more latency, up to a point: occupancy is room to hide, not speed. Clusters do not change what
fits on an SM, but all blocks of one must find room in one group of SMs (GPC) at once: how many fit on a GPU only
`cudaOccupancyMaxActiveClusters` knows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from kernellab.base.errors import UserError
from kernellab.machine.chips import Chip

# In the order in which they are named when several hold at once: what can be changed without changing the block first.
_RESOURCES = ("registers", "shared", "threads", "blocks", "barriers")
# As people say it after "limited by", where that is not the resource's name here.
LIMITERS = {"shared": "shared memory", "barriers": "named barriers"}

# The most along x, y and z, on every architecture.
_GRID, _BLOCK = (2**31 - 1, 65535, 65535), (1024, 1024, 64)


@dataclass(frozen=True)
class Occupancy:
    """`limits` has the blocks each resource allows, None where it limits nothing.

    `refusal` says why CUDA would not launch it, and is empty otherwise; `blocks_per_sm` is 0 where it is not.
    """

    blocks_per_sm: int
    warps_per_sm: int
    fraction: float
    limiter: str  # threads, blocks, registers, shared or barriers: the first of those below
    limiters: list[str]  # all that hold at the same number of blocks
    limits: dict[str, int | None]
    refusal: str
    remedy: str
    warps_per_block: int
    shared_split_bytes: int  # how much of the SRAM must be shared memory for this; the rest is L1
    l1_bytes: int


@dataclass(frozen=True)
class _Block:
    """A block as it is asked for, and what each resource makes of it."""

    chip: Chip
    threads: int
    registers: int
    shared_bytes: int
    barriers: int
    most_threads: int | None = None
    exact: bool = False

    @property
    def warps(self) -> int:
        return -(-self.threads // self.chip.warp_threads)

    @property
    def limits(self) -> dict[str, int | None]:
        chip = self.chip
        return {
            "threads": 0 if self.too_many or self.not_built else chip.warps_per_sm // self.warps,
            "blocks": chip.blocks_per_sm,
            "registers": _by_registers(chip, self.warps, self.registers),
            "shared": _by_shared(chip, self.shared_bytes),
            # An SM has at least one for each block it holds: who uses no more is limited by the blocks.
            "barriers": None
            if not chip.barriers_per_sm or self.barriers < 2
            else chip.barriers_per_sm // self.barriers,
        }

    @property
    def fits(self) -> int:
        return min(limit for limit in self.limits.values() if limit is not None)

    @property
    def too_many(self) -> bool:
        return self.threads > self.chip.threads_per_block

    @property
    def not_built(self) -> bool:
        most = self.most_threads
        return most is not None and (self.threads != most if self.exact else self.threads > most)


def occupancy(
    chip: Chip,
    threads: int,
    registers: int,
    shared_bytes: int = 0,
    cluster: int = 1,
    *,
    barriers: int = 1,
    most_threads: int | None = None,
    exact: bool = False,
) -> Occupancy:
    """`registers` per thread, `shared_bytes` per block (static and dynamic together), `barriers` of bar.sync.

    `most_threads` is what the kernel was compiled for (`__launch_bounds__`); `exact`: it takes no other number.
    """
    _plausible(chip, threads, registers, shared_bytes, cluster, barriers)
    block = _Block(chip, threads, registers, shared_bytes, barriers, most_threads, exact)
    blocks, warps, limits = block.fits, block.warps, block.limits
    full = blocks * warps == chip.warps_per_sm
    limiters = [name for name in _RESOURCES if limits[name] == blocks]
    split = _split(chip, blocks * _allocated(chip, shared_bytes))
    # A full SM is full, whatever else would not have let another block in either.
    limiters = ["threads"] if full else limiters
    return Occupancy(
        blocks_per_sm=blocks,
        warps_per_sm=blocks * warps,
        fraction=blocks * warps / chip.warps_per_sm,
        limiter=limiters[0],
        limiters=limiters,
        limits=limits,
        refusal="" if blocks else "; ".join(why for why, _ in _refusals(block)),
        remedy=_remedy(block, blocks, limiters) if blocks else " and ".join(do for _, do in _refusals(block)),
        warps_per_block=warps,
        shared_split_bytes=split,
        l1_bytes=chip.l1_and_shared_bytes - split,
    )


def grid_refusal(grid: Sequence[int], block: Sequence[int]) -> tuple[str, str]:
    """Why CUDA takes no grid or block of this shape, whatever the kernel, and what to do; empty where it does."""
    for what, parts, sizes, most in (("grid", "blocks", grid, _GRID), ("block", "threads", block, _BLOCK)):
        for dim, size, limit in zip("xyz", sizes, most, strict=True):
            if size > limit:
                why = f"a {what} has at most {limit} {parts} along {dim}, not {size}"
                return why, f"spread what runs along {dim} over another dim, or let each take more of it"
    return "", ""


def in_words(limiters: Sequence[str]) -> str:
    """`registers and shared memory`."""
    return " and ".join(LIMITERS.get(name, name) for name in limiters)


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


def _refusals(block: _Block) -> Iterator[tuple[str, str]]:
    """Why it cannot be launched, and what would lift that."""
    chip, limits = block.chip, block.limits
    if block.not_built:
        which = "exactly" if block.exact else "at most"
        why = f"the kernel is compiled for blocks of {which} {block.most_threads} threads, not {block.threads}"
        again = "" if block.too_many else f", or compile it for {block.threads}"
        yield why, f"launch blocks of {block.most_threads} threads{again}"
    elif block.too_many:
        why = f"a block of {chip.arch} has at most {chip.threads_per_block} threads, not {block.threads}"
        yield why, f"launch blocks of {chip.threads_per_block} threads or fewer"
    elif limits["registers"] == 0:
        needed = f"{block.threads} threads of {block.registers} registers each"
        size = _most(block.threads, lambda t: _by_registers(chip, -(-t // chip.warp_threads), block.registers) != 0)
        fewer = _most(block.registers, lambda r: _by_registers(chip, block.warps, r) != 0)
        yield (
            f"{needed} are more than the {chip.registers_per_block} registers of a block",
            f"let a thread have {fewer} registers or fewer (maxnreg, __launch_bounds__), or launch blocks of {size} "
            "threads or fewer",
        )
    if limits["shared"] == 0:
        most = chip.shared_per_block_bytes
        why = f"{block.shared_bytes} bytes of shared memory are more than the {most} a block of {chip.arch} can have"
        yield why, f"ask for {most} bytes of shared memory per block or less"


def _remedy(block: _Block, blocks: int, limiters: Sequence[str]) -> str:
    """The next step, and what is at most to be had with blocks of this size: what must give way for each."""
    chip, warps = block.chip, block.warps
    if blocks * warps == chip.warps_per_sm:
        return "nothing to lift: every warp slot is taken"
    if "threads" in limiters or "blocks" in limiters:
        return _other_size(block, blocks)
    step = _lifted(block, blocks + 1)
    most = _lifted(block, min(chip.warps_per_sm // warps, chip.blocks_per_sm))
    now, after, best = (f"{100 * n * warps / chip.warps_per_sm:.0f} %" for n in (blocks, step.fits, most.fits))
    said = f"{_needs(block, step)} would let {step.fits} blocks fit ({now} → {after} of the warps)"
    return said if most.fits == step.fits else f"{said}; {_needs(block, most)}, {most.fits} blocks ({best})"


def _other_size(block: _Block, blocks: int) -> str:
    """The size of block that would fill most warp slots, everything else as it is; and what filling all of them takes.

    What holds beside the size was counted at this size: it need not hold at another.
    """
    chip, threads = block.chip, block.threads
    sizes = range(chip.warp_threads, chip.threads_per_block + 1, chip.warp_threads)
    tried = {size: _Block(chip, size, block.registers, block.shared_bytes, block.barriers) for size in sizes}
    left = {size: chip.warps_per_sm - one.fits * one.warps for size, one in tried.items()}
    over = chip.warps_per_sm - blocks * block.warps
    best = min(sizes, key=lambda size: (left[size], abs(size - threads)))
    said = f"blocks of this size leave {over} of {chip.warps_per_sm} warp slots over"
    better = f"{said}: {best} threads leave {left[best] or 'none'}"
    if left[best] == 0:
        return better
    whole = [n for n in sizes if chip.warps_per_sm % tried[n].warps == 0]
    whole = [n for n in whole if chip.warps_per_sm // tried[n].warps <= chip.blocks_per_sm]
    size = min(whole, key=lambda n: (len(_short(tried[n], chip.warps_per_sm // tried[n].warps)), abs(n - threads)))
    full = _lifted(tried[size], chip.warps_per_sm // tried[size].warps)
    none = f"{size} threads with {_needs(tried[size], full)} leave none"
    return f"{better}; {none}" if left[best] < over else f"{said}: {none}"


def _short(block: _Block, blocks: int) -> list[str]:
    """What does not suffice for so many blocks."""
    return [name for name, limit in block.limits.items() if limit is not None and limit < blocks]


def _lifted(block: _Block, blocks: int) -> _Block:
    """The same with as much of each resource that is short as lets so many blocks fit."""
    chip, short = block.chip, _short(block, blocks)
    room = chip.shared_per_sm_bytes // blocks // chip.shared_unit_bytes * chip.shared_unit_bytes
    fewer = _most(block.registers, lambda r: (_by_registers(chip, block.warps, r) or 0) >= blocks)
    return replace(
        block,
        registers=fewer if "registers" in short else block.registers,
        shared_bytes=room - chip.shared_reserved_bytes if "shared" in short else block.shared_bytes,
        barriers=(chip.barriers_per_sm or 0) // blocks if "barriers" in short else block.barriers,
    )


def _needs(block: _Block, lifted: _Block) -> str:
    parts = {
        f"{lifted.registers} registers per thread": lifted.registers < block.registers,
        f"{lifted.shared_bytes} bytes of shared memory per block": lifted.shared_bytes < block.shared_bytes,
        f"{lifted.barriers} named barriers": lifted.barriers < block.barriers,
    }
    return f"at most {' and '.join(part for part, less in parts.items() if less)}"


def _most(value: int, good: Callable[[int], bool]) -> int:
    return next((v for v in range(value, 0, -1) if good(v)), 0)
