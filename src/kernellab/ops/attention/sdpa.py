"""Attention by torch.nn.functional.scaled_dot_product_attention: each of its backends pinned, or PyTorch's own choice.

`backend_takes` says what a backend cannot do. Where it has no flag for the band of keys that a query sees, the band is
a mask in memory.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable

import torch
import torch.nn.functional as F  # noqa: N812  its usual name
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.attention.bias import causal_lower_right

from kernellab.declaration.case import Case
from kernellab.ops.attention.settings import Settings
from kernellab.ops.layout import with_unit_columns

_BACKENDS = {
    "torch": None,
    "torch-math": SDPBackend.MATH,
    "torch-flash": SDPBackend.FLASH_ATTENTION,
    "torch-efficient": SDPBackend.EFFICIENT_ATTENTION,
    "torch-cudnn": SDPBackend.CUDNN_ATTENTION,
}
# The widest heads with a gradient that a backend takes on a GPU.
_WIDEST_HEADS = {"torch-flash": 256, "torch-cudnn": 128}


def sdpa(
    impl: str,
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    bias: torch.Tensor | None,
    *,
    causal: str | None = None,
    scale: float | None = None,
    window: int | None = None,
    **dropout: object,
) -> torch.Tensor:
    """Attention by the backend of an implementation, without dropout."""
    queries, keys = q.shape[2], k.shape[2]
    first, last = band = Settings(causal, scale, window).band(queries, keys)
    by_flag = bias is None and first is None and last == 0
    mask = bias
    if impl == "torch-flash" and q.is_cuda and causal == "bottom_right" and last is not None and not by_flag:
        mask = causal_lower_right(queries, keys)
    elif (first is not None or last is not None) and not by_flag:
        seen = band.seen(torch.arange(queries, device=q.device), torch.arange(keys, device=q.device))
        mask = seen if bias is None else bias.masked_fill(~seen, -torch.inf)
    backend = _BACKENDS[impl]
    if backend is not None:
        q, k, v = (with_unit_columns(x) for x in (q, k, v))
    with sdpa_kernel(backend) if backend is not None else contextlib.nullcontext():
        return F.scaled_dot_product_attention(
            q, k, v, mask, is_causal=by_flag, scale=scale, enable_gqa=q.shape[1] != k.shape[1]
        )


def backend_takes(impl: str) -> Callable[[Case], bool | str]:
    """`supports=` of an implementation."""
    return lambda case: _refusal(impl, case) or True


def _refusal(impl: str, case: Case) -> str | None:
    if case.dropout_p > 0:
        return "draws its own random numbers for dropout"
    if case.bias and 0 in case.shape:
        return "computes no gradient of a bias without pairs"
    if impl in ("torch", "torch-math"):
        return None
    if case.device == "cpu" and impl != "torch-flash":
        return "has no kernel for the CPU"
    if 0 in case.shape:
        return "takes no empty tensors"
    if impl == "torch-efficient":
        if case.dtype == "float64":
            return "has no float64 kernel"
        return "takes no grouped heads" if case.Hk != case.H else None
    if case.bias:
        return "computes no gradient of a bias"
    return None if case.device == "cpu" else _refusal_on_gpus(impl, case)


def _refusal_on_gpus(impl: str, case: Case) -> str | None:
    """What flash and cuDNN cannot do."""
    if case.dtype not in ("float16", "bfloat16"):
        return "has kernels for 16-bit floats alone"
    widest = _WIDEST_HEADS[impl]
    if widest < case.D:
        return f"takes heads of at most {widest} columns"
    if impl == "torch-cudnn" and case.D % 8:
        return "takes heads of a multiple of 8 columns"
    band = Settings(case.causal, window=case.window).band(case.Sq, case.Sk)
    if band.first is not None or (case.window is not None and band.last is not None):
        return "has no sliding window in PyTorch"
    if band.last is None or (band.last == 0 and case.Sq == case.Sk):
        return None
    if case.causal == "top_left":
        return "has no top-left alignment of queries and keys of different lengths"
    if impl == "torch-cudnn":
        return "has no bottom-right alignment in PyTorch"
    return None if case.Sq <= case.Sk else "gives NaN for queries that see no key"
