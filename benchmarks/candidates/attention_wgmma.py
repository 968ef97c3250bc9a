"""Attention on Hopper in CUDA C++: the copy engine, `wgmma`, and warpgroups that take turns. It has not run on a GPU
yet.

The gradient of the queries is added up in memory in any order: its last bits differ from call to call.

    klab check benchmarks/candidates/attention_wgmma.py --impl cuda-wgmma

What was checked, by reading and on the CPU (tests/benchmarks/test_candidates.py). Forward:
- Keys and values share one ring of slots. They are brought in the order in which they are read: the keys of a tile
  before the values of the one before. A slot is free when the 4 warps of each consumer have arrived at its `empty`.
- Producer and consumers compute the same work for a round, and skip the same: where no key is seen no barrier is
  touched. Queries have barriers for each consumer; they are given back after the last scores have been waited for.
- With at most one group of products left, the scores are there; the sums of values only after the second wait. Weights
  are packed, and sums scaled, after it: the products read those registers until then.
- Turns: each consumer waits once and passes once for a tile of keys, and all have the same tiles. The last consumer
  passes first, so that the first one starts. No turn is passed twice before it is taken.
- Registers: 40 × 128 + 232 × 256 of 168 × 384, or 32 × 128 + 160 × 384 of 128 × 512.

Backward:
- Both consumers walk through the same tiles, and meet in each once all gradients of scores are written and published.
  These have two places: what the other consumer still reads is that of the tile before, and of the one before that it
  has waited.
- A stage is given back after the last product of a tile is waited for; the numbers in it have been read by then.
- What is added to dq is written where the additions before have been read: the thread that adds waits, all meet.
- Rows beyond the last query have infinite logarithms, so that their weights are 0; keys beyond the last are masked.
- At a width of 64, half of dq's columns begin in the middle of the rows of keys: 64 bytes into the swizzle. On the CPU
  that is right; of all descriptors it is the one to look at first if dq is wrong on a GPU.
"""

import functools
import math
from dataclasses import dataclass

import numpy as np
import torch

import kernellab as kl
from kernellab.ops.attention.settings import CONTRACT, Settings, attention_passes, new_like, new_lse
from kernellab.ops.gpus import sm_count
from kernellab.ops.gradients import differentiable

DTYPES = {torch.bfloat16: "bfloat16", torch.float16: "float16"}
QUERIES = 64  # of a warpgroup
BACKWARD_KEYS, PREPARED_ROWS = 128, 16  # of a block
LOG2E = 1 / math.log(2)
L2_SHARE = 16 << 20  # bytes of keys and values that blocks walk along at the same time
LEAST_SCALE = 1e-37  # at a scale of 0, -inf for a key that is not seen would become NaN


@dataclass(frozen=True)
class Config:
    """Keys of a tile, slots for tiles of keys and values, warpgroups that compute, and whether they take turns."""

    keys: int = 128
    slots: int = 4
    consumers: int = 2
    turns: bool = True

    def shared_bytes(self, width: int) -> int:
        return 1024 + self.slots * self.keys * width * 2 + 2 * self.consumers * QUERIES * width * 2


CONFIGS = {64: Config(slots=6), 128: Config()}  # by the width of a head


def is_suitable(x: torch.Tensor) -> bool:
    """Whether the copy engine can read a tensor as it is."""
    steps = [stride * 2 for size, stride in zip(x.shape[:-1], x.stride()[:-1], strict=True) if size > 1]
    return x.stride(-1) == 1 and all(step > 0 and step % 16 == 0 for step in steps) and x.data_ptr() % 16 == 0


@functools.cache
def kernel(dtype: torch.dtype, width: int, config: Config) -> "kl.cuda.Kernel":
    sizes = f"{width}, {config.keys}, {config.slots}, {config.consumers}, {'true' if config.turns else 'false'}"
    return kl.cuda.kernel("attention_wgmma.cu", f"attention<{DTYPES[dtype]}, {sizes}>", arch_specific=True)


