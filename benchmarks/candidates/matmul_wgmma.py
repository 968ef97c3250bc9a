"""Matmul on Hopper in CUDA C++: the copy engine, `wgmma`, and blocks that stay. It has not run on a GPU yet.

    klab check benchmarks/candidates/matmul_wgmma.py --impl cuda-wgmma

Of the three warpgroups of a block, one brings tiles of 64 along k to shared memory, as many ahead as there are stages;
two multiply, each its half of the rows of the block's tile. Two blocks below each other form a cluster: each brings
half of b's tile for both.

What was checked, by reading and on the CPU (tests/benchmarks/test_candidates.py):
- A stage is filled when all warps of all blocks of the cluster have arrived at its `empty`, 8 each; the first time the
  producer waits for parity 1, which is over before anything happens. Consumers begin with parity 0. Both sides turn the
  parity when the stage comes round, and walk through the same tiles and steps.
- `full` counts one arrival and the bytes of the whole stage, those that the other block brings included. They may come
  before this block's producer has announced them: its arrival is still missing. They do not come in the phase before,
  because the other block waits for this block's consumers.
- Products of a step are committed together; when at most one group is left, the step before has read its stage, and
  only then it is released. The last step is waited for.
- Each warp orders its registers before products (`products_begin`), and the compiler uses sums after the wait
  (`settle`).
- Results: the thread that stores waits until the place has been read, all meet, all write and publish, all meet, one
  stores. It waits for its last stores before the block ends. Blocks of a cluster end together.
- 168 registers × 384 threads are 40 × 128 + 232 × 256: what consumers take is what the producer's warpgroup gives.
- Descriptors: rows along k advance 32 bytes for 16 of k; rows along m or n 16 rows, and 64 of m or n are one block
  apart.
"""

import functools
import math
from dataclasses import dataclass

import torch

import kernellab as kl
from kernellab.ops.gpus import sm_count

DTYPES = {torch.bfloat16: "bfloat16", torch.float16: "float16"}
K_STEP, WARPGROUPS, SHARED_LIMIT = 64, 3, 227 * 1024
OUT_BLOCK_BYTES = 64 * 64 * 2  # what a warpgroup stores at a time


@dataclass(frozen=True)
class Config:
    """A tile of a block, its stages, the blocks of a cluster, blocks of results on their way in a warpgroup, and how
    many rows of tiles are walked through column by column."""

    rows: int = 128
    columns: int = 256
    stages: int = 4
    cluster: int = 2
    out_blocks: int = 2
    group: int = 8

    @property
    def shared_bytes(self) -> int:
        stage = (self.rows + self.columns) * K_STEP * 2
        return 1024 + self.stages * stage + (WARPGROUPS - 1) * self.out_blocks * OUT_BLOCK_BYTES


DEFAULT = Config()


def is_suitable(x: torch.Tensor) -> bool:
    """Whether the copy engine can read a matrix as it is: it needs addresses and strides of 16 bytes."""
    return x.stride(-1) == 1 and (x.stride(0) * 2) % 16 == 0 and x.stride(0) >= x.shape[1] and x.data_ptr() % 16 == 0


def as_operand(x: torch.Tensor, by_k_is_last: bool) -> tuple[torch.Tensor, bool]:
    """The matrix whose last dim is contiguous, as it is or transposed, and whether its rows run along k."""
    if is_suitable(x):
        return x, by_k_is_last
    if is_suitable(x.T):
        return x.T, not by_k_is_last
    return x.contiguous(), by_k_is_last


@functools.cache
def kernel(dtype: torch.dtype, a_by_k: bool, b_by_k: bool, config: Config) -> "kl.cuda.Kernel":
    flags = ", ".join("true" if flag else "false" for flag in (a_by_k, b_by_k))
    sizes = f"{config.rows}, {config.columns}, {config.stages}, {config.cluster}, {config.out_blocks}"
    return kl.cuda.kernel("matmul_wgmma.cu", f"matmul<{DTYPES[dtype]}, {flags}, {sizes}>", arch_specific=True)


def multiply(a: torch.Tensor, b: torch.Tensor, config: Config = DEFAULT) -> torch.Tensor:
    (m, k), n = a.shape, b.shape[1]
    c = torch.empty(m, n, dtype=a.dtype, device=a.device)
    (a, a_by_k), (b, b_by_k) = as_operand(a, True), as_operand(b, False)
    part = config.columns // config.cluster  # of b's tile, that a block of a cluster brings
    maps = (
        kl.cuda.TensorMap(a, (config.rows, 64) if a_by_k else (K_STEP, 64)),
        kl.cuda.TensorMap(b, (part, 64) if b_by_k else (K_STEP, 64)),
        kl.cuda.TensorMap(c, (64, 64)),
    )
    rows, columns = math.ceil(m / (config.rows * config.cluster)), math.ceil(n / config.columns)
    clusters = min(rows * columns, sm_count(a.device) // config.cluster)
    kernel(a.dtype, a_by_k, b_by_k, config)(
        clusters,
        WARPGROUPS * 128,
        *maps,
        rows,
        columns,
        math.ceil(k / K_STEP),
        config.group,
        shared=config.shared_bytes,
        cluster=config.cluster if config.cluster > 1 else None,
    )
    return c


def supports(case):
    if case.dtype not in ("bfloat16", "float16"):
        return "16-bit floats only"
    if min(case.M, case.N, case.K) == 0 or any(size % 8 for size in (case.M, case.N, case.K)):
        return "sizes are multiples of 8"
    return True


@kl.ops.matmul.impl("cuda-wgmma", supports=supports)
def _(a, b, **options):
    return multiply(a, b)
