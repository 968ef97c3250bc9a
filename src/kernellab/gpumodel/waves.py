"""How a grid of equal blocks fills a GPU, what its last, partial round costs, and which grids have no partial round.

Two counts are called waves. **SM balance**: blocks over SMs; the SM with most blocks finishes last. **Resident waves**:
blocks over the number that the GPU can hold at once. Which of them decides the time depends on what the blocks on one
SM share. Let an SM hold `b` blocks, and let `k` of them keep it fully busy. The unit of time is the time of one block
that keeps its SM fully busy alone. Then `n` resident blocks take max(n, k).

- Full waves take b each. The last wave, of R blocks over S SMs, takes max(⌈R/S⌉, k).
- Blocks that each keep an SM busy alone (k = 1: arithmetic with independent instructions, tensor cores) take ⌈blocks/S⌉
  in total. SM balance decides, however many blocks are resident, because they share the same units.
- Blocks that mostly wait (k ≥ b: long chains of dependent loads) take as long together as alone. The total is
  b·⌈blocks/(S·b)⌉. Resident waves decide, and a second block on an SM is hidden behind the first.
- Blocks that wait for memory bandwidth share it with the whole GPU. An SM with two blocks gets twice the bandwidth of
  an SM with one. While enough bytes are in flight, the tail costs almost nothing. The model gives an upper bound of the
  efficiency: nothing is lost from one block per SM on.

Efficiency is the time of the same work spread evenly over all SMs, fully busy, over the predicted time. The model
assumes equal blocks that are distributed evenly as slots become free. It leaves out launch overhead.

The blocks of a cluster start together, so ⌊S / cluster⌋ · cluster of S SMs take part: S above is then that number. This
is an upper bound. A cluster must also fit into one group of SMs (GPC), whose sizes differ between boards. Only
`cudaOccupancyMaxActiveClusters` knows how many clusters fit.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from kernellab.base.errors import UserError
from kernellab.gpumodel.occupancy import Occupancy
from kernellab.machine.chips import Chip

BOUNDS = ("compute", "latency", "memory")

# A dependent arithmetic instruction can issue after four cycles (Volta to Blackwell), and each of an SM's four
# schedulers issues one per cycle. So 16 independent instructions keep an SM busy, from one warp or from several.
_LATENCY_CYCLES = 4


@dataclass(frozen=True)
class Waves:
    """One grid on one GPU. `rounds` counts SM balance, `resident_waves` residency. A tail of 0 blocks is none."""

    blocks: int
    sms: int
    cluster: int
    usable_sms: int  # by whole clusters; all SMs without clusters
    blocks_per_sm: int
    bound: str
    busy_blocks: int  # k: the number of blocks that keep an SM fully busy
    rounds: int
    tail_blocks: int  # in the last round of one block per SM
    balance_efficiency: float
    resident_waves: float
    resident_tail_blocks: int
    resident_efficiency: float
    governs: str  # SM balance, resident waves, both or bandwidth
    why: str
    efficiency: float  # predicted
    nearest_multiple: int  # of the usable SMs
    four_per_sm: int


def waves(
    blocks: int, sms: int, occupancy: Occupancy, chip: Chip, *, bound: str = "compute", ilp: int = 4, cluster: int = 1
) -> Waves:
    """How a grid fills a GPU. `ilp` is the number of independent instructions that a warp has ready (for `compute`)."""
    if blocks < 1 or sms < 1 or ilp < 1 or cluster < 1:
        raise UserError("blocks, SMs, clusters and independent instructions: at least 1 each")
    if bound not in BOUNDS:
        raise UserError(f"blocks bound by {bound!r}: {', '.join(BOUNDS)}")
    b = occupancy.blocks_per_sm
    if b == 0:
        raise UserError(f"cannot launch: {occupancy.refusal}: {occupancy.remedy}")
    if blocks % cluster:
        raise UserError(f"{blocks} blocks are not a whole number of clusters of {cluster}: CUDA refuses such a grid")
    usable = sms // cluster * cluster
    if not usable:
        raise UserError(f"a cluster of {cluster} blocks on {sms} SMs: it does not fit")
    k = _busy_blocks(occupancy, chip, bound=bound, ilp=ilp)
    full_waves, rest = divmod(blocks, usable * b)
    last_wave = max(-(-rest // usable), k) if rest else 0
    time = max(blocks / usable, 1.0) if bound == "memory" else full_waves * b + last_wave
    rounds = -(-blocks // usable)
    governs = _governing_count(bound, b, k, -(-rest // usable))
    return Waves(
        blocks=blocks,
        sms=sms,
        cluster=cluster,
        usable_sms=usable,
        blocks_per_sm=b,
        bound=bound,
        busy_blocks=k,
        rounds=rounds,
        tail_blocks=blocks % usable,
        balance_efficiency=blocks / sms / rounds,
        resident_waves=blocks / (usable * b),
        resident_tail_blocks=rest,
        resident_efficiency=blocks / (sms * b) / -(-blocks // (usable * b)),
        governs=governs,
        why=_reason(governs, blocks, usable, b, k),
        efficiency=blocks / sms / time,
        nearest_multiple=max(usable, (blocks + usable // 2) // usable * usable),
        four_per_sm=4 * usable,
    )


def sweep(
    grids: Iterable[int], sms: int, occupancy: Occupancy, chip: Chip, *, bound: str = "compute", ilp: int = 4
) -> list[Waves]:
    """The same kernel at each of these grids: efficiency over the number of blocks is a saw-tooth."""
    return [waves(blocks, sms, occupancy, chip, bound=bound, ilp=ilp) for blocks in grids]


def _busy_blocks(occupancy: Occupancy, chip: Chip, *, bound: str, ilp: int) -> int:
    """The number of blocks that keep an SM fully busy, at most as many as fit."""
    if bound == "latency":
        return occupancy.blocks_per_sm
    warps = chip.warp_unit * -(-_LATENCY_CYCLES // ilp)
    return min(-(-warps // occupancy.warps_per_block), occupancy.blocks_per_sm)


def _governing_count(bound: str, b: int, k: int, last: int) -> str:
    """What decides the time of the last wave; `last` is the number of its blocks on the fullest SM."""
    if bound == "memory":
        return "bandwidth"
    if b == 1:
        return "both"
    return "resident waves" if k >= b or 0 < last < k else "SM balance"


def _reason(governs: str, blocks: int, sms: int, b: int, k: int) -> str:
    if governs == "both":
        return "an SM holds one block at a time: the two counts are equal"
    if governs == "bandwidth":
        return "all blocks share the bandwidth, on whichever SM they run: a tail costs little"
    if governs == "resident waves":
        needed = f"it takes {k} blocks" if k < b else f"it takes all {b} blocks that fit"
        return f"{needed} to keep an SM busy: fewer take as long as one"
    busy = "one block keeps" if k == 1 else f"{k} blocks keep"
    shared = f"; {b} fit, but share it" if b > k else ""
    even = "" if blocks % sms else ", and every SM gets the same number"
    return f"{busy} an SM busy{shared}{even}"


# Matmul ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Tiling:
    """A matmul of M × N results in tiles, one per block. `useful` is the share of the tiles' area that is result."""

    m: int
    n: int
    tile_m: int
    tile_n: int

    def __post_init__(self) -> None:
        if min(self.m, self.n, self.tile_m, self.tile_n) < 1:
            raise UserError("sizes of a matmul and its tiles: at least 1 each")

    @property
    def blocks(self) -> int:
        return -(-self.m // self.tile_m) * -(-self.n // self.tile_n)

    @property
    def useful(self) -> float:
        return self.m * self.n / (self.blocks * self.tile_m * self.tile_n)
