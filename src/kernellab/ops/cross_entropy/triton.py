"""Cross-entropy in Triton. Forward reads the logits once, backward once more.

In every kernel x is [rows, cols] with strides (x_row, x_col). `saved` holds the log-sum-exp of every row in two parts,
so that a probability near 1 keeps the digits of its distance from 1: all maxima, then the logarithms of all sums of
exp(x − maximum). Then the factor by which a mean scales its gradient.
"""

import torch
import triton
import triton.language as tl

from kernellab.build.cuda import same_device
from kernellab.ops.cross_entropy.loss import new_saved
from kernellab.ops.floats import require_float, vector_width
from kernellab.ops.gpus import arrivals, sm_count
from kernellab.ops.rows_cuda import same_alignment
from kernellab.ops.rows_triton import CHUNK_NARROW, WARPS_NARROW, columns_of_groups, extra_columns, load, peel
from kernellab.ops.softmax.triton import finite

LOG2E = tl.constexpr(1.4426950408889634)
# Narrow rows: elements per one-warp program, which takes several rows.
NARROW = 1024
# Wider ones, a row per program: (bytes in a row up to, warps). A thread has four 16-byte accesses in flight.
FORWARD_WARPS = ((8192, 4), (65536, 8), (None, 16))
ACCESSES = 4
PROGRAMS_PER_SM = 32  # at most so many, which go through the rows together
# Backward has no reduction: a program takes a piece of a row.
BACKWARD_WARPS, BACKWARD_ACCESSES = 4, 2
REDUCE_PER_WARP = 512


