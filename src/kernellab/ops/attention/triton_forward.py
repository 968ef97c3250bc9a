"""Attention forward in Triton (FlashAttention-2): a program has a tile of queries and walks along the keys they see.

The weights stay in registers. They are computed as powers of two: scale and bias are multiplied by log₂e.
"""

import triton
import triton.language as tl

from kernellab.ops.attention.triton_tiles import (
    LN2,
    LOG2E,
    UNSPECIALIZED,
    dropout_factors,
    head_of,
    hide,
    load_partner,
    load_tile,
    pairs_of,
    partners,
    store_tile,
    tile_and_head,
)


@triton.jit(do_not_specialize=UNSPECIALIZED)
def attention_forward(
    q_ptr, k_ptr, v_ptr, y_ptr, lse_ptr, bias_ptr, q_starts, k_starts,
    q_batch, q_head, q_row, k_batch, k_head, k_row, v_batch, v_head, v_row, y_batch, y_head, y_row,
    lse_batch, lse_head, bias_batch, bias_head, bias_row, bias_column,
    heads, group, queries, keys, first, last, scale, tiles, together,
    seed, stream_offset, last_kept, factor, pair_rows, padded,
    STEP: tl.constexpr, D: tl.constexpr, HEAD: tl.constexpr, QUERIES: tl.constexpr, KEYS: tl.constexpr,
    HAS_FIRST: tl.constexpr, HAS_LAST: tl.constexpr, SHIFTED: tl.constexpr, EVEN: tl.constexpr, BIAS: tl.constexpr,
    DROPOUT: tl.constexpr, PACKED: tl.constexpr, DESCRIBED: tl.constexpr,
):  # fmt: skip
    """y and lse of a tile of queries.

    Strides are passed divided by STEP. Query i sees key j where first ≤ j − i ≤ last; where SHIFTED, both are counted
    from the difference of the lengths. EVEN: all tiles of keys are full. PACKED: sequences of different lengths lie one
    after the other, and begin at q_starts and k_starts. DESCRIBED: k and v are descriptors, whose strides count rows,
    rows and columns.
    """
    tile, batch_head = tile_and_head(tiles, together, HAS_LAST)
    batch, head = (batch_head // heads).to(tl.int64), batch_head % heads
    at = tile * QUERIES
    q_start, k_start = 0, 0
    if PACKED:
        q_start, k_start = tl.load(q_starts + batch), tl.load(k_starts + batch)
        queries = tl.load(q_starts + batch + 1) - q_start
        keys = tl.load(k_starts + batch + 1) - k_start
        if at >= queries:
            return
    if SHIFTED:
        first += keys - queries
        last += keys - queries
    kv_head = head // group
    q_ptr = head_of(q_ptr, batch, head, q_start, q_batch * STEP, q_head * STEP, q_row * STEP, PACKED)
    y_ptr = head_of(y_ptr, batch, head, q_start, y_batch * STEP, y_head * STEP, y_row * STEP, PACKED)
    lse_ptr = head_of(lse_ptr, batch, head, q_start, lse_batch, lse_head, 1, PACKED)
    if BIAS:
        bias_ptr = head_of(bias_ptr, batch, head, 0, bias_batch, bias_head, 0, False)
    k_first, k_column, v_first, v_column = 0, 0, 0, 0
    if DESCRIBED:
        k_first, k_column = (batch * k_batch + kv_head * k_head).to(tl.int32), kv_head * k_row
        v_first, v_column = (batch * v_batch + kv_head * v_head).to(tl.int32), kv_head * v_row
    else:
        k_ptr = head_of(k_ptr, batch, kv_head, k_start, k_batch * STEP, k_head * STEP, k_row * STEP, PACKED)
        v_ptr = head_of(v_ptr, batch, kv_head, k_start, v_batch * STEP, v_head * STEP, v_row * STEP, PACKED)

    i = at + tl.arange(0, QUERIES)
    q = load_tile(q_ptr, at, queries, q_row * STEP, True, QUERIES, D, HEAD)
    peak = tl.full([QUERIES], -float("inf"), tl.float32)
    total = tl.zeros([QUERIES], tl.float32)
    y = tl.zeros([QUERIES, HEAD], tl.float32)
    begin, whole, whole_end, end = partners(at, keys, first, last, HAS_FIRST, HAS_LAST, QUERIES, KEYS)
    # The tiles in which every query sees every key need no masks: they are in the middle phase.
    for phase in tl.static_range(3):
        if phase == 0:
            low, high = begin, tl.minimum(whole, end)
        elif phase == 1:
            low, high = whole, whole_end
        else:
            low, high = tl.maximum(whole, whole_end), end
        if phase == 1 or (phase == 0 and HAS_FIRST) or (phase == 2 and (HAS_LAST or not EVEN)):
            for n in range(low, high, KEYS):
                k = load_partner(k_ptr, k_first, k_column, n, keys, k_row * STEP, phase != 1, KEYS, D, HEAD, DESCRIBED)
                scores = tl.dot(q, tl.trans(k), input_precision="ieee")
                j = n + tl.arange(0, KEYS)
                if BIAS:
                    at_pairs = pairs_of(bias_ptr, i[:, None], j[None, :], bias_row, bias_column)
                    inside = (i < queries)[:, None] & (j < keys)[None, :]
                    scores = scores * scale + tl.load(at_pairs, mask=inside, other=0.0).to(tl.float32) * LOG2E
                if phase != 1:
                    scores = hide(
                        scores, i[:, None], j[None, :], first, last, keys, -float("inf"), HAS_FIRST, HAS_LAST, not EVEN
                    )
                highest = tl.max(scores, axis=1)
                higher = tl.maximum(peak, highest if BIAS else highest * scale)
                base = tl.where(higher == -float("inf"), 0.0, higher)  # −inf − −inf would be NaN
                weights = tl.exp2((scores if BIAS else scores * scale) - base[:, None])
                shrink = tl.exp2(peak - base)
                total = total * shrink + tl.sum(weights, axis=1)
                peak = higher
                if DROPOUT:
                    pair_row = batch_head.to(tl.int64) * pair_rows + i
                    weights *= dropout_factors(seed, stream_offset, last_kept, factor, pair_row, n, padded, KEYS)
                v = load_partner(v_ptr, v_first, v_column, n, keys, v_row * STEP, phase != 1, KEYS, D, HEAD, DESCRIBED)
                y = tl.dot(weights.to(v.dtype), v, y * shrink[:, None], input_precision="ieee")

    tl.store(lse_ptr + i, (peak + tl.log2(total)) * LN2, mask=i < queries)
    y = y * (1.0 / tl.where(total == 0.0, 1.0, total))[:, None]
    store_tile(y_ptr, y, at, queries, y_row * STEP, QUERIES, D, HEAD)
