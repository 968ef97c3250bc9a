"""Matmul on Hopper in Gluon, for Triton 3.6 and later: one warp has the copy engine bring tiles, and two warpgroups
multiply. It has not run on a GPU yet.

    klab inspect benchmarks/candidates/matmul_gluon.py --arch sm_90

Gluon inserts a barrier of the warps of a partition before `arrive`, so that one thread may arrive for all. Unlike the
implementation in CUDA C++ it has no clusters, and the whole tile of the result waits in shared memory to be stored.
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
from kernellab.ops.gpus import sm_count

CONSUMER_WARPS = gl.constexpr(8)


@gluon.jit
def tile_at(index, rows, columns, group):
    """Row and column of a tile: `group` rows of tiles are walked through column by column."""
    before = index // (group * columns) * group
    height = gl.minimum(rows - before, group)
    inside = index % (group * columns)
    return before + inside % height, inside // height


@gluon.jit
def bring(a, b, a_tiles, b_tiles, full, empty, rows, columns, steps, group, A_BY_K: gl.constexpr, B_BY_K: gl.constexpr):
    STAGES: gl.constexpr = a_tiles.shape[0]
    BM: gl.constexpr = a.block_type.shape[0 if A_BY_K else 1]
    BN: gl.constexpr = b.block_type.shape[0 if B_BY_K else 1]
    BK: gl.constexpr = a.block_type.shape[1 if A_BY_K else 0]
    turn = 0
    for index in range(gl.program_id(0), rows * columns, gl.num_programs(0)):
        row, column = tile_at(index, rows, columns, group)
        for step in range(steps):
            stage = turn % STAGES
            # The phase before the first has the other parity: a stage is empty when it is first filled.
            mbarrier.wait(empty.index(stage), (turn // STAGES & 1) ^ 1)
            ready = full.index(stage)
            mbarrier.expect(ready, a.block_type.nbytes + b.block_type.nbytes)
            m, n, k = row * BM, column * BN, step * BK
            if A_BY_K:
                tma.async_copy_global_to_shared(a, [m, k], ready, a_tiles.index(stage))
            else:
                tma.async_copy_global_to_shared(a, [k, m], ready, a_tiles.index(stage))
            if B_BY_K:
                tma.async_copy_global_to_shared(b, [n, k], ready, b_tiles.index(stage))
            else:
                tma.async_copy_global_to_shared(b, [k, n], ready, b_tiles.index(stage))
            turn += 1


@gluon.jit
def compute(c, a_tiles, b_tiles, full, empty, rows, columns, steps, group, A_BY_K: gl.constexpr, B_BY_K: gl.constexpr):
    STAGES: gl.constexpr = a_tiles.shape[0]
    BM: gl.constexpr = c.block_type.shape[0]
    BN: gl.constexpr = c.block_type.shape[1]
    layout: gl.constexpr = gl.NVMMADistributedLayout(
        version=[3, 0], warps_per_cta=[CONSUMER_WARPS, 1], instr_shape=[16, BN, 16]
    )
    out = gl.allocate_shared_memory(c.dtype, [BM, BN], c.layout)
    turn = 0
    for index in range(gl.program_id(0), rows * columns, gl.num_programs(0)):
        row, column = tile_at(index, rows, columns, group)
        sums = gl.zeros([BM, BN], gl.float32, layout)
        for step in range(steps):
            stage = turn % STAGES
            mbarrier.wait(full.index(stage), turn // STAGES & 1)
            a = a_tiles.index(stage)
            if not A_BY_K:
                a = a.permute((1, 0))
            b = b_tiles.index(stage)
            if B_BY_K:
                b = b.permute((1, 0))
            sums = warpgroup_mma(a, b, sums, use_acc=step > 0, is_async=True)
            # The product of the step before has read its stage.
            sums = warpgroup_mma_wait(1, deps=(sums,))
            mbarrier.arrive(empty.index((turn + STAGES - 1) % STAGES), count=1, pred=step > 0)
            turn += 1
        sums = warpgroup_mma_wait(0, deps=(sums,))
        mbarrier.arrive(empty.index((turn + STAGES - 1) % STAGES), count=1)
        tma.store_wait(0)  # the tile before has been stored
        out.store(sums.to(c.dtype))
        fence_async_shared()
        tma.async_copy_shared_to_global(c, [row * BM, column * BN], out)
    tma.store_wait(0)


@gluon.jit(do_not_specialize=["rows", "columns", "steps", "group"])
def matmul(a, b, c, rows, columns, steps, group, A_BY_K: gl.constexpr, B_BY_K: gl.constexpr, STAGES: gl.constexpr):
    a_tiles = gl.allocate_shared_memory(a.dtype, [STAGES] + a.block_type.shape, a.layout)
    b_tiles = gl.allocate_shared_memory(b.dtype, [STAGES] + b.block_type.shape, b.layout)
    full = gl.allocate_shared_memory(gl.int64, [STAGES, 1], mbarrier.MBarrierLayout())
    empty = gl.allocate_shared_memory(gl.int64, [STAGES, 1], mbarrier.MBarrierLayout())
    for stage in gl.static_range(STAGES):
        mbarrier.init(full.index(stage), count=1)
        mbarrier.init(empty.index(stage), count=1)
    fence_async_shared()
    gl.warp_specialize(
        [
            (compute, (c, a_tiles, b_tiles, full, empty, rows, columns, steps, group, A_BY_K, B_BY_K)),
            (bring, (a, b, a_tiles, b_tiles, full, empty, rows, columns, steps, group, A_BY_K, B_BY_K)),
        ],
        [1],
        [24],
    )


@dataclass(frozen=True)
class Config:
    """A tile of a program, its stages, and how many rows of tiles are walked through column by column."""

    rows: int = 128
    columns: int = 256
    depth: int = 64
    stages: int = 3
    group: int = 8


DEFAULT = Config()


def is_suitable(x: torch.Tensor) -> bool:
    """Whether the copy engine can read a matrix as it is."""
    return x.stride(-1) == 1 and (x.stride(0) * 2) % 16 == 0 and x.stride(0) >= x.shape[1] and x.data_ptr() % 16 == 0


def as_operand(x: torch.Tensor, by_k_is_last: bool) -> tuple[torch.Tensor, bool]:
    """The matrix whose last dim is contiguous, as it is or transposed, and whether its rows run along k."""
    if is_suitable(x):
        return x, by_k_is_last
    if is_suitable(x.T):
        return x.T, not by_k_is_last
    return x.contiguous(), by_k_is_last


def describe(x: torch.Tensor, block: list[int]) -> TensorDescriptor:
    kind = {torch.bfloat16: gl.bfloat16, torch.float16: gl.float16}[x.dtype]
    return TensorDescriptor.from_tensor(x, block, gl.NVMMASharedLayout.get_default_for(block, kind))


def multiply(a: torch.Tensor, b: torch.Tensor, config: Config = DEFAULT) -> torch.Tensor:
    (m, k), n = a.shape, b.shape[1]
    c = torch.empty(m, n, dtype=a.dtype, device=a.device)
    (a, a_by_k), (b, b_by_k) = as_operand(a, True), as_operand(b, False)
    rows, columns = math.ceil(m / config.rows), math.ceil(n / config.columns)
    matmul[(min(rows * columns, sm_count(a.device)),)](
        describe(a, [config.rows, config.depth] if a_by_k else [config.depth, config.rows]),
        describe(b, [config.columns, config.depth] if b_by_k else [config.depth, config.columns]),
        describe(c, [config.rows, config.columns]),
        rows,
        columns,
        math.ceil(k / config.depth),
        config.group,
        a_by_k,
        b_by_k,
        config.stages,
        num_warps=CONSUMER_WARPS.value,
    )
    return c


def supports(case):
    if case.device == "cpu":
        return "Triton's interpreter has no Gluon"
    if case.dtype not in ("bfloat16", "float16"):
        return "16-bit floats only"
    if min(case.M, case.N, case.K) == 0 or any(size % 8 for size in (case.M, case.N, case.K)):
        return "sizes are multiples of 8"
    return True


@kl.ops.matmul.impl("triton-gluon", supports=supports)
def _(a, b, **options):
    return multiply(a, b)
