"""Attention backward in Triton: scores and weights are computed again, from the lse that forward saves.

Keys and queries have kernels of their own, each of which walks along the other: no two programs add to one number, so
gradients are the same bits in every call. That takes seven matrix products per pair of tiles. With ATOMIC the kernel of
the keys also adds to the gradient of the queries, which takes five.
"""

import triton
import triton.language as tl

from kernellab.ops.attention.triton_tiles import (
    LOG2E,
    UNSPECIALIZED,
    add_tile,
    dropout_factors,
    head_of,
    hide,
    load_numbers,
    load_partner,
    load_tile,
    pairs_of,
    partners,
    store_tile,
    tile_and_head,
)


@triton.jit(do_not_specialize=UNSPECIALIZED)
def attention_prepare(
    upstream_ptr, y_ptr, lse_ptr, prepared_ptr, upstream_batch, upstream_head, upstream_row, y_batch, y_head, y_row,
    lse_batch, lse_head, heads, rows, numbers, tiles,
    STEP: tl.constexpr, D: tl.constexpr, HEAD: tl.constexpr, ROWS: tl.constexpr,
):  # fmt: skip
    """Two numbers for each query, in fp32: lse·log₂e, +∞ where it sees no key, so that its weights are 0; and delta,
    the sum of upstream·y over the columns."""
    tile, batch_head = tl.program_id(0) % tiles, (tl.program_id(0) // tiles).to(tl.int64)
    batch, head = batch_head // heads, batch_head % heads
    at = tile * ROWS
    i = at + tl.arange(0, ROWS)
    upstream_ptr = head_of(upstream_ptr, batch, head, 0, upstream_batch * STEP, upstream_head * STEP, 0, False)
    y_ptr = head_of(y_ptr, batch, head, 0, y_batch * STEP, y_head * STEP, 0, False)
    upstream = load_tile(upstream_ptr, at, rows, upstream_row * STEP, True, ROWS, D, HEAD).to(tl.float32)
    y = load_tile(y_ptr, at, rows, y_row * STEP, True, ROWS, D, HEAD).to(tl.float32)
    lse = tl.load(lse_ptr + batch * lse_batch + head * lse_head + i, mask=i < rows, other=0.0)
    to = prepared_ptr + batch * lse_batch + head * lse_head + i
    tl.store(to, tl.where(lse == -float("inf"), float("inf"), lse * LOG2E), mask=i < rows)
    tl.store(to + numbers, tl.sum(upstream * y, axis=1), mask=i < rows)


@triton.jit(do_not_specialize=UNSPECIALIZED)
def attention_backward_keys(
    q_ptr, upstream_ptr, k_ptr, v_ptr, dk_ptr, dv_ptr, dq_ptr, prepared_ptr, bias_ptr, q_starts, k_starts,
    q_batch, q_head, q_row, upstream_batch, upstream_head, upstream_row, k_batch, k_head, k_row, v_batch, v_head, v_row,
    dk_batch, dk_head, dk_row, dv_batch, dv_head, dv_row, dq_batch, dq_head, dq_row,
    lse_batch, lse_head, bias_batch, bias_head, bias_row, bias_column,
    heads, group, queries, keys, first, last, exponent_scale, scale, tiles, together, numbers,
    seed, stream_offset, last_kept, factor, pair_rows, padded,
    STEP: tl.constexpr, D: tl.constexpr, HEAD: tl.constexpr, QUERIES: tl.constexpr, KEYS: tl.constexpr,
    HAS_FIRST: tl.constexpr, HAS_LAST: tl.constexpr, SHIFTED: tl.constexpr, EVEN: tl.constexpr, BIAS: tl.constexpr,
    DROPOUT: tl.constexpr, PACKED: tl.constexpr, DESCRIBED: tl.constexpr, ATOMIC: tl.constexpr,
):  # fmt: skip
    """The gradients of a tile of keys and of their values, summed over the heads of q that share them.

    The arguments are those of `attention_forward`, but `heads` are those of k; EVEN: all tiles of queries, and where
    ATOMIC of keys too, are full; DESCRIBED: q and upstream are descriptors.
    """
    tile, batch_head = tile_and_head(tiles, together, False)
    batch, kv_head = (batch_head // heads).to(tl.int64), batch_head % heads
    at = tile * KEYS
    q_start, k_start = 0, 0
    if PACKED:
        q_start, k_start = tl.load(q_starts + batch), tl.load(k_starts + batch)
        queries = tl.load(q_starts + batch + 1) - q_start
        keys = tl.load(k_starts + batch + 1) - k_start
        if at >= keys:
            return
    if SHIFTED:
        first += keys - queries
        last += keys - queries
    k_ptr = head_of(k_ptr, batch, kv_head, k_start, k_batch * STEP, k_head * STEP, k_row * STEP, PACKED)
    v_ptr = head_of(v_ptr, batch, kv_head, k_start, v_batch * STEP, v_head * STEP, v_row * STEP, PACKED)
    dk_ptr = head_of(dk_ptr, batch, kv_head, k_start, dk_batch * STEP, dk_head * STEP, dk_row * STEP, PACKED)
    dv_ptr = head_of(dv_ptr, batch, kv_head, k_start, dv_batch * STEP, dv_head * STEP, dv_row * STEP, PACKED)
    j = at + tl.arange(0, KEYS)
    k = load_tile(k_ptr, at, keys, k_row * STEP, True, KEYS, D, HEAD)
    v = load_tile(v_ptr, at, keys, v_row * STEP, True, KEYS, D, HEAD)
    dk = tl.zeros([KEYS, HEAD], tl.float32)
    dv = tl.zeros([KEYS, HEAD], tl.float32)
    # Key j is seen by query i where −last ≤ i − j ≤ −first.
    begin, whole, whole_end, end = partners(at, queries, -last, -first, HAS_LAST, HAS_FIRST, KEYS, QUERIES)

    for member in range(0, group):
        head = kv_head * group + member
        pair_head = (batch_head * group + member).to(tl.int64)
        q_first, q_column, upstream_first, upstream_column = 0, 0, 0, 0
        q_at, upstream_at, prepared_at, dq_at, first_query = q_ptr, upstream_ptr, prepared_ptr, dq_ptr, 0
        if DESCRIBED:
            q_first, q_column = (batch * q_batch + head * q_head).to(tl.int32), head * q_row
            upstream_first = (batch * upstream_batch + head * upstream_head).to(tl.int32)
            upstream_column = head * upstream_row
            first_query = (batch * lse_batch + head * lse_head).to(tl.int32)
        else:
            q_at = head_of(q_ptr, batch, head, q_start, q_batch * STEP, q_head * STEP, q_row * STEP, PACKED)
            upstream_at = head_of(
                upstream_ptr, batch, head, q_start, upstream_batch * STEP, upstream_head * STEP, upstream_row * STEP,
                PACKED,
            )  # fmt: skip
            prepared_at = head_of(prepared_ptr, batch, head, q_start, lse_batch, lse_head, 1, PACKED)
            if ATOMIC:
                dq_at = head_of(dq_ptr, batch, head, q_start, dq_batch, dq_head, dq_row, PACKED)
        bias_at = head_of(bias_ptr, batch, head, 0, bias_batch, bias_head, 0, False) if BIAS else bias_ptr
        for phase in tl.static_range(3):
            if phase == 0:
                low, high = begin, tl.minimum(whole, end)
            elif phase == 1:
                low, high = whole, whole_end
            else:
                low, high = tl.maximum(whole, whole_end), end
            if phase == 1 or (phase == 0 and HAS_LAST) or (phase == 2 and (HAS_FIRST or not EVEN)):
                for m in range(low, high, QUERIES):
                    i = m + tl.arange(0, QUERIES)
                    q = load_partner(
                        q_at, q_first, q_column, m, queries, q_row * STEP, phase != 1, QUERIES, D, HEAD, DESCRIBED
                    )
                    exponents = tl.dot(k, tl.trans(q), input_precision="ieee") * exponent_scale
                    if BIAS:
                        at_pairs = pairs_of(bias_at, i[None, :], j[:, None], bias_row, bias_column)
                        inside = (i < queries)[None, :] & (j < keys)[:, None]
                        exponents += tl.load(at_pairs, mask=inside, other=0.0).to(tl.float32) * LOG2E
                    lse = load_numbers(
                        prepared_at, first_query, m, queries, float("inf"), phase != 1, QUERIES, DESCRIBED
                    )
                    weights = tl.exp2(exponents - lse[None, :])
                    if phase != 1 or (ATOMIC and not EVEN):
                        weights = hide(
                            weights, i[None, :], j[:, None], first, last, keys, 0.0, HAS_FIRST, HAS_LAST,
                            ATOMIC and not EVEN,
                        )  # fmt: skip
                    upstream = load_partner(
                        upstream_at, upstream_first, upstream_column, m, queries, upstream_row * STEP, phase != 1,
                        QUERIES, D, HEAD, DESCRIBED,
                    )  # fmt: skip
                    if DROPOUT:
                        pair_row = pair_head * pair_rows + i
                        factors = tl.trans(
                            dropout_factors(seed, stream_offset, last_kept, factor, pair_row, at, padded, KEYS)
                        )
                        dv = tl.dot((weights * factors).to(v.dtype), upstream, dv, input_precision="ieee")
                        dweights = tl.dot(v, tl.trans(upstream), input_precision="ieee") * factors
                    else:
                        dv = tl.dot(weights.to(v.dtype), upstream, dv, input_precision="ieee")
                        dweights = tl.dot(v, tl.trans(upstream), input_precision="ieee")
                    delta = load_numbers(
                        prepared_at, first_query + numbers, m, queries, 0.0, phase != 1, QUERIES, DESCRIBED
                    )
                    dscores = (weights * (dweights - delta[None, :])).to(q.dtype)
                    dk = tl.dot(dscores, q, dk, input_precision="ieee")
                    if ATOMIC:
                        dq = tl.dot(tl.trans(dscores), k, input_precision="ieee") * scale
                        if DESCRIBED:
                            dq_ptr.atomic_add([first_query + m, 0], dq)
                        else:
                            add_tile(dq_at, dq, m, queries, dq_row, QUERIES, D, HEAD)

    store_tile(dk_ptr, dk * scale, at, keys, dk_row * STEP, KEYS, D, HEAD)
    store_tile(dv_ptr, dv, at, keys, dv_row * STEP, KEYS, D, HEAD)


@triton.jit(do_not_specialize=UNSPECIALIZED)
def attention_backward_queries(
    q_ptr, upstream_ptr, k_ptr, v_ptr, dq_ptr, prepared_ptr, bias_ptr, dbias_ptr, q_starts, k_starts,
    q_batch, q_head, q_row, upstream_batch, upstream_head, upstream_row, k_batch, k_head, k_row, v_batch, v_head, v_row,
    dq_batch, dq_head, dq_row, lse_batch, lse_head, bias_batch, bias_head, bias_row, bias_column,
    dbias_batch, dbias_head, dbias_row, dbias_column,
    heads, group, queries, keys, first, last, exponent_scale, scale, tiles, together, numbers,
    seed, stream_offset, last_kept, factor, pair_rows, padded,
    STEP: tl.constexpr, D: tl.constexpr, HEAD: tl.constexpr, QUERIES: tl.constexpr, KEYS: tl.constexpr,
    HAS_FIRST: tl.constexpr, HAS_LAST: tl.constexpr, SHIFTED: tl.constexpr, EVEN: tl.constexpr, BIAS: tl.constexpr,
    DROPOUT: tl.constexpr, PACKED: tl.constexpr, DESCRIBED: tl.constexpr, DBIAS: tl.constexpr,
):  # fmt: skip
    """The gradients of a tile of queries, and where DBIAS of the bias of their pairs: those of the scores.

    The arguments are those of `attention_forward`. The gradient of the bias is 0 where a query does not see a key, and
    has been set to 0 before.
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
    upstream_ptr = head_of(
        upstream_ptr, batch, head, q_start, upstream_batch * STEP, upstream_head * STEP, upstream_row * STEP, PACKED
    )
    dq_ptr = head_of(dq_ptr, batch, head, q_start, dq_batch * STEP, dq_head * STEP, dq_row * STEP, PACKED)
    prepared_ptr = head_of(prepared_ptr, batch, head, q_start, lse_batch, lse_head, 1, PACKED)
    if BIAS:
        bias_ptr = head_of(bias_ptr, batch, head, 0, bias_batch, bias_head, 0, False)
    if DBIAS:
        dbias_ptr = head_of(dbias_ptr, batch, head, 0, dbias_batch, dbias_head, 0, False)
    k_first, k_column, v_first, v_column = 0, 0, 0, 0
    if DESCRIBED:
        k_first, k_column = (batch * k_batch + kv_head * k_head).to(tl.int32), kv_head * k_row
        v_first, v_column = (batch * v_batch + kv_head * v_head).to(tl.int32), kv_head * v_row
    else:
        k_ptr = head_of(k_ptr, batch, kv_head, k_start, k_batch * STEP, k_head * STEP, k_row * STEP, PACKED)
        v_ptr = head_of(v_ptr, batch, kv_head, k_start, v_batch * STEP, v_head * STEP, v_row * STEP, PACKED)

    i = at + tl.arange(0, QUERIES)
    q = load_tile(q_ptr, at, queries, q_row * STEP, True, QUERIES, D, HEAD)
    upstream = load_tile(upstream_ptr, at, queries, upstream_row * STEP, True, QUERIES, D, HEAD)
    lse = tl.load(prepared_ptr + i, mask=i < queries, other=float("inf"))
    delta = tl.load(prepared_ptr + numbers + i, mask=i < queries, other=0.0)
    dq = tl.zeros([QUERIES, HEAD], tl.float32)
    begin, whole, whole_end, end = partners(at, keys, first, last, HAS_FIRST, HAS_LAST, QUERIES, KEYS)
    for phase in tl.static_range(3):
        if phase == 0:
            low, high = begin, tl.minimum(whole, end)
        elif phase == 1:
            low, high = whole, whole_end
        else:
            low, high = tl.maximum(whole, whole_end), end
        if phase == 1 or (phase == 0 and HAS_FIRST) or (phase == 2 and (HAS_LAST or not EVEN)):
            for n in range(low, high, KEYS):
                j = n + tl.arange(0, KEYS)
                k = load_partner(k_ptr, k_first, k_column, n, keys, k_row * STEP, phase != 1, KEYS, D, HEAD, DESCRIBED)
                exponents = tl.dot(q, tl.trans(k), input_precision="ieee") * exponent_scale
                inside = (i < queries)[:, None] & (j < keys)[None, :]
                if BIAS:
                    at_pairs = pairs_of(bias_ptr, i[:, None], j[None, :], bias_row, bias_column)
                    exponents += tl.load(at_pairs, mask=inside, other=0.0).to(tl.float32) * LOG2E
                weights = tl.exp2(exponents - lse[:, None])
                if phase != 1:
                    weights = hide(
                        weights, i[:, None], j[None, :], first, last, keys, 0.0, HAS_FIRST, HAS_LAST, not EVEN
                    )
                v = load_partner(v_ptr, v_first, v_column, n, keys, v_row * STEP, phase != 1, KEYS, D, HEAD, DESCRIBED)
                dweights = tl.dot(upstream, tl.trans(v), input_precision="ieee")
                if DROPOUT:
                    pair_row = batch_head.to(tl.int64) * pair_rows + i
                    dweights *= dropout_factors(seed, stream_offset, last_kept, factor, pair_row, n, padded, KEYS)
                dscores = (weights * (dweights - delta[:, None])).to(k.dtype)
                dq = tl.dot(dscores, k, dq, input_precision="ieee")
                if DBIAS:
                    to_pairs = pairs_of(dbias_ptr, i[:, None], j[None, :], dbias_row, dbias_column)
                    tl.store(to_pairs, dscores, mask=inside)
    store_tile(dq_ptr, dq * scale, at, queries, dq_row * STEP, QUERIES, D, HEAD)
