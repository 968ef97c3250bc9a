"""How a grid of equal blocks fills a GPU, what its last, partial round costs, and which grids have none.

Two counts are called waves. **SM balance**: blocks over SMs; the SM with most blocks ends last. **Resident waves**:
blocks over all the GPU can hold at once. Which of them governs depends on what blocks on one SM share. Let an SM hold
`b` blocks, and let `k` of them keep it fully busy. The time is counted in the time one block would take alone on an SM
that is fully busy with it: then `n` blocks resident together take max(n, k).

- Full waves take b each; the last, of R blocks spread over the S SMs, takes max(⌈R/S⌉, k).
- A block that keeps its SM busy alone (k = 1: arithmetic with independent instructions, tensor cores) makes the
  total ⌈blocks/S⌉. SM balance governs, however many blocks are resident: neighbours share the same units.
- Blocks that mostly wait (k ≥ b: long chains of dependent loads) take as long together as alone. The total is
  b·⌈blocks/(S·b)⌉: resident waves govern, and a second block on an SM is hidden behind the first.
- Blocks that wait for memory bandwidth share it with the whole GPU. An SM with two blocks gets twice the bandwidth
  of one with one, and while as much is in flight as the memory needs there is no tail to speak of. Only an upper
  bound is given: nothing is lost from one block per SM on.

Efficiency is the time of the same work spread evenly over all SMs, fully busy, over the predicted time. Blocks are
taken to be equal and to be handed out evenly, as free places come up; launch costs are left out.

The blocks of a cluster start together, so that of S SMs ⌊S / cluster⌋ · cluster take part: S above is then that number.
It is an upper bound: a cluster must also find its places within one group of SMs (GPC), whose sizes differ from board
to board, and only `cudaOccupancyMaxActiveClusters` knows how many do.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from kernellab.base.errors import UserError
from kernellab.gpumodel.occupancy import Occupancy
from kernellab.machine.chips import Chip

BOUNDS = ("compute", "latency", "memory")

# A dependent arithmetic instruction can follow after four cycles (Volta to Blackwell), and each of an SM's four
# schedulers starts one a cycle: so many independent instructions keep it busy, from one warp or from several.
_LATENCY_CYCLES = 4


@dataclass(frozen=True)
class Waves:
    """One grid on one GPU. `rounds` counts SM balance, `resident_waves` residency; tails are blocks, 0 for none."""

    blocks: int
    sms: int
    cluster: int
    usable_sms: int  # that whole clusters can take; all of them without clusters
    blocks_per_sm: int
    bound: str
    busy_blocks: int  # k: how many blocks keep an SM fully busy
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
    blocks: int, sms: int, held: Occupancy, chip: Chip, *, bound: str = "compute", ilp: int = 4, cluster: int = 1
) -> Waves:
    """`held` says how many blocks an SM holds; `ilp` how many independent instructions a warp has ready (compute)."""
    if blocks < 1 or sms < 1 or ilp < 1 or cluster < 1:
        raise UserError("blocks, SMs, clusters and independent instructions: at least 1 each")
    if bound not in BOUNDS:
        raise UserError(f"blocks bound by {bound!r}: {', '.join(BOUNDS)}")
    b = held.blocks_per_sm
    if b == 0:
        raise UserError(f"cannot launch: {held.refusal}: {held.remedy}")
    if blocks % cluster:
        raise UserError(f"a grid of {blocks} blocks is no whole number of clusters of {cluster}: CUDA would refuse it")
    usable = sms // cluster * cluster
    if not usable:
        raise UserError(f"a cluster of {cluster} blocks on {sms} SMs: it does not fit")
    k = busy_blocks(held, chip, bound=bound, ilp=ilp)
    full, rest = divmod(blocks, usable * b)
    last = max(-(-rest // usable), k) if rest else 0
    time = max(blocks / usable, 1.0) if bound == "memory" else full * b + last
    rounds = -(-blocks // usable)
    resident = blocks / (usable * b)
    governs = _governs(bound, b, k, -(-rest // usable))
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
        resident_waves=resident,
        resident_tail_blocks=rest,
        resident_efficiency=blocks / (sms * b) / -(-blocks // (usable * b)),
        governs=governs,
        why=_why(governs, blocks, usable, b, k),
        efficiency=blocks / sms / time,
        nearest_multiple=max(usable, (blocks + usable // 2) // usable * usable),
        four_per_sm=4 * usable,
    )


def sweep(
    grids: Iterable[int], sms: int, held: Occupancy, chip: Chip, *, bound: str = "compute", ilp: int = 4
) -> list[Waves]:
    """The saw-tooth: the same kernel at each of these grids."""
    return [waves(blocks, sms, held, chip, bound=bound, ilp=ilp) for blocks in grids]


def busy_blocks(held: Occupancy, chip: Chip, *, bound: str, ilp: int) -> int:
    """How many blocks keep an SM fully busy, as far as so many fit."""
    if bound == "latency":
        return held.blocks_per_sm
    warps = chip.warp_unit * -(-_LATENCY_CYCLES // ilp)
    return min(-(-warps // held.warps_per_block), held.blocks_per_sm)


def _governs(bound: str, b: int, k: int, last: int) -> str:
    """What decides how long the last wave takes, `last` its blocks on the fullest SM."""
    if bound == "memory":
        return "bandwidth"
    if b == 1:
        return "both"
    return "resident waves" if k >= b or 0 < last < k else "SM balance"


def _why(governs: str, blocks: int, sms: int, b: int, k: int) -> str:
    if governs == "both":
        return "an SM holds one block at a time: the two counts are the same"
    if governs == "bandwidth":
        return "all blocks share the bandwidth, wherever they run: a tail costs little"
    if governs == "resident waves":
        few = f"{k} blocks" if k < b else f"only all {b} blocks that fit"
        return f"{few} keep an SM busy: up to so many take as long as one"
    one = "one block keeps" if k == 1 else f"{k} blocks keep"
    shared = f"; {b} fit, but share it" if b > k else ""
    even = "" if blocks % sms else ", and every SM gets as many"
    return f"{one} an SM busy{shared}{even}"


# Matmul ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Tiling:
    """A product of M × N results in tiles, one per block; `useful` is the share of the tiles' area that is result."""

    m: int
    n: int
    tile_m: int
    tile_n: int

    def __post_init__(self) -> None:
        if min(self.m, self.n, self.tile_m, self.tile_n) < 1:
            raise UserError("sizes of a product and its tiles: at least 1 each")

    @property
    def blocks(self) -> int:
        return -(-self.m // self.tile_m) * -(-self.n // self.tile_n)

    @property
    def useful(self) -> float:
        return self.m * self.n / (self.blocks * self.tile_m * self.tile_n)
