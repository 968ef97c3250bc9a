"""Layer norm from the textbook to the implementation `cuda`: docs/ladder.md says what each step gains."""

import numpy as np
import torch

from kernellab.ops.gpus import shared_bytes
from kernellab.ops.layer_norm import layer_norm
from kernellab.ops.studies import BLOCK, access_width, current_gpu, has_few_rows, has_short_rows, kernel

PER_THREAD = 16  # elements of a row that a thread holds, as in studies.cu
MOST_THREADS = 1024
CANCELLATION = "the variance as E[x²] − E[x]² cancels where the mean is large beside the deviation"


def fits_shared_memory(case):
    most = (shared_bytes(current_gpu()) - 1024) // (4 if case.dtype == "float32" else 2)  # beside the sums of the warps
    return has_short_rows(case, most, "more do not fit in the shared memory of a block")


def fits_registers(case):
    return has_short_rows(case, PER_THREAD * MOST_THREADS, "more do not fit in the registers of a block")


def fits_a_program(case):
    return has_short_rows(case, 65536, "one program holds the row")


@layer_norm.impl("cuda-block", supports=has_few_rows, study=True)
def _(x, weight=None, bias=None, *, eps=1e-5):
    return block_per_row("layer_norm_three_reads", x, weight, bias, eps, wide=False)


@layer_norm.impl("cuda-squares", supports=has_few_rows, study=True, flaw=CANCELLATION)
def _(x, weight=None, bias=None, *, eps=1e-5):
    return block_per_row("layer_norm_squares", x, weight, bias, eps, wide=False)


@layer_norm.impl("cuda-welford", supports=has_few_rows, study=True)
def _(x, weight=None, bias=None, *, eps=1e-5):
    return block_per_row("layer_norm_welford", x, weight, bias, eps, wide=False)


@layer_norm.impl("cuda-vector", supports=has_few_rows, study=True)
def _(x, weight=None, bias=None, *, eps=1e-5):
    return block_per_row("layer_norm_welford", x, weight, bias, eps)


@layer_norm.impl("cuda-shared", supports=fits_shared_memory, study=True)
def _(x, weight=None, bias=None, *, eps=1e-5):
    return block_per_row("layer_norm_shared", x, weight, bias, eps, shared=x.shape[-1] * x.element_size())


@layer_norm.impl("cuda-registers", supports=fits_registers, study=True)
def _(x, weight=None, bias=None, *, eps=1e-5):
    threads = -(-x.shape[-1] // (PER_THREAD * 32)) * 32  # whole warps
    return block_per_row("layer_norm_registers", x, weight, bias, eps, threads=threads)


@layer_norm.impl("triton-row", supports=fits_a_program, study=True)
def _(x, weight=None, bias=None, *, eps=1e-5):
    from kernellab.ops.layer_norm.studies_triton import layer_norm_rows

    return layer_norm_rows(x, weight, bias, eps)


@layer_norm.impl("triton-squares", supports=fits_a_program, study=True, flaw=CANCELLATION)
def _(x, weight=None, bias=None, *, eps=1e-5):
    from kernellab.ops.layer_norm.studies_triton import layer_norm_rows

    return layer_norm_rows(x, weight, bias, eps, by_squares=True)


def block_per_row(
    name: str,
    x: torch.Tensor,
    weight: torch.Tensor | None,
    bias: torch.Tensor | None,
    eps: float,
    *,
    wide: bool = True,
    threads: int = BLOCK,
    shared: int = 0,
) -> torch.Tensor:
    y = torch.empty_like(x)
    if x.numel():
        width = access_width(wide, x, weight, bias, y)
        cols = x.shape[-1]
        parameters = (0 if t is None else t for t in (weight, bias))  # null
        args = (x, *parameters, y, cols // width, np.float32(eps))
        kernel("layer_norm", name, x, width)(x.numel() // cols, threads, *args, shared=shared)
    return y
