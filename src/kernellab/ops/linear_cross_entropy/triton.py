"""Cross-entropy of a linear layer in Triton: the losses without any logits in memory, and the kernel of a chunk.

The arithmetic is that of ops/cross_entropy. The losses alone come from one kernel: a program keeps a running
log-sum-exp of its tokens over a part of the vocabulary, from products that it never stores. A small kernel joins the
parts.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from kernellab.build.cuda import same_device
from kernellab.ops.cross_entropy.loss import Settings
from kernellab.ops.cross_entropy.triton import (
    absorb,
    anchor_of,
    exp_above,
    loss_of,
    peak_and_total,
    read_target,
    slope,
    slope_at_target,
)
from kernellab.ops.floats import require_float
from kernellab.ops.gpus import sm_count
from kernellab.ops.linear import unit_depth
from kernellab.ops.linear_triton import (
    Tiles,
    choose_tiles,
    described,
    has_descriptors,
    multiply_tile,
    precision,
    tile_place,
)
from kernellab.ops.rows_triton import columns_of_groups, load
from kernellab.ops.softmax.triton import finite

# How the products of the losses are divided. Not measured yet: benchmarks/linear.py --tune times CANDIDATES.
TILES = {
    "16-bit": ((None, Tiles(128, 256, 64, 8, 3, group=16)),),
    "tf32": ((None, Tiles(128, 128, 32, 8, 3, group=16)),),
    "ieee": ((None, Tiles(128, 64, 16, 8, 3, group=16)),),
}
CANDIDATES = (
    Tiles(128, 256, 64, 8, 3, group=16),
    Tiles(128, 256, 64, 8, 4, group=16),
    Tiles(128, 256, 64, 8, 3, group=32),
    Tiles(128, 128, 64, 4, 3, group=16),
    Tiles(128, 128, 64, 8, 4, group=16),
    Tiles(256, 128, 64, 8, 3, group=16),
    Tiles(64, 256, 64, 4, 4, group=16),
)
ROUNDS = 4  # programs per SM, one after the other: each takes a part of the vocabulary
PARTS_OF_LOSS = 4  # numbers of a token and a part of the vocabulary, see `partial_losses`
JOINED_ROWS = 64  # of a program that joins them
# A chunk of logits: elements of a row in the registers of a program, as in softmax for rows that are read twice, and
# elements of a thread.
MOST_IN_REGISTERS, PER_THREAD = 32768, 32
MULTIPLY_BLOCK, MULTIPLY_PER_SM = 8192, 8


class TritonKernels:
    """See passes.Kernels."""

    def losses(self, x: torch.Tensor, weight: torch.Tensor, target: torch.Tensor, settings: Settings) -> torch.Tensor:
        return losses_in(None, x, weight, target, settings)

    def convert(
        self,
        logits: torch.Tensor,
        target: torch.Tensor,
        scales: torch.Tensor | None,
        losses: torch.Tensor | None,
        settings: Settings,
    ) -> None:
        require_float(logits, "linear_cross_entropy")
        rows, cols = logits.shape
        width = 16 // logits.element_size()
        held = max(width, min(MOST_IN_REGISTERS, triton.next_power_of_2(cols)))
        smoothing = float(settings.label_smoothing)
        scale_step = scales.stride(0) if scales is not None and scales.dim() else 0
        with same_device(logits):
            convert_rows[(rows,)](
                *(logits, target, scales, losses, cols, logits.stride(0) // width, target.stride(0), scale_step),
                *(settings.ignore_index, smoothing, smoothing > 0, width, held),
                num_warps=max(1, min(32, held // (32 * PER_THREAD))),
            )

    def multiply(self, gradient: torch.Tensor, factor: torch.Tensor) -> None:
        if gradient.numel():
            blocks = triton.cdiv(gradient.numel(), MULTIPLY_BLOCK)
            programs = min(blocks, MULTIPLY_PER_SM * sm_count(gradient.device))
            with same_device(gradient):
                multiply_by[(programs,)](gradient, factor, gradient.numel(), MULTIPLY_BLOCK, num_warps=8)


def losses_in(
    tiles: Tiles | None, x: torch.Tensor, weight: torch.Tensor, target: torch.Tensor, settings: Settings
) -> torch.Tensor:
    """The loss of every token in float32, in these tiles; None: in those that TILES says."""
    require_float(x, "linear_cross_entropy")
    x, weight = unit_depth(x), unit_depth(weight)
    (rows, depth), cols = x.shape, weight.shape[0]
    losses = x.new_empty(rows, dtype=torch.float32)
    if not rows:
        return losses
    tma = has_descriptors(x, weight)
    tiles = tiles or choose_tiles(TILES, x, weight, tma=tma, stores=False)
    row_tiles, col_tiles = triton.cdiv(rows, tiles.rows), triton.cdiv(cols, tiles.cols)
    parts = max(1, min(col_tiles, ROUNDS * sm_count(x.device) // row_tiles))
    tiles_per_part = triton.cdiv(col_tiles, parts)
    parts = triton.cdiv(col_tiles, tiles_per_part)
    partial = x.new_empty((parts, PARTS_OF_LOSS, rows), dtype=torch.float32)
    smoothing = float(settings.label_smoothing)
    operands: tuple[object, ...] = (x, weight)
    if tma:
        operands = (described(x, tiles.rows, tiles.depth), described(weight, tiles.cols, tiles.depth))
    labels = (target.stride(0), settings.ignore_index)
    with same_device(x):
        partial_losses[(row_tiles * parts,)](
            *(*operands, target, partial, rows, cols, depth, x.stride(0), weight.stride(0), target.stride(0)),
            *(parts, tiles_per_part, smoothing > 0, tiles.rows, tiles.cols, tiles.depth, tiles.group),
            *(tma, depth % tiles.depth == 0, precision(x)),
            num_warps=tiles.warps,
            num_stages=tiles.stages,
        )
        join_losses[(triton.cdiv(rows, JOINED_ROWS),)](
            *(partial, target, losses, rows, cols, parts, *labels, smoothing, smoothing > 0, JOINED_ROWS),
            num_warps=2,
        )
    return losses


@triton.jit
def partial_losses(
    x, w, target_ptr, partial_ptr, rows, cols, depth, x_row, w_row, target_step, parts, tiles_per_part,
    SMOOTH: tl.constexpr, ROWS: tl.constexpr, COLS: tl.constexpr, DEPTH: tl.constexpr, GROUP: tl.constexpr,
    TMA: tl.constexpr, EVEN: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """For ROWS tokens and one part of the vocabulary: the largest logit, the sum of exp(logit − largest), the target's
    logit, or 0 where it is in another part, and the sum of all logits. partial is [parts, 4, rows]."""
    row_tiles = tl.cdiv(rows, ROWS)
    row_tile, part = tile_place(tl.program_id(0), row_tiles, parts, GROUP)
    row = row_tile * ROWS
    row_at = row + tl.arange(0, ROWS)
    target = tl.load(target_ptr + row_at.to(tl.int64) * target_step, mask=row_at < rows, other=-1)
    peak = tl.full([ROWS], -float("inf"), tl.float32)
    total = tl.zeros([ROWS], tl.float32)
    own = tl.zeros([ROWS], tl.float32)
    logit_sum = tl.zeros([ROWS], tl.float32)
    last = tl.minimum((part + 1) * tiles_per_part, tl.cdiv(cols, COLS))
    for tile in tl.range(part * tiles_per_part, last, flatten=True):
        col = tile * COLS
        logits = multiply_tile(
            x, w, row, col, rows, cols, depth, x_row, w_row, ROWS, COLS, DEPTH, TMA, EVEN, PRECISION
        )  # fmt: skip
        at = (col + tl.arange(0, COLS))[None, :]
        own += tl.sum(tl.where((at == target[:, None]) & (at < cols), logits, 0.0), axis=1)
        if SMOOTH:
            logit_sum += tl.sum(tl.where(at < cols, logits, 0.0), axis=1)
        peak, total = absorb(tl.where(at < cols, logits, -float("inf")), peak, total)
    place = partial_ptr + part.to(tl.int64) * 4 * rows + row_at
    tl.store(place, peak, mask=row_at < rows)
    tl.store(place + rows, total, mask=row_at < rows)
    tl.store(place + 2 * rows, own, mask=row_at < rows)
    tl.store(place + 3 * rows, logit_sum, mask=row_at < rows)


@triton.jit
def join_losses(
    partial_ptr, target_ptr, losses_ptr, rows, cols, parts, target_step, ignore_index, smoothing,
    SMOOTH: tl.constexpr, ROWS: tl.constexpr,
):  # fmt: skip
    """The losses of ROWS tokens, in the order of the parts."""
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    exists = row < rows
    target = tl.load(target_ptr + row.to(tl.int64) * target_step, mask=exists, other=0)
    counts = exists & (target != ignore_index)
    peak = tl.full([ROWS], -float("inf"), tl.float32)
    total = tl.zeros([ROWS], tl.float32)
    own = tl.zeros([ROWS], tl.float32)
    logit_sum = tl.zeros([ROWS], tl.float32)
    for part in range(0, parts):
        place = partial_ptr + tl.cast(part, tl.int64) * 4 * rows + row
        part_peak = tl.load(place, mask=exists, other=0.0)
        part_total = tl.load(place + rows, mask=exists, other=1.0)
        own += tl.load(place + 2 * rows, mask=exists, other=0.0)
        logit_sum += tl.load(place + 3 * rows, mask=exists, other=0.0)
        higher = tl.maximum(peak, part_peak)
        base = finite(higher)
        total = total * exp_above(peak, base) + part_total * exp_above(part_peak, base)
        peak = higher
    # What the target's logit, or where it is infinite 0, lies above the others, added up: see `anchor_of`.
    below = anchor_of(own) * cols - logit_sum
    valid = (target >= 0) & (target < cols)
    loss, _ = loss_of(peak, total, below, own, counts, valid, cols, smoothing, SMOOTH)
    tl.store(losses_ptr + row, loss, mask=exists)


@triton.jit
def convert_rows(
    x_ptr, target_ptr, scale_ptr, losses_ptr, cols, x_row, target_step, scale_step, ignore_index, smoothing,
    SMOOTH: tl.constexpr, VEC: tl.constexpr, HELD: tl.constexpr,
):  # fmt: skip
    """A row of logits per program: its loss, and in its place its gradient times a scale. Rows are x_row·VEC elements
    apart; between the last column and the next row there is memory of no meaning, which is read and written.

    The second walk begins where the first ends: that part of the row is likeliest to be in L2.
    """
    row = tl.program_id(0).to(tl.int64)
    start = row * x_row * VEC
    width = (tl.zeros([], tl.int32) + x_row) * VEC
    target, counts, valid, own = read_target(
        x_ptr, start, target_ptr, row, row >= 0, cols, 1, target_step, ignore_index
    )
    anchor = anchor_of(own)
    GROUPS: tl.constexpr = HELD // VEC
    at = columns_of_groups(GROUPS, VEC, VEC)
    peaks = tl.full([GROUPS], -float("inf"), tl.float32)
    totals = tl.zeros([GROUPS], tl.float32)
    belows = tl.zeros([GROUPS], tl.float32)
    for first in range(0, tl.where(counts, cols, 0), HELD):  # of an ignored row nothing is read
        here = first + at
        x = load(x_ptr, start, here, here < width, 0.0, "evict_last")
        peaks, totals = absorb(tl.where(here < cols, x, -float("inf")), peaks, totals)
        if SMOOTH:
            belows += tl.sum(tl.where(here < cols, anchor - x, 0.0), axis=1)
    peak, total = peak_and_total(peaks, totals)
    loss, log_total = loss_of(peak, total, tl.sum(belows), own, counts, valid, cols, smoothing, SMOOTH)
    if losses_ptr is not None:
        tl.store(losses_ptr + row, loss)
    if scale_ptr is not None:
        scale = tl.load(scale_ptr + row * scale_step).to(tl.float32)
        scale = tl.where(counts, tl.where(valid, scale, float("nan")), 0.0)
        peak = tl.where(counts, peak, 0.0)
        even = smoothing / cols
        at_target = slope_at_target(own, scale, peak, log_total, even, smoothing)
        last = (cols - 1) // HELD * HELD
        for done in range(0, last + HELD, HELD):
            here = last - done + at
            x = load(x_ptr, start, here, (here < width) & counts, 0.0, "evict_first")
            dx = tl.where((here == target) & counts, at_target, slope(x, scale, peak, log_total, even))
            tl.store(x_ptr + start + here, dx.to(x_ptr.dtype.element_ty), mask=here < width)


@triton.jit
def multiply_by(x_ptr, factor_ptr, n, BLOCK: tl.constexpr):
    """Elements times a factor in place. Nothing is read or written if it is 1, as it is for the loss of a model."""
    factor = tl.load(factor_ptr).to(tl.float32)
    if factor != 1.0:
        at = tl.arange(0, BLOCK)
        start = tl.program_id(0).to(tl.int64) * BLOCK
        for first in range(start, n, tl.num_programs(0).to(tl.int64) * BLOCK):
            here = first + at
            x = tl.load(x_ptr + here, mask=here < n)
            tl.store(x_ptr + here, (x.to(tl.float32) * factor).to(x_ptr.dtype.element_ty), mask=here < n)
