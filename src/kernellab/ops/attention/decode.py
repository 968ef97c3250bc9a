"""Attention of a few queries to many keys in Triton, as when a model writes token by token (flash decoding).

With few queries, keys and values are nearly all that is read, and their heads alone are too few programs to keep a GPU
busy. So the keys are split: a program computes the result for all queries of a group of heads over its part of the
keys, as if there were no others, and lse, the logarithm of the sum of the exponentials of their scores. A second kernel
adds up these results, each weighted by exp(lse). The number of splits follows from the shape and the GPU alone.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from kernellab.build.cuda import same_device
from kernellab.ops.attention.settings import Settings, new_like, new_lse
from kernellab.ops.attention.triton_tiles import LN2, LOG2E, hide, load_tile
from kernellab.ops.floats import require_float
from kernellab.ops.gpus import sm_count
from kernellab.ops.gradients import Tensors
from kernellab.ops.layout import with_unit_columns
from kernellab.ops.softmax.triton import finite

# None of these is measured yet.
TILE_BYTES, MOST_KEYS = 16 << 10, 128  # of the keys that a program loads at once
FEWEST_ROWS, MOST_ROWS = 16, 64  # of a program: the first is that of a matrix product on tensor cores
PROGRAMS_PER_SM = 4
FEWEST_SPLIT_KEYS = 256  # less is not worth adding up
SPLITS_AT_ONCE = 8  # that are added up
WARPS, STAGES = 4, 3


def forward(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, bias: torch.Tensor | None, settings: Settings
) -> Tensors:
    """The result, and lse."""
    require_float(q, "attention")
    y, lse = new_like(q), new_lse(q)
    if not q.numel():
        return y, lse
    q, k, v = (with_unit_columns(x) for x in (q, k, v))
    (batches, heads, queries, columns), (groups, keys) = q.shape, k.shape[1:3]
    first, last = settings.band(queries, keys)
    # What no query sees is not read.
    begin = 0 if first is None else max(0, first)
    end = keys if last is None else max(begin, min(keys, queries + last))
    rows = heads // groups * queries
    tile_rows = min(MOST_ROWS, max(FEWEST_ROWS, triton.next_power_of_2(rows)))
    row_tiles = triton.cdiv(rows, tile_rows)
    head_width = max(16, triton.next_power_of_2(columns))
    tile_keys = min(MOST_KEYS, max(16, TILE_BYTES // (head_width * q.element_size())))
    splits, split_keys = _split(end - begin, tile_keys, batches * groups * row_tiles, q.device)
    parts, part_lse, part_strides = y, lse, (0, *y.stride()[:3])
    if splits > 1:
        parts = lse.new_empty(splits, *q.shape)
        part_lse = lse.new_empty(splits, *lse.shape)
        part_strides = parts.stride()[:4]
    steps = [stride for x in (k, v) for stride in x.stride()[:3]]
    # Kernels are told that rows begin at multiples of 8 elements.
    step = 8 if all(stride % 8 == 0 for stride in steps) else 1
    with same_device(q):
        attend_split[(batches * groups * row_tiles, splits)](
            q, k, v, bias, parts, part_lse, *q.stride()[:3], *(stride // step for stride in steps),
            *((0,) * 4 if bias is None else bias.stride()), *part_strides,
            batches, heads, groups, queries, first or 0, last or 0, begin, end, split_keys, row_tiles,
            settings.scale_for(columns), HAS_FIRST=first is not None, HAS_LAST=last is not None, BIAS=bias is not None,
            STEP=step, ROWS=tile_rows, KEYS=tile_keys, D=columns, HEAD=head_width, num_warps=WARPS, num_stages=STAGES,
        )  # fmt: skip
        if splits > 1:
            combine_splits[(lse.numel(),)](
                parts, part_lse, y, lse, *y.stride()[:3], heads, queries, lse.numel(), splits,
                SPLITS=triton.next_power_of_2(splits), AT_ONCE=SPLITS_AT_ONCE, D=columns, HEAD=head_width,
                num_warps=WARPS,
            )  # fmt: skip
    return y, lse


def _split(keys: int, tile_keys: int, programs: int, device: torch.device) -> tuple[int, int]:
    """The number of splits, and the keys of one, a multiple of a tile's."""
    wanted = triton.cdiv(PROGRAMS_PER_SM * sm_count(device), programs)
    most = max(1, min(wanted, keys // FEWEST_SPLIT_KEYS))
    tiles = triton.cdiv(triton.cdiv(keys, tile_keys), most)
    return max(1, triton.cdiv(keys, max(1, tiles) * tile_keys)), tiles * tile_keys


@triton.jit
def attend_split(
    q_ptr, k_ptr, v_ptr, bias_ptr, y_ptr, lse_ptr, q_batch, q_head, q_row, k_batch, k_head, k_row,
    v_batch, v_head, v_row, bias_batch, bias_head, bias_row, bias_column, y_split, y_batch, y_head, y_row,
    batches, heads, groups, queries, first, last, begin, end, split_keys, row_tiles, scale,
    HAS_FIRST: tl.constexpr, HAS_LAST: tl.constexpr, BIAS: tl.constexpr, STEP: tl.constexpr, ROWS: tl.constexpr,
    KEYS: tl.constexpr, D: tl.constexpr, HEAD: tl.constexpr,
):  # fmt: skip
    """The result and lse of some rows over the keys of a split. A row is a query of one of the heads of a group.

    q is [batches, heads, queries, D], k and v [batches, groups, keys, D], with strides divided by STEP, bias [batches,
    heads, queries, keys], y [splits, batches, heads, queries, D], and lse, contiguous, has no columns. Some query sees
    the keys from `begin` to `end`; query i sees key j where first ≤ j − i ≤ last.
    """
    program, split = tl.program_id(0), tl.program_id(1)
    row_tile, group = program % row_tiles, program // row_tiles % groups
    batch = (program // row_tiles // groups).to(tl.int64)
    size = heads // groups
    row = row_tile * ROWS + tl.arange(0, ROWS)
    exists = row < size * queries
    query = row % queries
    head, wide_query = (group * size + row // queries).to(tl.int64), query.to(tl.int64)
    column = tl.arange(0, HEAD)
    inside = exists[:, None] & (column < D)[None, :]
    place = batch * q_batch + head * q_head + wide_query * q_row
    q = tl.load(q_ptr + place[:, None] + column[None, :], mask=inside, other=0.0)
    k_ptr += (batch * k_batch + group.to(tl.int64) * k_head) * STEP
    v_ptr += (batch * v_batch + group.to(tl.int64) * v_head) * STEP
    peak = tl.full([ROWS], -float("inf"), tl.float32)
    total = tl.zeros([ROWS], tl.float32)
    y = tl.zeros([ROWS, HEAD], tl.float32)
    split_begin = begin + split * split_keys
    split_end = tl.minimum(end, split_begin + split_keys)
    for n in range(split_begin, split_end, KEYS):
        j = n + tl.arange(0, KEYS)
        k = load_tile(k_ptr, n, split_end, k_row * STEP, True, KEYS, D, HEAD)
        scores = tl.dot(q, tl.trans(k), input_precision="ieee") * (scale * LOG2E)
        if BIAS:
            bias_row_ptr = bias_ptr + (batch * bias_batch + head * bias_head + wide_query * bias_row)[:, None]
            pair = exists[:, None] & (j < split_end)[None, :]
            bias = tl.load(bias_row_ptr + j.to(tl.int64)[None, :] * bias_column, mask=pair, other=0.0)
            scores += bias.to(tl.float32) * LOG2E
        scores = hide(
            scores, query[:, None], j[None, :], first, last, split_end, -float("inf"), HAS_FIRST, HAS_LAST, True
        )
        higher = tl.maximum(peak, tl.max(scores, axis=1))
        base = finite(higher)
        weights = tl.exp2(scores - base[:, None])
        shrink = tl.exp2(peak - base)
        total = total * shrink + tl.sum(weights, axis=1)
        peak = higher
        v = load_tile(v_ptr, n, split_end, v_row * STEP, True, KEYS, D, HEAD)
        y = tl.dot(weights.to(v.dtype), v, y * shrink[:, None], input_precision="ieee")
    y = y * (1.0 / tl.where(total == 0.0, 1.0, total))[:, None]
    place = split.to(tl.int64) * y_split + batch * y_batch + head * y_head + wide_query * y_row
    tl.store(y_ptr + place[:, None] + column[None, :], y.to(y_ptr.dtype.element_ty), mask=inside)
    place = ((split.to(tl.int64) * batches + batch) * heads + head) * queries + query
    tl.store(lse_ptr + place, (peak + tl.log2(total)) * LN2, mask=exists)


@triton.jit
def combine_splits(
    part_ptr, part_lse_ptr, y_ptr, lse_ptr, y_batch, y_head, y_row, heads, queries, rows, splits,
    SPLITS: tl.constexpr, AT_ONCE: tl.constexpr, D: tl.constexpr, HEAD: tl.constexpr,
):  # fmt: skip
    """A row's results over all splits as one. Parts are [splits, rows, D], contiguous; y is [batches, heads, queries,
    D]."""
    row = tl.program_id(0).to(tl.int64)
    all_splits = tl.arange(0, SPLITS)
    all_lse = tl.load(
        part_lse_ptr + all_splits.to(tl.int64) * rows + row, mask=all_splits < splits, other=-float("inf")
    )
    base = finite(tl.max(all_lse, axis=0))
    total = tl.sum(tl.exp(all_lse - base), axis=0)
    column = tl.arange(0, HEAD)
    y = tl.zeros([HEAD], tl.float32)
    for n in range(0, splits, AT_ONCE):
        split = n + tl.arange(0, AT_ONCE)
        place = split.to(tl.int64) * rows + row
        lse = tl.load(part_lse_ptr + place, mask=split < splits, other=-float("inf"))
        inside = (split < splits)[:, None] & (column < D)[None, :]
        part = tl.load(part_ptr + (place * D)[:, None] + column[None, :], mask=inside, other=0.0)
        y += tl.sum(tl.exp(lse - base)[:, None] * part, axis=0)
    y = y / tl.where(total == 0.0, 1.0, total)
    query, head, batch = row % queries, row // queries % heads, row // queries // heads
    place = batch * y_batch + head * y_head + query * y_row
    tl.store(y_ptr + place + column, y.to(y_ptr.dtype.element_ty), mask=column < D)
    tl.store(lse_ptr + row, base + tl.log(total))
