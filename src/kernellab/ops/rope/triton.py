"""Rotary position embedding in Triton: a program turns some heads of some tokens, queries or keys."""

from collections.abc import Sequence

import torch
import triton
import triton.language as tl

from kernellab.build.cuda import same_device
from kernellab.ops.floats import require_float
from kernellab.ops.rope.heads import Rotation

TILE_BYTES = 4096  # that a program loads: 16 bytes for each of 128 threads, twice
WARPS = 4


def rotate_triton(inputs: Sequence[torch.Tensor], outputs: Sequence[torch.Tensor], rotation: Rotation) -> None:
    q, k = inputs
    require_float(q, "rope")
    batches, _, positions, columns = q.shape
    half = triton.next_power_of_2(columns // 2)
    most_rows = max(1, TILE_BYTES // (2 * half * q.element_size()))
    tokens = batches * positions
    # Of each tensor: heads and tokens of a tile, and how many tiles the heads take.
    heads = [min(most_rows, triton.next_power_of_2(max(1, x.shape[1]))) for x in inputs]
    tile_tokens = [most_rows // n for n in heads]
    head_tiles = [triton.cdiv(x.shape[1], n) for x, n in zip(inputs, heads, strict=True)]
    programs = [tiles * triton.cdiv(tokens, n) for tiles, n in zip(head_tiles, tile_tokens, strict=True)]
    strides = [stride for x in (*inputs, *outputs) for stride in x.stride()[:3]]
    with same_device(q):
        rotate_heads[(sum(programs),)](
            *inputs, *outputs, rotation.cos, rotation.sin, *strides, tokens, positions, columns // 2, programs[0],
            *head_tiles, q.shape[1], k.shape[1], rotation.sign, rotation.interleaved, *heads, *tile_tokens, half,
            num_warps=WARPS,
        )  # fmt: skip


@triton.jit
def rotate_heads(
    q_ptr, k_ptr, to_q_ptr, to_k_ptr, cos_ptr, sin_ptr,
    q_batch, q_head, q_position, k_batch, k_head, k_position,
    to_q_batch, to_q_head, to_q_position, to_k_batch, to_k_head, to_k_position,
    tokens, positions, pairs, q_programs, q_tiles, k_tiles, q_heads, k_heads, sign,
    INTERLEAVED: tl.constexpr, Q_HEADS: tl.constexpr, K_HEADS: tl.constexpr, Q_TOKENS: tl.constexpr,
    K_TOKENS: tl.constexpr, HALF: tl.constexpr,
):  # fmt: skip
    """The first programs turn queries, the others keys."""
    program = tl.program_id(0)
    if program < q_programs:
        turn_tile(
            q_ptr, to_q_ptr, cos_ptr, sin_ptr, q_batch, q_head, q_position, to_q_batch, to_q_head, to_q_position,
            program, q_tiles, q_heads, tokens, positions, pairs, sign, INTERLEAVED, Q_HEADS, Q_TOKENS, HALF,
        )  # fmt: skip
    else:
        turn_tile(
            k_ptr, to_k_ptr, cos_ptr, sin_ptr, k_batch, k_head, k_position, to_k_batch, to_k_head, to_k_position,
            program - q_programs, k_tiles, k_heads, tokens, positions, pairs, sign, INTERLEAVED, K_HEADS, K_TOKENS,
            HALF,
        )  # fmt: skip


@triton.jit
def turn_tile(
    x_ptr, y_ptr, cos_ptr, sin_ptr, x_batch, x_head, x_position, y_batch, y_head, y_position,
    program, tiles, heads, tokens, positions, pairs, sign,
    INTERLEAVED: tl.constexpr, HEADS: tl.constexpr, TOKENS: tl.constexpr, HALF: tl.constexpr,
):  # fmt: skip
    """Tiles are [tokens, heads, columns]; all heads of a token are turned by the same angles."""
    token = (program // tiles).to(tl.int64) * TOKENS + tl.arange(0, TOKENS)
    head = program % tiles * HEADS + tl.arange(0, HEADS)
    batch, position = token // positions, token % positions
    pair = tl.arange(0, HALF)
    angle = position[:, None] * pairs + pair[None, :]
    is_angle = (token < tokens)[:, None] & (pair < pairs)[None, :]
    cos = tl.load(cos_ptr + angle, mask=is_angle, other=0.0).to(tl.float32)[:, None, :]
    sin = tl.load(sin_ptr + angle, mask=is_angle, other=0.0).to(tl.float32)[:, None, :] * sign
    wide_head = head.to(tl.int64)[None, :]
    x_ptr += ((batch * x_batch + position * x_position)[:, None] + wide_head * x_head)[:, :, None]
    y_ptr += ((batch * y_batch + position * y_position)[:, None] + wide_head * y_head)[:, :, None]
    inside = ((token < tokens)[:, None] & (head < heads)[None, :])[:, :, None]
    if INTERLEAVED:
        column = tl.arange(0, 2 * HALF)[None, None, :]
        mask = inside & (column < 2 * pairs)
        x = tl.load(x_ptr + column, mask=mask).to(tl.float32)
        a, b = tl.split(tl.reshape(x, (TOKENS, HEADS, HALF, 2)))
        y = tl.reshape(tl.join(a * cos - b * sin, b * cos + a * sin), (TOKENS, HEADS, 2 * HALF))
        tl.store(y_ptr + column, y.to(y_ptr.dtype.element_ty), mask=mask)
    else:
        at = pair[None, None, :]
        mask = inside & (at < pairs)
        a = tl.load(x_ptr + at, mask=mask).to(tl.float32)
        b = tl.load(x_ptr + pairs + at, mask=mask).to(tl.float32)
        tl.store(y_ptr + at, (a * cos - b * sin).to(y_ptr.dtype.element_ty), mask=mask)
        tl.store(y_ptr + pairs + at, (b * cos + a * sin).to(y_ptr.dtype.element_ty), mask=mask)