def forward(logits, target, settings):
    require_float(logits, "cross_entropy")
    rows, cols = logits.shape
    reduced = settings.reduction != "none"
    saved = new_saved(logits, settings.reduction)
    result = logits.new_empty(() if reduced else rows)
    smoothing = float(settings.label_smoothing)
    labels = (target.stride(0), settings.ignore_index)
    narrow = cols <= NARROW
    vec, tile_rows, tile_cols = _tile(logits) if narrow else (1, 1, 0)
    # One program at least: the mean of no losses is NaN.
    programs = max(1, min(triton.cdiv(rows, tile_rows), PROGRAMS_PER_SM * sm_count(logits.device)))
    tallies = counter = None
    if reduced:
        tallies, counter = logits.new_empty((2, programs), dtype=torch.float32), arrivals(logits.device)
    how = (result, tallies, counter, programs, reduced, settings.reduction == "mean")
    with same_device(logits):
        if narrow:
            narrow_forward[(programs,)](
                *(logits, target, saved, rows, cols // vec, logits.stride(0) // vec, logits.stride(1)),
                *(*labels, smoothing, smoothing > 0, vec, tile_rows, tile_cols, *how, REDUCE_PER_WARP),
                num_warps=1,
            )
        else:
            vec = width = 16 // logits.element_size()
            row_bytes = cols * logits.element_size()
            warps = next(warps for limit, warps in FORWARD_WARPS if limit is None or row_bytes <= limit)
            chunk = warps * 32 * ACCESSES * vec
            if logits.stride(1) != 1:
                vec, width, chunk, warps = 1, 4, CHUNK_NARROW, WARPS_NARROW
            wide_forward[(programs,)](
                *(logits, target, saved, rows, cols, *logits.stride()),
                *(*labels, smoothing, smoothing > 0, vec, width, chunk, *how),
                *(REDUCE_PER_WARP * min(warps, 4), programs != rows),
                num_warps=warps,
            )
    return result, saved


def backward(upstream, logits, target, saved, settings):
    dx = torch.empty_like(logits, memory_format=torch.contiguous_format)
    rows, cols = logits.shape
    if not rows:
        return dx
    tensors = (logits, target, saved, upstream, dx)
    smoothing, mean = float(settings.label_smoothing), settings.reduction == "mean"
    labels = (target.stride(0), settings.upstream_step(upstream), settings.ignore_index)
    options = (*labels, smoothing, smoothing / cols, mean)
    with same_device(logits):
        if cols <= NARROW:
            vec, tile_rows, tile_cols = _tile(logits)
            narrow_backward[(triton.cdiv(rows, tile_rows),)](
                *(*tensors, rows, cols // vec, logits.stride(0) // vec, logits.stride(1)),
                *(*options, vec, tile_rows, tile_cols),
                num_warps=1,
            )
            return dx
        vec = width = 16 // logits.element_size()
        if not same_alignment(logits, dx):
            vec, width = 1, 4
        chunk = BACKWARD_WARPS * 32 * BACKWARD_ACCESSES * width
        parts = triton.cdiv(cols, chunk)
        wide_backward[(rows * parts,)](
            *(*tensors, rows, cols, *logits.stride(), *options, parts, vec, width, chunk), num_warps=BACKWARD_WARPS
        )
    return dx


def _tile(logits):
    """Elements per access, rows and columns of a program for narrow rows."""
    cols = logits.shape[1]
    vec = vector_width([logits], cols, logits.stride(0)) if logits.stride(1) == 1 else 1
    tile_cols = triton.next_power_of_2(cols)
    # Accesses of one element need an address each: fewer rows, or the addresses spill.
    return vec, max(1, NARROW // tile_cols // (1 if vec > 1 else 4)), tile_cols


@triton.jit
def read_target(x_ptr, start, target_ptr, row, exists, cols, x_col, target_step, ignore_index):
    """The targets of rows that begin at `start`: whether each counts, whether it is a column, and its logit, else 0.

    For a target outside [0, cols) nothing is read: its loss and gradient become NaN.
    """
    target = tl.load(target_ptr + row * target_step, mask=exists, other=0)
    counts = exists & (target != ignore_index)
    valid = (target >= 0) & (target < cols)
    own = tl.load(x_ptr + start + target * x_col, mask=counts & valid, other=0.0).to(tl.float32)
    return target, counts, valid, own


@triton.jit
def anchor_of(own):
    """What label smoothing measures logits from: the target's logit, so that logits far from 0 lose no digits."""
    return tl.where(tl.abs(own) < float("inf"), own, 0.0)


@triton.jit
def loss_of(peak, total, below, own, counts, valid, cols, smoothing, SMOOTH: tl.constexpr):
    """The loss, and the logarithm of the total. Differences are taken before the logarithm is added: it is small."""
    log_total = tl.log(tl.where(counts, total, 1.0))
    loss = log_total + (peak - own)
    if SMOOTH:
        loss = (1.0 - smoothing) * loss + smoothing * (log_total + (peak - anchor_of(own)) + below / cols)
    return tl.where(counts, tl.where(valid, loss, float("nan")), 0.0), log_total


@triton.jit
def exp_above(x, base):
    """exp(x − base), the exact difference taken before it is scaled. Unlike tl.exp, tl.exp2 has 0 for results that are
    not normal numbers, which takes a fraction of the instructions."""
    return tl.exp2((x - base) * LOG2E)


@triton.jit
def absorb(x, peak, total):
    """The running maximum and the sum of exp(x − maximum), updated with the columns of x."""
    higher = tl.maximum(peak, tl.max(x, axis=1))
    base = finite(higher)
    return higher, total * exp_above(peak, base) + tl.sum(exp_above(x, base[:, None]), axis=1)


@triton.jit
def peak_and_total(peak, total):
    row_peak = tl.max(peak, axis=0)
    return row_peak, tl.sum(total * exp_above(peak, finite(row_peak)), axis=0)


@triton.jit
def narrow_forward(
    x_ptr, target_ptr, saved_ptr, rows, cols, x_row, x_col, target_step, ignore_index, smoothing,
    SMOOTH: tl.constexpr, VEC: tl.constexpr, TILE_ROWS: tl.constexpr, TILE_COLS: tl.constexpr,
    result_ptr, tally_ptr, arrivals_ptr, programs, REDUCED: tl.constexpr, MEAN: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """TILE_ROWS rows at a time. `cols` and x_row are passed divided by VEC, as in rows_in_registers."""
    col = tl.arange(0, TILE_COLS)[None, :]
    n = (tl.zeros([], tl.int64) + cols) * VEC
    losses = tl.zeros([TILE_ROWS], tl.float32)
    counted = tl.zeros([TILE_ROWS], tl.float32)
    for tile in range(tl.program_id(0), tl.cdiv(rows, TILE_ROWS), programs):
        row = tl.cast(tile, tl.int64) * TILE_ROWS + tl.arange(0, TILE_ROWS)
        exists = row < rows
        _, counts, valid, own = read_target(
            x_ptr, row * x_row * VEC, target_ptr, row, exists, n, x_col, target_step, ignore_index
        )
        inside = counts[:, None] & (col < n)
        x = load(x_ptr, row[:, None] * x_row * VEC, col.to(tl.int64) * x_col, inside, -float("inf"), "")
        peak = tl.max(x, axis=1)
        total = tl.sum(exp_above(x, finite(peak)[:, None]), axis=1)
        below = tl.zeros([TILE_ROWS], tl.float32)
        if SMOOTH:
            below = tl.sum(tl.where(inside, anchor_of(own)[:, None] - x, 0.0), axis=1)
        loss, log_total = loss_of(peak, total, below, own, counts, valid, n, smoothing, SMOOTH)
        tl.store(saved_ptr + row, peak, mask=exists)
        tl.store(saved_ptr + rows + row, log_total, mask=exists)
        if REDUCED:
            losses += loss
            counted += counts.to(tl.float32)
        else:
            tl.store(result_ptr + row, loss.to(result_ptr.dtype.element_ty), mask=exists)
    if REDUCED:
        loss, count = tl.sum(losses, axis=0), tl.sum(counted, axis=0)
        reduce_programs(loss, count, result_ptr, saved_ptr + 2 * rows, tally_ptr, arrivals_ptr, programs, MEAN, BLOCK)


@triton.jit
def wide_forward(
    x_ptr, target_ptr, saved_ptr, rows, cols, x_row, x_col, target_step, ignore_index, smoothing,
    SMOOTH: tl.constexpr, VEC: tl.constexpr, WIDTH: tl.constexpr, CHUNK: tl.constexpr,
    result_ptr, tally_ptr, arrivals_ptr, programs, REDUCED: tl.constexpr, MEAN: tl.constexpr, BLOCK: tl.constexpr,
    LOOP: tl.constexpr,
):  # fmt: skip
    """One row at a time, or where there is no LOOP, one row."""
    loss, count = 0.0, 0.0
    if LOOP:
        for number in range(tl.program_id(0), rows, programs):
            row = tl.cast(number, tl.int64)
            row_loss, row_count = wide_row(
                x_ptr, target_ptr, saved_ptr, row, rows, cols, x_row, x_col, target_step, ignore_index,
                smoothing, SMOOTH, VEC, WIDTH, CHUNK,
            )  # fmt: skip
            if REDUCED:
                loss += row_loss
                count += row_count
            else:
                tl.store(result_ptr + row, row_loss.to(result_ptr.dtype.element_ty))
    else:
        row = tl.program_id(0).to(tl.int64)
        loss, count = wide_row(
            x_ptr, target_ptr, saved_ptr, row, rows, cols, x_row, x_col, target_step, ignore_index, smoothing,
            SMOOTH, VEC, WIDTH, CHUNK,
        )  # fmt: skip
        if not REDUCED:
            tl.store(result_ptr + row, loss.to(result_ptr.dtype.element_ty))
    if REDUCED:
        reduce_programs(loss, count, result_ptr, saved_ptr + 2 * rows, tally_ptr, arrivals_ptr, programs, MEAN, BLOCK)


@triton.jit
def wide_row(
    x_ptr, target_ptr, saved_ptr, row, rows, cols, x_row, x_col, target_step, ignore_index, smoothing,
    SMOOTH: tl.constexpr, VEC: tl.constexpr, WIDTH: tl.constexpr, CHUNK: tl.constexpr,
):  # fmt: skip
    """The loss of a row, and 1 if it counts. VEC > 1 only if x_col is 1; rows may then start anywhere.

    Running numbers for each group of WIDTH elements that lie in one thread, so the loop has no barrier and no shuffle.
    """
    GROUPS: tl.constexpr = CHUNK // WIDTH
    _, counts, valid, own = read_target(
        x_ptr, row * x_row, target_ptr, row, row >= 0, cols, x_col, target_step, ignore_index
    )
    anchor = anchor_of(own)
    n = tl.where(counts, tl.zeros([], tl.int64) + cols, 0)  # of an ignored row nothing is read
    start, head, groups = peel(row * x_row, n, VEC)
    limit = groups * VEC
    at = columns_of_groups(GROUPS, VEC, WIDTH)
    step = at.to(tl.int64) if VEC > 1 else at.to(tl.int64) * x_col

    peaks = tl.full([GROUPS], -float("inf"), tl.float32)
    totals = tl.zeros([GROUPS], tl.float32)
    belows = tl.zeros([GROUPS], tl.float32)
    for first in range(0, limit, CHUNK):
        inside = at < limit - first
        x = load(x_ptr, start + first * (1 if VEC > 1 else x_col), step, inside, -float("inf"), "")
        peaks, totals = absorb(x, peaks, totals)
        if SMOOTH:
            belows += tl.sum(tl.where(inside, anchor - x, 0.0), axis=1)
    peak, total = peak_and_total(peaks, totals)
    below = tl.sum(belows, axis=0)

    if VEC > 1:
        col, is_extra = extra_columns(head, groups, n, VEC)
        x_extra = load(x_ptr, row * x_row, col, is_extra, -float("inf"), "")
        higher = tl.maximum(peak, tl.max(x_extra))
        base = finite(higher)
        total = total * exp_above(peak, base) + tl.sum(exp_above(x_extra, base))
        peak = higher
        if SMOOTH:
            below += tl.sum(tl.where(is_extra, anchor - x_extra, 0.0))
    loss, log_total = loss_of(peak, total, below, own, counts, valid, cols, smoothing, SMOOTH)
    tl.store(saved_ptr + row, peak)
    tl.store(saved_ptr + rows + row, log_total)
    return loss, counts.to(tl.float32)


@triton.jit
def reduce_programs(
    loss, count, result_ptr, factor_ptr, tally_ptr, arrivals_ptr, programs, MEAN: tl.constexpr, BLOCK: tl.constexpr
):
    """The sum or the mean of all losses that count, from those of each program, by the program that arrives last and
    always in the same order. A kernel for it would take longer than many a loss. The counter of arrivals is 0 before
    and after the launch."""
    tl.store(tally_ptr + tl.program_id(0), loss)
    tl.store(tally_ptr + programs + tl.program_id(0), count)
    tl.debug_barrier()
    if tl.atomic_add(arrivals_ptr, 1, sem="acq_rel") == programs - 1:
        at = tl.arange(0, BLOCK)
        losses = tl.zeros([BLOCK], tl.float32)
        counts = tl.zeros([BLOCK], tl.float32)
        for first in range(0, programs, BLOCK):
            inside = at < programs - first
            losses += tl.load(tally_ptr + first + at, mask=inside, other=0.0, cache_modifier=".cg")
            counts += tl.load(tally_ptr + programs + first + at, mask=inside, other=0.0, cache_modifier=".cg")
        total, all_counts = tl.sum(losses, axis=0), tl.sum(counts, axis=0)
        result = total / all_counts if MEAN else total  # 0 / 0 is NaN, as in PyTorch
        tl.store(result_ptr, result.to(result_ptr.dtype.element_ty))
        tl.store(factor_ptr, 1.0 / all_counts)
        tl.store(arrivals_ptr, 0)


@triton.jit
def read_saved(upstream_ptr, saved_ptr, row, rows, exists, counts, valid, upstream_step, MEAN: tl.constexpr):
    """The upstream gradients of rows as they scale those of the logits, and both parts of the log-sum-exps. For an
    ignored row all are 0, and so is the gradient."""
    scale = tl.load(upstream_ptr + row * upstream_step, mask=exists, other=0.0).to(tl.float32)
    if MEAN:
        scale *= tl.load(saved_ptr + rows + rows)
    peak = tl.load(saved_ptr + row, mask=exists, other=0.0)
    log_total = tl.load(saved_ptr + rows + row, mask=exists, other=0.0)
    scale = tl.where(counts, tl.where(valid, scale, float("nan")), 0.0)
    return scale, tl.where(counts, peak, 0.0), tl.where(counts, log_total, 0.0)


@triton.jit
def exp_minus_1(z):
    """exp(z) − 1 for z ≤ 0. Near 0 by its series, because the difference would lose digits."""
    series = 1.0 / 720 + z * (1.0 / 5040)
    series = 1.0 / 24 + z * (1.0 / 120 + z * series)
    series = z * (1.0 + z * (0.5 + z * (1.0 / 6 + z * series)))
    return tl.where(z > -0.3, series, tl.exp(z) - 1.0)


@triton.jit
def slope_at_target(own, scale, peak, log_total, even, smoothing):
    return scale * (exp_minus_1(own - peak - log_total) + (smoothing - even))


@triton.jit
def slope(x, scale, peak, log_total, even):
    """The exact difference is taken first; scaling for exp2 and the logarithm are one instruction."""
    return scale * (tl.exp2((x - peak) * LOG2E - log_total * LOG2E) - even)


@triton.jit
def narrow_backward(
    x_ptr, target_ptr, saved_ptr, upstream_ptr, dx_ptr, rows, cols, x_row, x_col,
    target_step, upstream_step, ignore_index, smoothing, even, MEAN: tl.constexpr,
    VEC: tl.constexpr, TILE_ROWS: tl.constexpr, TILE_COLS: tl.constexpr,
):  # fmt: skip
    """dx, contiguous, TILE_ROWS rows per program. `cols` and x_row are passed divided by VEC."""
    row = tl.program_id(0).to(tl.int64) * TILE_ROWS + tl.arange(0, TILE_ROWS)
    col = tl.arange(0, TILE_COLS)[None, :]
    n = (tl.zeros([], tl.int64) + cols) * VEC
    exists = row < rows
    target, counts, valid, own = read_target(
        x_ptr, row * x_row * VEC, target_ptr, row, exists, n, x_col, target_step, ignore_index
    )
    scale, peak, log_total = read_saved(upstream_ptr, saved_ptr, row, rows, exists, counts, valid, upstream_step, MEAN)
    inside = counts[:, None] & (col < n)
    x = load(x_ptr, row[:, None] * x_row * VEC, col.to(tl.int64) * x_col, inside, 0.0, "")
    dx = slope(x, scale[:, None], peak[:, None], log_total[:, None], even)
    at_target = slope_at_target(own, scale, peak, log_total, even, smoothing)
    dx = tl.where((col == target[:, None]) & counts[:, None], at_target[:, None], dx)
    tl.store(dx_ptr + row[:, None] * n + col, dx.to(dx_ptr.dtype.element_ty), mask=exists[:, None] & (col < n))


@triton.jit
def wide_backward(
    x_ptr, target_ptr, saved_ptr, upstream_ptr, dx_ptr, rows, cols, x_row, x_col,
    target_step, upstream_step, ignore_index, smoothing, even, MEAN: tl.constexpr,
    parts, VEC: tl.constexpr, WIDTH: tl.constexpr, CHUNK: tl.constexpr,
):  # fmt: skip
    """dx, contiguous, CHUNK elements of a row per program. With VEC > 1 the rows of dx start at the same offset from a
    multiple of 16 bytes as those of x."""
    row = (tl.program_id(0) // parts).to(tl.int64)
    part = tl.program_id(0) % parts
    target, counts, valid, own = read_target(
        x_ptr, row * x_row, target_ptr, row, row >= 0, cols, x_col, target_step, ignore_index
    )
    scale, peak, log_total = read_saved(
        upstream_ptr, saved_ptr, row, rows, row >= 0, counts, valid, upstream_step, MEAN
    )
    n = tl.zeros([], tl.int64) + cols
    start, head, groups = peel(row * x_row, n, VEC)
    dx_start, _, _ = peel(row * n, n, VEC)
    first = part.to(tl.int64) * CHUNK
    at = columns_of_groups(CHUNK // WIDTH, VEC, WIDTH)
    step = at.to(tl.int64) if VEC > 1 else at.to(tl.int64) * x_col
    inside = at < groups * VEC - first
    x = load(x_ptr, start + first * (1 if VEC > 1 else x_col), step, inside & counts, 0.0, "")
    dx = slope(x, scale, peak, log_total, even)
    tl.store(dx_ptr + dx_start + first + at, dx.to(dx_ptr.dtype.element_ty), mask=inside, eviction_policy="evict_first")
    if part == 0:  # where VEC is 1, there are no such columns
        col, is_extra = extra_columns(head, groups, n, VEC)
        x_extra = load(x_ptr, row * x_row, col, is_extra & counts, 0.0, "")
        dx_extra = slope(x_extra, scale, peak, log_total, even)
        tl.store(dx_ptr + row * n + col, dx_extra.to(dx_ptr.dtype.element_ty), mask=is_extra)
    # The target's element is written once more, by the program that wrote it, after all its threads.
    ahead = target - head - first
    is_extra_target = (part == 0) & ((target < head) | (target >= head + groups * VEC))
    if counts & valid & (((ahead >= 0) & (ahead < CHUNK) & (target < head + groups * VEC)) | is_extra_target):
        tl.debug_barrier()
        at_target = slope_at_target(own, scale, peak, log_total, even, smoothing)
        tl.store(dx_ptr + row * n + target, at_target.to(dx_ptr.dtype.element_ty))
