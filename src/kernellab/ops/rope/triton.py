"""Rotary position embedding in Triton: a program turns some heads of one token, queries or keys."""

from collections.abc import Sequence

import torch
import triton
import triton.language as tl

from kernellab.build.cuda import same_device
from kernellab.ops.floats import require_float
from kernellab.ops.rope.heads import Rotation

TILE_BYTES = 4096  # of heads that a program loads: 16 bytes for each of 128 threads, twice
WARPS = 4


def rotate_triton(inputs: Sequence[torch.Tensor], outputs: Sequence[torch.Tensor], rotation: Rotation) -> None:
    q, k = inputs
    require_float(q, "rope")
    batches, _, positions, columns = q.shape
    half = triton.next_power_of_2(columns // 2)
    heads = max(1, TILE_BYTES // (2 * half * q.element_size()))
    tiles = [triton.cdiv(x.shape[1], heads) for x in inputs]
    strides = [stride for x in (*inputs, *outputs) for stride in x.stride()[:3]]
    with same_device(q):
        rotate_heads[(batches * positions * sum(tiles),)](
            *inputs, *outputs, rotation.cos, rotation.sin, *strides, positions, columns // 2, *tiles, q.shape[1],
            k.shape[1], rotation.sign, rotation.interleaved, heads, half, num_warps=WARPS,
        )  # fmt: skip


@triton.jit
def rotate_heads(
    q_ptr, k_ptr, to_q_ptr, to_k_ptr, cos_ptr, sin_ptr,
    q_batch, q_head, q_position, k_batch, k_head, k_position,
    to_q_batch, to_q_head, to_q_position, to_k_batch, to_k_head, to_k_position,
    positions, pairs, q_tiles, k_tiles, q_heads, k_heads, sign,
    INTERLEAVED: tl.constexpr, HEADS: tl.constexpr, HALF: tl.constexpr,
):  # fmt: skip
    tiles = q_tiles + k_tiles
    token = tl.program_id(0) // tiles
    tile = tl.program_id(0) % tiles
    batch, position = (token // positions).to(tl.int64), (token % positions).to(tl.int64)
    pair = tl.arange(0, HALF)
    cos = tl.load(cos_ptr + position * pairs + pair, mask=pair < pairs, other=0.0).to(tl.float32)
    sin = tl.load(sin_ptr + position * pairs + pair, mask=pair < pairs, other=0.0).to(tl.float32) * sign
    head = tl.arange(0, HEADS)
    if tile < q_tiles:
        head += tile * HEADS
        x_ptr = q_ptr + batch * q_batch + position * q_position + head.to(tl.int64)[:, None] * q_head
        y_ptr = to_q_ptr + batch * to_q_batch + position * to_q_position + head.to(tl.int64)[:, None] * to_q_head
        turn(x_ptr, y_ptr, cos, sin, head < q_heads, pairs, INTERLEAVED, HALF)
    else:
        head += (tile - q_tiles) * HEADS
        x_ptr = k_ptr + batch * k_batch + position * k_position + head.to(tl.int64)[:, None] * k_head
        y_ptr = to_k_ptr + batch * to_k_batch + position * to_k_position + head.to(tl.int64)[:, None] * to_k_head
        turn(x_ptr, y_ptr, cos, sin, head < k_heads, pairs, INTERLEAVED, HALF)


@triton.jit
def turn(x_ptr, y_ptr, cos, sin, inside, pairs, INTERLEAVED: tl.constexpr, HALF: tl.constexpr):
    """One tile of heads; a head for each pointer of x_ptr."""
    if INTERLEAVED:
        column = tl.arange(0, 2 * HALF)[None, :]
        mask = inside[:, None] & (column < 2 * pairs)
        x = tl.load(x_ptr + column, mask=mask).to(tl.float32)
        a, b = tl.split(tl.reshape(x, (x.shape[0], HALF, 2)))
        y = tl.reshape(tl.join(a * cos - b * sin, b * cos + a * sin), (x.shape[0], 2 * HALF))
        tl.store(y_ptr + column, y.to(y_ptr.dtype.element_ty), mask=mask)
    else:
        pair = tl.arange(0, HALF)[None, :]
        mask = inside[:, None] & (pair < pairs)
        a = tl.load(x_ptr + pair, mask=mask).to(tl.float32)
        b = tl.load(x_ptr + pairs + pair, mask=mask).to(tl.float32)
        tl.store(y_ptr + pair, (a * cos - b * sin).to(y_ptr.dtype.element_ty), mask=mask)
        tl.store(y_ptr + pairs + pair, (b * cos + a * sin).to(y_ptr.dtype.element_ty), mask=mask)
