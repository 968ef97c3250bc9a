"""What `fp32_precision` promises: the reference of "tf32", and PyTorch's own product with it.

A tensor core multiplies tf32 numbers: float32 with 10 bits of mantissa instead of 23. NVIDIA does not say whether a
library cuts the operands or rounds them. So the oracle of "tf32" is the exact product of the operands as they are, and
the reference in float32 cuts them, which is the worst that may be done. PyTorch's own op is compared with that, and
where it is right it is the yardstick for the others, as for every op.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import torch

from kernellab.declaration.case import Case
from kernellab.ops.floats import has_gpu_kernel

_KEPT_BITS = -1 << 13  # of the 32 bits of a float32: sign, exponent and 10 bits of mantissa


def product_of_cut_operands(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """The product of float32 matrices that are cut to tf32, as are the operands of the products of its gradient."""
    product: torch.Tensor = _CutGradient.apply(_Cut.apply(a) @ _Cut.apply(b))
    return product


def _cut(x: torch.Tensor) -> torch.Tensor:
    return torch.where(x.isfinite(), (x.view(torch.int32) & _KEPT_BITS).view(torch.float32), x)


class _Cut(torch.autograd.Function):
    """Cuts a number; its gradient is 1."""

    @staticmethod
    def forward(ctx: object, x: torch.Tensor) -> torch.Tensor:
        return _cut(x)

    @staticmethod
    def backward(ctx: object, gradient: torch.Tensor) -> torch.Tensor:
        return gradient


class _CutGradient(torch.autograd.Function):
    """Leaves a number as it is, and cuts its gradient."""

    @staticmethod
    def forward(ctx: object, x: torch.Tensor) -> torch.Tensor:
        return x.view_as(x)

    @staticmethod
    def backward(ctx: object, gradient: torch.Tensor) -> torch.Tensor:
        cut: torch.Tensor = _Cut.apply(gradient)
        return cut


def pytorchs_tf32_product(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    with _allow_tf32():
        return torch.mm(a, b)


@contextlib.contextmanager
def _allow_tf32() -> Iterator[None]:
    before = torch.backends.cuda.matmul.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = True
    try:
        yield
    finally:
        torch.backends.cuda.matmul.allow_tf32 = before


# `supports=` -------------------------------------------------------------------------------------------


def is_ieee(case: Case) -> bool | str:
    """Also of a case that is older than the option."""
    return case.options.get("fp32_precision", "ieee") == "ieee" or "computes float32 as it is"


def is_ieee_on_gpu(case: Case) -> bool | str:
    """Of kernels without float64 and tf32."""
    supported = has_gpu_kernel(case)
    return is_ieee(case) if supported is True else supported


def has_tf32(case: Case) -> bool | str:
    """Of PyTorch's own: it ignores its setting on a CPU."""
    return is_ieee(case) is True or case.device == "cuda" or "a CPU has no tf32"