def forward(q, k, v, bias, settings: Settings, config: Config | None = None):
    """The result, and lse."""
    scale = settings.scale_for(q.shape[3])
    if scale < 0:
        q, scale = -q, -scale
    y, lse = new_like(q), new_lse(q)
    q, k, v = (x if is_suitable(x) else x.contiguous() for x in (q, k, v))
    result = y if is_suitable(y) else y.new_empty(y.shape)
    (batches, heads, queries, columns), (_, kv_heads, keys, _) = q.shape, k.shape
    width = 64 if columns <= 64 else 128
    config = config or CONFIGS[width]
    first, last = settings.band(queries, keys)
    rows = config.consumers * QUERIES
    together = max(1, L2_SHARE // (4 * keys * width)) * (heads // kv_heads)
    blocks = min(batches * heads * math.ceil(queries / rows), sm_count(q.device))
    kernel(q.dtype, width, config)(
        blocks,
        (config.consumers + 1) * 128,
        kl.cuda.TensorMap(q, (1, 1, QUERIES, 64)),
        *(kl.cuda.TensorMap(x, (1, 1, config.keys, 64)) for x in (k, v)),
        kl.cuda.TensorMap(result, (1, 1, QUERIES, 64)),
        lse,
        np.float32(max(scale * LOG2E, LEAST_SCALE)),
        batches,
        heads,
        heads // kv_heads,
        queries,
        keys,
        -queries - keys if first is None else first,
        queries + keys if last is None else last,
        together,
        shared=config.shared_bytes(width),
    )
    return [y if result is y else y.copy_(result), lse]


def backward(upstream, q, k, v, bias, y, lse, settings: Settings, wanted):
    """The gradients of q, k and v: all of them, wanted or not."""
    scale = settings.scale_for(q.shape[3])
    sign, scale = (-1, -scale) if scale < 0 else (1, scale)
    q = -q if sign < 0 else q
    dq, dk, dv = (new_like(x) for x in (q, k, v))
    upstream, q, k, v, y = (x if is_suitable(x) else x.contiguous() for x in (upstream, q, k, v, y))
    (batches, heads, queries, columns), (_, kv_heads, keys, _) = q.shape, k.shape
    width, padded = 64 if columns <= 64 else 128, math.ceil(queries / QUERIES) * QUERIES
    logarithms, sums = q.new_empty((2, batches * heads, padded), dtype=torch.float32)
    kl.cuda.kernel("attention_wgmma_backward.cu", f"attention_prepare<{DTYPES[q.dtype]}>")(
        (padded // PREPARED_ROWS, batches * heads),
        PREPARED_ROWS * 16,
        *(upstream, y, lse.contiguous(), logarithms, sums, heads, queries, padded, columns // 8),
        *(x.stride(dim) // 8 for x in (upstream, y) for dim in (2, 1, 0)),
    )
    dq_sum = torch.zeros(q.shape, dtype=torch.float32, device=q.device)
    results = [x if is_suitable(x) else x.new_empty(x.shape) for x in (dk, dv)]
    first, last = settings.band(queries, keys)
    backward_kernel(q.dtype, width)(
        batches * kv_heads * math.ceil(keys / BACKWARD_KEYS),
        3 * 128,
        *(kl.cuda.TensorMap(x, (1, 1, rows, 64)) for x, rows in ((q, 64), (k, 128), (v, 128), (upstream, 64))),
        kl.cuda.TensorMap(dq_sum, (1, 1, QUERIES, 32)),
        *(kl.cuda.TensorMap(x, (1, 1, 64, 64)) for x in results),
        logarithms,
        sums,
        np.float32(max(scale * LOG2E, LEAST_SCALE)),
        np.float32(scale),
        *(batches, kv_heads, heads // kv_heads, queries, keys, padded),
        -queries - keys if first is None else first,
        queries + keys if last is None else last,
        max(1, L2_SHARE // (8 * queries * width * heads // kv_heads)),
        shared=backward_shared_bytes(width),
    )
    torch.mul(dq_sum, sign * scale, out=dq)
    return [dq, *(x if x is result else x.copy_(result) for x, result in zip((dk, dv), results, strict=True)), None]


@functools.cache
def backward_kernel(dtype: torch.dtype, width: int) -> "kl.cuda.Kernel":
    name = f"attention_backward<{DTYPES[dtype]}, {width}>"
    return kl.cuda.kernel("attention_wgmma_backward.cu", name, arch_specific=True)


def backward_shared_bytes(width: int) -> int:
    """Keys and values, two stages of queries and upstream gradients, gradients of scores twice, dq, numbers."""
    tiles = 2 * BACKWARD_KEYS * width * 2 + 2 * 2 * QUERIES * width * 2
    return 1024 + tiles + 2 * BACKWARD_KEYS * QUERIES * 2 + QUERIES * width * 4 + 2 * 2 * QUERIES * 4


def supports(case):
    if case.dtype not in ("bfloat16", "float16"):
        return "16-bit floats only"
    if case.D % 8 or case.D > 128:
        return "heads have a multiple of 8 columns, at most 128"
    if case.bias or case.dropout_p:
        return "no bias, no dropout"
    return "no empty tensors" if 0 in (case.B, case.H, case.Sq, case.Sk) else True


@kl.ops.attention.impl("cuda-wgmma", supports=supports, repeatable=False)
@differentiable(CONTRACT)
def _(causal=None, scale=None, window=None, dropout_p=0.0, seed=0, offset=0):
    return attention_passes(forward, backward, Settings(causal, scale, window, dropout_p, seed, offset))
