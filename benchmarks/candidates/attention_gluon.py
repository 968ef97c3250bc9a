"""Attention on Hopper in Gluon, forward, for Triton 3.6 and later: one warp has the copy engine bring tiles, and two
warpgroups compute 64 queries each. It has not run on a GPU yet. Its backward pass is that of the implementation
`triton`.

    klab inspect benchmarks/candidates/attention_gluon.py --arch sm_90

A warpgroup issues the scores of the next tile of keys and the weighted sum of values of the tile before together, and
computes the softmax of the one while the tensor cores compute the other.
"""

import math
from dataclasses import dataclass

import torch
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import (
    fence_async_shared,
    mbarrier,
    tma,
    warpgroup_mma,
    warpgroup_mma_wait,
)
from triton.experimental.gluon.nvidia.hopper import TensorDescriptor

import kernellab as kl
from kernellab.ops.attention.settings import CONTRACT, Settings, attention_passes, new_like, new_lse
from kernellab.ops.gpus import sm_count
from kernellab.ops.gradients import differentiable

WARPS = gl.constexpr(4)  # of a warpgroup
QUERIES = gl.constexpr(64)  # that a warpgroup computes
LN2 = gl.constexpr(math.log(2))
LOG2E = 1 / math.log(2)
L2_SHARE = 16 << 20  # bytes of keys and values that programs walk along at the same time


