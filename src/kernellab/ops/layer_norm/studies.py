"""Layer norm without weight and bias, from the textbook to the implementation `cuda`: docs/ladder.md says what each
step gains.
"""

import numpy as np
import torch

from kernellab.ops.gpus import shared_bytes
from kernellab.ops.layer_norm import layer_norm
from kernellab.ops.studies import BLOCK, access_width, current_gpu, has_few_rows, kernel, wider_than

PER_THREAD = 16  # elements of a row that a thread holds, as in studies.cu
IN_REGISTERS = PER_THREAD * 1024  # threads
CANCELLATION = "the variance as E[x²] − E[x]² cancels where the mean is large beside the deviation"


def without_parameters(case):
    return "takes neither weight nor bias" if case.weight or case.bias else has_few_rows(case)


def fits_shared_memory(case):
    most = (shared_bytes(current_gpu()) - 1024) // (4 if case.dtype == "float32" else 2)  # beside the sums of the warps
    return wider_than(case, most, "more do not fit in the shared memory of a block") or without_parameters(case)


def fits_registers(case):
    return wider_than(case, IN_REGISTERS, "more do not fit in the registers of a block") or without_parameters(case)


def fits_a_program(case):
    return wider_than(case, 65536, "one program holds the row") or without_parameters(case)


@layer_norm.impl("cuda-block", supports=without_parameters, study=True)
def _(x, weight=None, bias=None, *, eps=1e-5):
    return block_per_row("layer_norm_three_reads", x, eps, wide=False)


@layer_norm.impl("cuda-squares", supports=without_parameters, study=True, flaw=CANCELLATION)
def _(x, weight=None, bias=None, *, eps=1e-5):
    return block_per_row("layer_norm_squares", x, eps, wide=False)


@layer_norm.impl("cuda-welford", supports=without_parameters, study=True)
def _(x, weight=None, bias=None, *, eps=1e-5):
    return block_per_row("layer_norm_welford", x, eps, wide=False)


@layer_norm.impl("cuda-vector", supports=without_parameters, study=True)
def _(x, weight=None, bias=None, *, eps=1e-5):
    return block_per_row("layer_norm_welford", x, eps)


@layer_norm.impl("cuda-shared", supports=fits_shared_memory, study=True)
def _(x, weight=None, bias=None, *, eps=1e-5):
    return block_per_row("layer_norm_shared", x, eps, shared=x.shape[-1] * x.element_size())


@layer_norm.impl("cuda-registers", supports=fits_registers, study=True)
def _(x, weight=None, bias=None, *, eps=1e-5):
    threads = -(-x.shape[-1] // (PER_THREAD * 32)) * 32  # whole warps
    return block_per_row("layer_norm_registers", x, eps, threads=threads)


@layer_norm.impl("triton-row", supports=fits_a_program, study=True)
def _(x, weight=None, bias=None, *, eps=1e-5):
    from kernellab.ops.layer_norm.studies_triton import layer_norm_rows

    return layer_norm_rows(x, eps)


@layer_norm.impl("triton-squares", supports=fits_a_program, study=True, flaw=CANCELLATION)
def _(x, weight=None, bias=None, *, eps=1e-5):
    from kernellab.ops.layer_norm.studies_triton import layer_norm_rows

    return layer_norm_rows(x, eps, by_squares=True)


def block_per_row(
    name: str,
    x: torch.Tensor,
    eps: float,
    *,
    wide: bool = True,
    threads: int = BLOCK,
    shared: int = 0,
) -> torch.Tensor:
    y = torch.empty_like(x)
    if x.numel():
        width = access_width(wide, x, y)
        cols = x.shape[-1]
        run = kernel("layer_norm", name, x, width)
        run(x.numel() // cols, threads, x, y, cols // width, np.float32(eps), shared=shared)
    return y
