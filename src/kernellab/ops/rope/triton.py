"""Rotary position embedding in Triton: a program turns some heads of some tokens, queries or keys."""

from collections.abc import Sequence

import torch
import triton
import triton.language as tl

from kernellab.build.cuda import same_device
from kernellab.ops.floats import require_float
from kernellab.ops.rope.heads import Rotation

WARPS = 4
HALF_BYTES = WARPS * 32 * 16  # of the first halves of a head of all tokens: 16 bytes for each thread
HEADS = 1  # that a thread turns by the same angles: on an H200 (2026-11-16) 0.98 of copy, and 0.97 with two


def rotate_triton(inputs: Sequence[torch.Tensor], outputs: Sequence[torch.Tensor], rotation: Rotation) -> None:
    q, k = inputs
    require_float(q, "rope")
    batches, _, positions, columns = q.shape
    half = triton.next_power_of_2(columns // 2)
    tokens = batches * positions
    most_tokens = max(1, HALF_BYTES // (half * q.element_size()))
    tile_tokens = min(most_tokens, triton.next_power_of_2(tokens))
    # Of each tensor: heads of a tile, and how many tiles the heads take.
    heads = [min(HEADS * most_tokens // tile_tokens, triton.next_power_of_2(max(1, x.shape[1]))) for x in inputs]
    head_tiles = [triton.cdiv(x.shape[1], n) for x, n in zip(inputs, heads, strict=True)]
    token_tiles = triton.cdiv(tokens, tile_tokens)
    strides = [stride for x in (*inputs, *outputs) for stride in x.stride()[:3]]
    heads_first = q.stride(1) < q.stride(2)
    with same_device(q):
        rotate_heads[(sum(head_tiles) * token_tiles,)](
            *inputs, *outputs, rotation.cos, rotation.sin, *strides, tokens, positions, columns // 2, token_tiles,
            *head_tiles, q.shape[1], k.shape[1], rotation.sign, rotation.interleaved, *heads, tile_tokens, half,
            heads_first, positions % tile_tokens == 0, num_warps=WARPS,
        )  # fmt: skip


@triton.jit
def rotate_heads(
    q_ptr, k_ptr, to_q_ptr, to_k_ptr, cos_ptr, sin_ptr,
    q_batch, q_head, q_position, k_batch, k_head, k_position,
    to_q_batch, to_q_head, to_q_position, to_k_batch, to_k_head, to_k_position,
    tokens, positions, pairs, token_tiles, q_tiles, k_tiles, q_heads, k_heads, sign,
    INTERLEAVED: tl.constexpr, Q_HEADS: tl.constexpr, K_HEADS: tl.constexpr, TOKENS: tl.constexpr,
    HALF: tl.constexpr, HEADS_FIRST: tl.constexpr, ONE_BATCH: tl.constexpr,
):  # fmt: skip
    """The first programs turn queries, the others keys."""
    program = tl.program_id(0)
    q_programs = q_tiles * token_tiles
    if program < q_programs:
        turn_tile(
            q_ptr, to_q_ptr, cos_ptr, sin_ptr, q_batch, q_head, q_position, to_q_batch, to_q_head, to_q_position,
            program, q_tiles, token_tiles, q_heads, tokens, positions, pairs, sign, INTERLEAVED, Q_HEADS, TOKENS, HALF,
            HEADS_FIRST, ONE_BATCH,
        )  # fmt: skip
    else:
        turn_tile(
            k_ptr, to_k_ptr, cos_ptr, sin_ptr, k_batch, k_head, k_position, to_k_batch, to_k_head, to_k_position,
            program - q_programs, k_tiles, token_tiles, k_heads, tokens, positions, pairs, sign, INTERLEAVED, K_HEADS,
            TOKENS, HALF, HEADS_FIRST, ONE_BATCH,
        )  # fmt: skip


@triton.jit
def turn_tile(
    x_ptr, y_ptr, cos_ptr, sin_ptr, x_batch, x_head, x_position, y_batch, y_head, y_position,
    program, head_tiles, token_tiles, heads, tokens, positions, pairs, sign,
    INTERLEAVED: tl.constexpr, HEADS: tl.constexpr, TOKENS: tl.constexpr, HALF: tl.constexpr,
    HEADS_FIRST: tl.constexpr, ONE_BATCH: tl.constexpr,
):  # fmt: skip
    """Tiles are [heads, tokens, columns]; all heads of a token are turned by the same angles.

    Programs that follow each other take the following tokens, or where HEADS_FIRST, the following heads: what lies next
    in memory. ONE_BATCH: the tokens of a tile are of one batch.
    """
    if HEADS_FIRST:
        token_tile, head_tile = program // head_tiles, program % head_tiles
    else:
        token_tile, head_tile = program % token_tiles, program // token_tiles
    first = token_tile.to(tl.int64) * TOKENS
    batch = first // positions
    position = first - batch * positions + tl.arange(0, TOKENS)
    if not ONE_BATCH:
        token = first + tl.arange(0, TOKENS)
        batch = token // positions
        position = token % positions
    exists = first + tl.arange(0, TOKENS) < tokens
    head = (head_tile * HEADS + tl.arange(0, HEADS))[:, None, None]
    pair = tl.arange(0, HALF)
    angle = position[:, None] * pairs + pair[None, :]
    is_angle = exists[:, None] & (pair < pairs)[None, :]
    wide_head = head.to(tl.int64)
    x_ptr += (batch * x_batch + position * x_position)[None, :, None] + wide_head * x_head
    y_ptr += (batch * y_batch + position * y_position)[None, :, None] + wide_head * y_head
    inside = exists[None, :, None] & (head < heads)
    if INTERLEAVED:
        column = tl.arange(0, 2 * HALF)[None, None, :]
        mask = inside & (column < 2 * pairs)
        x = tl.load(x_ptr + column, mask=mask).to(tl.float32)
        cos = tl.load(cos_ptr + angle, mask=is_angle, other=0.0).to(tl.float32)[None, :, :]
        sin = tl.load(sin_ptr + angle, mask=is_angle, other=0.0).to(tl.float32)[None, :, :] * sign
        a, b = tl.split(tl.reshape(x, (HEADS, TOKENS, HALF, 2)))
        y = tl.reshape(tl.join(a * cos - b * sin, b * cos + a * sin), (HEADS, TOKENS, 2 * HALF))
        tl.store(y_ptr + column, y.to(y_ptr.dtype.element_ty), mask=mask)
    else:
        at = pair[None, None, :]
        mask = inside & (at < pairs)
        a = tl.load(x_ptr + at, mask=mask).to(tl.float32)
        b = tl.load(x_ptr + pairs + at, mask=mask).to(tl.float32)
        cos = tl.load(cos_ptr + angle, mask=is_angle, other=0.0).to(tl.float32)[None, :, :]
        sin = tl.load(sin_ptr + angle, mask=is_angle, other=0.0).to(tl.float32)[None, :, :] * sign
        tl.store(y_ptr + at, (a * cos - b * sin).to(y_ptr.dtype.element_ty), mask=mask)
        tl.store(y_ptr + pairs + at, (b * cos + a * sin).to(y_ptr.dtype.element_ty), mask=mask)