@gluon.jit
def work_at(turn, heads, group, queries, keys, first, last, together, KEYS: gl.constexpr):
    """The head, that of its keys, the first query, and the tiles of keys that the queries of a program see.

    Those of as many heads as share the L2 cache follow each other, those that see the most keys first. Every other turn
    is walked backwards, so that long and short ones even out.
    """
    ROWS: gl.constexpr = 2 * QUERIES
    programs = gl.num_programs(0)
    place = gl.program_id(0)
    if turn % 2 == 1:
        place = programs - 1 - place
    index = turn * programs + place
    tiles = gl.cdiv(queries, ROWS)
    before = index // (together * tiles) * together
    width = gl.minimum(heads - before, together)
    inside = index - before * tiles
    head = before + inside % width
    query = (tiles - 1 - inside // width) * ROWS
    begin = gl.maximum(query + first, 0)
    end = gl.minimum(query + ROWS + last, keys)
    first_tile = begin // KEYS
    end_tile = gl.maximum(gl.cdiv(end, KEYS), first_tile)
    return head, head // group, query, first_tile, end_tile


@gluon.jit
def bring_tile(x, tiles, full, empty, turn, head, row):
    SLOTS: gl.constexpr = tiles.shape[0]
    slot = turn % SLOTS
    # The phase before the first has the other parity: a slot is empty when it is first filled.
    mbarrier.wait(empty.index(slot), (turn // SLOTS & 1) ^ 1)
    mbarrier.expect(full.index(slot), x.block_type.nbytes)
    tma.async_copy_global_to_shared(x, [head, row, 0], full.index(slot), tiles.index(slot))
    return turn + 1


@gluon.jit
def bring(q, k, v, query_tiles, tiles, full, empty, queries_full, queries_empty, numbers):
    heads, group, queries, keys, first, last, together, turns = numbers
    KEYS: gl.constexpr = tiles.shape[2]
    slot_turn = 0
    query_turn = 0
    for turn in range(turns):
        head, kv_head, query, first_tile, end_tile = work_at(
            turn, heads, group, queries, keys, first, last, together, KEYS
        )
        if (head < heads) & (first_tile < end_tile):
            for i in gl.static_range(2):
                mbarrier.wait(queries_empty.index(i), (query_turn & 1) ^ 1)
                mbarrier.expect(queries_full.index(i), q.block_type.nbytes)
                tma.async_copy_global_to_shared(
                    q, [head, query + i * QUERIES, 0], queries_full.index(i), query_tiles.index(i)
                )
            query_turn += 1
            # In the order in which they are read: keys are a tile ahead of values.
            slot_turn = bring_tile(k, tiles, full, empty, slot_turn, kv_head, (end_tile - 1) * KEYS)
            for back in range(1, end_tile - first_tile):
                tile = end_tile - 1 - back
                slot_turn = bring_tile(k, tiles, full, empty, slot_turn, kv_head, tile * KEYS)
                slot_turn = bring_tile(v, tiles, full, empty, slot_turn, kv_head, (tile + 1) * KEYS)
            slot_turn = bring_tile(v, tiles, full, empty, slot_turn, kv_head, first_tile * KEYS)


@gluon.jit
def matrix(tiles, slot, KEYS: gl.constexpr, D: gl.constexpr):
    return tiles.index(slot).reshape([KEYS, D])


@gluon.jit
def hide(scores, query, key, keys, first, last, layout: gl.constexpr):
    """The scores of keys that a query does not see become -inf."""
    rows = query + gl.arange(0, scores.shape[0], gl.SliceLayout(1, layout))
    columns = key + gl.arange(0, scores.shape[1], gl.SliceLayout(0, layout))
    ahead = columns[None, :] - rows[:, None]
    return gl.where((ahead >= first) & (ahead <= last) & (columns < keys)[None, :], scores, float("-inf"))


@gluon.jit
def weigh(scores, peak, total, scale):
    """Weights, exp2(score - peak), what the sums so far are multiplied by, and the new peaks and totals."""
    new = gl.maximum(peak, gl.max(scores, 1))
    base = gl.where(new == float("-inf"), 0.0, new * scale)  # where nothing is seen so far, weights are 0
    shrink = gl.exp2(peak * scale - base)
    weights = gl.exp2(scores * scale - base[:, None])
    return weights, shrink, new, total * shrink + gl.sum(weights, 1)


@gluon.jit
def compute_before(x):
    """The same numbers, none of which is -1, computed before what follows.

    The assembler (13.0) moves a wait for products to the front of its basic block, and what was to be computed
    meanwhile behind it. An instruction that may end the thread ends the block. A branch to `trap` would, too, but then
    the assembler waits for every product.
    """
    return gl.inline_asm_elementwise(
        "{ .reg .pred never; setp.eq.f32 never, $1, 0fBF800000; @never exit; mov.f32 $0, $1; }",
        "=f,f",
        [x],
        dtype=gl.float32,
        is_pure=False,
        pack=1,
    )


@gluon.jit
def compute(
    consumer: gl.constexpr,
    y,
    lse,
    query_tiles,
    tiles,
    result_tiles,
    full,
    empty,
    queries_full,
    queries_empty,
    scale,
    numbers,
):
    heads, group, queries, keys, first, last, together, turns = numbers
    SLOTS: gl.constexpr = tiles.shape[0]
    KEYS: gl.constexpr = tiles.shape[2]
    D: gl.constexpr = tiles.shape[3]
    score_layout: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [WARPS, 1], [16, KEYS, 16])
    sum_layout: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [WARPS, 1], [16, D, 16])
    row_layout: gl.constexpr = gl.SliceLayout(1, score_layout)
    weight_layout: gl.constexpr = gl.DotOperandLayout(0, sum_layout, 2)
    mine = query_tiles.index(consumer).reshape([QUERIES, D])
    result = result_tiles.index(consumer)
    slot_turn = 0
    query_turn = 0
    for turn in range(turns):
        head, _, block_query, first_tile, end_tile = work_at(
            turn, heads, group, queries, keys, first, last, together, KEYS
        )
        if head < heads:
            query = block_query + consumer * QUERIES
            peak = gl.full([QUERIES], float("-inf"), gl.float32, row_layout)
            total = gl.full([QUERIES], 0.0, gl.float32, row_layout)
            sums = gl.zeros([QUERIES, D], gl.float32, sum_layout)
            if first_tile < end_tile:
                mbarrier.wait(queries_full.index(consumer), query_turn & 1)
                zeros = gl.zeros([QUERIES, KEYS], gl.float32, score_layout)
                slot = slot_turn % SLOTS
                mbarrier.wait(full.index(slot), slot_turn // SLOTS & 1)
                scores = warpgroup_mma(
                    mine, matrix(tiles, slot, KEYS, D).permute((1, 0)), zeros, use_acc=False, is_async=True
                )
                scores = warpgroup_mma_wait(0, deps=(scores,))
                mbarrier.arrive(empty.index(slot), count=1)
                slot_turn += 1
                scores = hide(scores, query, (end_tile - 1) * KEYS, keys, first, last, score_layout)
                weights, shrink, peak, total = weigh(scores, peak, total, scale)
                operand = gl.convert_layout(weights.to(y.dtype), weight_layout)
                for back in range(1, end_tile - first_tile):
                    key = (end_tile - 1 - back) * KEYS
                    key_slot = slot_turn % SLOTS
                    mbarrier.wait(full.index(key_slot), slot_turn // SLOTS & 1)
                    scores = warpgroup_mma(
                        mine, matrix(tiles, key_slot, KEYS, D).permute((1, 0)), zeros, use_acc=False, is_async=True
                    )
                    slot_turn += 1
                    value_slot = slot_turn % SLOTS
                    mbarrier.wait(full.index(value_slot), slot_turn // SLOTS & 1)
                    sums = warpgroup_mma(operand, matrix(tiles, value_slot, KEYS, D), sums, is_async=True)
                    slot_turn += 1
                    scores = warpgroup_mma_wait(1, deps=(scores,))
                    mbarrier.arrive(empty.index(key_slot), count=1)
                    seen_by_all = (key + KEYS <= gl.minimum(keys, query + last + 1)) & (
                        key >= query + QUERIES - 1 + first
                    )
                    if not seen_by_all:
                        scores = hide(scores, query, key, keys, first, last, score_layout)
                    weights, shrink, peak, total = weigh(scores, peak, total, scale)
                    total = compute_before(total)
                    sums = warpgroup_mma_wait(0, deps=(sums,))
                    mbarrier.arrive(empty.index(value_slot), count=1)
                    sums = sums * gl.convert_layout(shrink, gl.SliceLayout(1, sum_layout))[:, None]
                    operand = gl.convert_layout(weights.to(y.dtype), weight_layout)
                mbarrier.arrive(queries_empty.index(consumer), count=1)
                query_turn += 1
                slot = slot_turn % SLOTS
                mbarrier.wait(full.index(slot), slot_turn // SLOTS & 1)
                sums = warpgroup_mma(operand, matrix(tiles, slot, KEYS, D), sums, is_async=True)
                sums = warpgroup_mma_wait(0, deps=(sums,))
                mbarrier.arrive(empty.index(slot), count=1)
                slot_turn += 1
            sees_none = total == 0.0
            factor = gl.where(sees_none, 0.0, 1.0 / total)
            rows = query + gl.arange(0, QUERIES, row_layout)
            logarithm = gl.where(sees_none, float("-inf"), (peak * scale + gl.log2(total)) * LN2)
            gl.store(lse + head.to(gl.int64) * queries + rows, logarithm, mask=rows < queries)
            values = sums * gl.convert_layout(factor, gl.SliceLayout(1, sum_layout))[:, None]
            tma.store_wait(0)  # the result before has been stored
            result.reshape([QUERIES, D]).store(values.to(y.dtype))
            fence_async_shared()
            tma.async_copy_shared_to_global(y, [head, query, 0], result)
    tma.store_wait(0)


@gluon.jit(do_not_specialize=["heads", "group", "queries", "keys", "first", "last", "together", "turns"])
def attention(
    q, k, v, y, lse, scale, heads, group, queries, keys, first, last, together, turns,
    KEYS: gl.constexpr, D: gl.constexpr, SLOTS: gl.constexpr,
):  # fmt: skip
    query_tiles = gl.allocate_shared_memory(q.dtype, [2] + q.block_type.shape, q.layout)
    result_tiles = gl.allocate_shared_memory(y.dtype, [2] + y.block_type.shape, y.layout)
    tiles = gl.allocate_shared_memory(k.dtype, [SLOTS] + k.block_type.shape, k.layout)
    full = gl.allocate_shared_memory(gl.int64, [SLOTS, 1], mbarrier.MBarrierLayout())
    empty = gl.allocate_shared_memory(gl.int64, [SLOTS, 1], mbarrier.MBarrierLayout())
    queries_full = gl.allocate_shared_memory(gl.int64, [2, 1], mbarrier.MBarrierLayout())
    queries_empty = gl.allocate_shared_memory(gl.int64, [2, 1], mbarrier.MBarrierLayout())
    for slot in gl.static_range(SLOTS):
        mbarrier.init(full.index(slot), count=1)
        mbarrier.init(empty.index(slot), count=2)
    for i in gl.static_range(2):
        mbarrier.init(queries_full.index(i), count=1)
        mbarrier.init(queries_empty.index(i), count=1)
    fence_async_shared()
    numbers = (heads, group, queries, keys, first, last, together, turns)
    gl.warp_specialize(
        [
            (
                compute,
                (0, y, lse, query_tiles, tiles, result_tiles, full, empty, queries_full, queries_empty, scale, numbers),
            ),
            (
                compute,
                (1, y, lse, query_tiles, tiles, result_tiles, full, empty, queries_full, queries_empty, scale, numbers),
            ),
            (bring, (q, k, v, query_tiles, tiles, full, empty, queries_full, queries_empty, numbers)),
        ],
        [WARPS, 1],
        [240, 24],
    )


@dataclass(frozen=True)
class Config:
    """Keys of a tile, and slots for tiles of keys and values."""

    keys: int = 128
    slots: int = 4


DEFAULT = Config()


def describe(x: torch.Tensor, rows: int) -> TensorDescriptor:
    """Blocks of rows of one head."""
    kind = {torch.bfloat16: gl.bfloat16, torch.float16: gl.float16}[x.dtype]
    block = [1, rows, x.shape[2]]
    return TensorDescriptor.from_tensor(x, block, gl.NVMMASharedLayout.get_default_for(block, kind))


def forward(q, k, v, bias, settings: Settings, config: Config = DEFAULT):
    """The result, and lse."""
    scale = settings.scale_for(q.shape[3])
    y, lse = new_like(q), new_lse(q)
    (batches, heads, queries, columns), (_, kv_heads, keys, _) = q.shape, k.shape
    # Heads of all batches follow each other.
    flat_q, flat_k, flat_v = (x.reshape(-1, *x.shape[2:]).contiguous() for x in (q, k, v))
    result = y.view(-1, queries, columns) if y.is_contiguous() else y.new_empty(batches * heads, queries, columns)
    first, last = settings.band(queries, keys)
    group = heads // kv_heads
    tiles = batches * heads * math.ceil(queries / (2 * QUERIES.value))
    programs = min(tiles, sm_count(q.device))
    attention[(programs,)](
        describe(flat_q, QUERIES.value),
        *(describe(x, config.keys) for x in (flat_k, flat_v)),
        describe(result, QUERIES.value),
        lse,
        scale * LOG2E,
        batches * heads,
        group,
        queries,
        keys,
        -queries - keys if first is None else first,
        queries + keys if last is None else last,
        max(1, L2_SHARE // (4 * keys * columns)) * group,
        math.ceil(tiles / programs),
        config.keys,
        columns,
        config.slots,
        num_warps=WARPS.value,
    )
    return [y if y.is_contiguous() else y.copy_(result.view(y.shape)), lse]


def supports(case):
    if case.device == "cpu":
        return "Triton's interpreter has no Gluon"
    if case.dtype not in ("bfloat16", "float16"):
        return "16-bit floats only"
    if case.D not in (64, 128):
        return "heads have 64 or 128 columns"
    if case.bias or case.dropout_p or (case.scale is not None and case.scale <= 0):
        return "no bias, no dropout, and a scale above 0"
    return "no empty tensors" if 0 in (case.B, case.H, case.Sq, case.Sk) else True


@kl.ops.attention.impl("triton-gluon", supports=supports)
@differentiable(CONTRACT)
def _(causal=None, scale=None, window=None, dropout_p=0.0, seed=0, offset=0):
    from kernellab.ops.attention.triton import backward

    return attention_passes(forward, backward, Settings(causal, scale, window, dropout_p, seed, offset))
