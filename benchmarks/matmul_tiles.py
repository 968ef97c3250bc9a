"""Candidates for the tables of ops/matmul/triton.py, and for those of ops/matmul/cuda.py, as implementations of matmul.

    klab bench benchmarks/matmul_tiles.py --impl 'torch,triton-*x*' --shape 4096,8192 --dtype bfloat16

`python benchmarks/matmul.py OUT --tune` runs this, and lists the fastest. A name says rows × columns × depth of a tile,
stages, warps, whether results are written in halves, rows of tiles that programs share, and whether loops are nested.
"""

import functools

import kernellab as kl
from kernellab.ops.floats import CUDA_NAMES
from kernellab.ops.gpus import capability, shared_bytes
from kernellab.ops.matmul.cuda import TILE_DEPTH_BYTES, arguments, kernel, layouts
from kernellab.ops.matmul.cuda import Tiles as CudaTiles
from kernellab.ops.matmul.matrices import as_matrix, new_product
from kernellab.ops.matmul.precision import is_ieee
from kernellab.ops.studies import current_gpu

matmul = kl.ops.matmul  # the file gets a copy with what it adds

# rows, columns, depth, stages, warps, halves, group, flat
DESCRIBED = (
    (128, 256, 64, 3, 8, True, 8, True),
    (128, 256, 64, 3, 8, False, 8, True),
    (128, 256, 64, 4, 8, True, 8, True),
    (128, 256, 128, 2, 8, True, 8, True),
    (256, 128, 64, 3, 8, True, 8, True),
    (256, 128, 64, 4, 8, True, 8, True),
    (128, 128, 64, 4, 8, False, 8, True),
    (128, 128, 64, 4, 4, False, 8, True),
    (128, 128, 64, 5, 8, False, 8, True),
    (128, 128, 128, 3, 8, False, 8, True),
    (128, 256, 64, 3, 8, True, 4, True),
    (128, 256, 64, 3, 8, True, 16, True),
    (128, 256, 64, 3, 8, True, 8, False),
    (64, 256, 64, 4, 4, False, 8, True),
)
# rows, columns, rows and columns of a warp; stages
TENSOR = (
    ((128, 256, 64, 64), 3),
    ((128, 256, 64, 64), 4),
    ((256, 128, 64, 64), 4),
    ((128, 128, 64, 32), 4),
    ((128, 128, 64, 64), 3),
    ((128, 128, 32, 64), 4),
    ((64, 64, 32, 32), 4),
)


def is_16_bit_on_hopper(case):
    if case.dtype not in ("bfloat16", "float16"):
        return "16-bit types only"
    return capability(current_gpu()) >= (9, 0) or "needs compute capability 9.0"


def described(tiles, a, b):
    from kernellab.ops.matmul.triton import launch_described, takes_descriptors

    c = new_product(a, b)
    first, second = as_matrix(a), as_matrix(b)
    if not takes_descriptors(first, second, c):
        raise ValueError("a candidate is for aligned matrices")
    launch_described(first, second, c, tiles)
    return c


def tensor(tiles, stages, a, b):
    c = new_product(a, b)
    first, second = as_matrix(a), as_matrix(b)
    kind = ", ".join(map(str, (CUDA_NAMES[c.dtype], *tiles, stages)))
    run = kernel(f"matmul_tensor<{kind}, {layouts(first, second)}>")
    shared = stages * (tiles.rows + tiles.cols) * TILE_DEPTH_BYTES
    run(tiles.number_for(*c.shape), tiles.threads, *arguments(first, second, c), shared=shared)
    return c


def add_described(rows, cols, depth, stages, warps, halves, group, flat):
    from kernellab.ops.matmul.triton import Tiles

    more = f"{'-halves' if halves else ''}-g{group}{'' if flat else '-nested'}"
    name = f"triton-{rows}x{cols}x{depth}-{stages}s-{warps}w{more}"
    tiles = Tiles(rows, cols, depth, stages, warps, halves, group, flat)

    def supports(case):
        if tiles.shared_bytes(2, stays=True) > shared_bytes(current_gpu()):
            return "does not fit in shared memory"
        return is_16_bit_on_hopper(case)

    @matmul.impl(name, kind="triton", supports=supports)
    def _(a, b, *, fp32_precision="ieee"):
        return described(tiles, a, b)


def add_tensor(sizes, stages):
    name = f"cuda-{'x'.join(map(str, sizes[:2]))}-warps-{'x'.join(map(str, sizes[2:]))}-{stages}s"
    run = functools.partial(tensor, CudaTiles(*sizes), stages)

    @matmul.impl(name, kind="cuda", supports=lambda case: case.dtype != "float32" or is_ieee(case) is not True)
    def _(a, b, *, fp32_precision="ieee"):
        return run(a, b)


for candidate in DESCRIBED:
    add_described(*candidate)
for candidate in TENSOR:
    add_tensor(*candidate)
