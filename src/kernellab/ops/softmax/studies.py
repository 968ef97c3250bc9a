"""Softmax from the textbook to the implementation `cuda`: docs/ladder.md says what each step gains."""

import torch

from kernellab.ops.gpus import has_clusters
from kernellab.ops.softmax import softmax
from kernellab.ops.studies import BLOCK, access_width, current_gpu, has_few_rows, is_contiguous, kernel, wider_than

PER_THREAD = 16  # elements of a row that a thread holds, as in studies.cu
IN_REGISTERS = PER_THREAD * 1024  # threads
CLUSTER = 8  # blocks


def fits_registers(case):
    return wider_than(case, IN_REGISTERS, "more do not fit in the registers of a block") or has_few_rows(case)


def fits_cluster(case):
    if not has_clusters(current_gpu()):
        return "needs a GPU with thread-block clusters: compute capability 9.0"
    refusal = wider_than(case, CLUSTER * IN_REGISTERS, "more do not fit in the registers of a cluster")
    return refusal or has_few_rows(case, CLUSTER)


def fits_a_program(case):
    return wider_than(case, 65536, "one program holds the row") or has_few_rows(case)


@softmax.impl("cuda-thread", supports=is_contiguous, study=True)
def _(x):
    y = torch.empty_like(x)
    if x.numel():
        cols = x.shape[-1]
        rows = x.numel() // cols
        kernel("softmax", "softmax_thread", x)(-(-rows // BLOCK), BLOCK, x, y, rows, cols)
    return y


@softmax.impl("cuda-block", supports=has_few_rows, study=True)
def _(x):
    return block_per_row("softmax_three_reads", x, wide=False)


@softmax.impl("cuda-vector", supports=has_few_rows, study=True)
def _(x):
    return block_per_row("softmax_three_reads", x, wide=True)


@softmax.impl("cuda-online", supports=has_few_rows, study=True)
def _(x):
    return block_per_row("softmax_two_reads", x, wide=True)


@softmax.impl("cuda-registers", supports=fits_registers, study=True)
def _(x):
    return in_registers(x, 1)


@softmax.impl("cuda-cluster", supports=fits_cluster, study=True)
def _(x):
    return in_registers(x, CLUSTER)


@softmax.impl("triton-row", supports=fits_a_program, study=True)
def _(x):
    from kernellab.ops.softmax.studies_triton import softmax_rows

    return softmax_rows(x)


def block_per_row(name: str, x: torch.Tensor, *, wide: bool) -> torch.Tensor:
    y = torch.empty_like(x)
    if x.numel():
        width = access_width(wide, x, y)
        cols = x.shape[-1]
        kernel("softmax", name, x, width)(x.numel() // cols, BLOCK, x, y, cols // width)
    return y


def in_registers(x: torch.Tensor, blocks: int) -> torch.Tensor:
    """`blocks` hold a row together."""
    y = torch.empty_like(x)
    if x.numel():
        width = access_width(True, x, y)
        cols = x.shape[-1]
        threads = -(-cols // (blocks * PER_THREAD * 32)) * 32  # whole warps
        run = kernel("softmax", "softmax_one_read", x, width, blocks > 1)
        # With a cluster, the grid counts clusters.
        run(x.numel() // cols, threads, x, y, cols // width, cluster=blocks if blocks > 1 else None)
    return y
