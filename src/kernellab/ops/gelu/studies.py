"""GeLU, tanh form, from the textbook to the implementation `cuda`: docs/ladder.md says what each step gains."""

import torch

from kernellab.ops.gelu import gelu
from kernellab.ops.studies import BLOCK, access_width, is_contiguous, kernel

OVERFLOW = "tanh(u) as (e²ᵘ − 1) / (e²ᵘ + 1) is inf / inf for x above 10.06"


def supports(case):
    return is_contiguous(case) if case.approximate == "tanh" else "computes the tanh form only"


@gelu.impl("cuda-element", supports=supports, study=True)
def _(x, *, approximate="tanh"):
    return per_element(x, "Textbook")


@gelu.impl("cuda-exp-tanh", supports=supports, study=True, flaw=OVERFLOW)
def _(x, *, approximate="tanh"):
    return per_element(x, "ExpTanh")


@gelu.impl("cuda-sigmoid", supports=supports, study=True)
def _(x, *, approximate="tanh"):
    return per_element(x, "GeluTanh")


@gelu.impl("cuda-vector", supports=supports, study=True)
def _(x, *, approximate="tanh"):
    return in_accesses(x, 1)


@gelu.impl("cuda-vector-4", supports=supports, study=True)
def _(x, *, approximate="tanh"):
    return in_accesses(x, 4)


@gelu.impl("triton-exp-tanh", supports=supports, study=True, flaw=OVERFLOW)
def _(x, *, approximate="tanh"):
    from kernellab.ops.elementwise_triton import map_triton
    from kernellab.ops.gelu.studies_triton import exp_tanh_value

    (y,) = map_triton("gelu", exp_tanh_value, x)
    return y


def per_element(x: torch.Tensor, form: str) -> torch.Tensor:
    y = torch.empty_like(x)
    n = x.numel()
    if n:
        kernel("gelu", "gelu_element", x, form)(-(-n // BLOCK), BLOCK, x, y, n)
    return y


def in_accesses(x: torch.Tensor, per_thread: int) -> torch.Tensor:
    y = torch.empty_like(x)
    if x.numel():
        width = access_width(True, x, y)
        n = x.numel() // width
        run = kernel("gelu", "gelu_vector", x, width, "GeluTanh", per_thread)
        run(-(-n // (BLOCK * per_thread)), BLOCK, x, y, n)
    return y
