"""What adding many terms one after another does to a sum: each running sum is rounded.

The error of a sum of n terms is about ε·√(s₁² + … + sₙ²), with s the running sums: the roundings are independent, and
each is relative to the sum so far. Any other order of summation has an error of this size or a smaller one, unless it
is chosen to be bad.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

import torch

from kernellab.base.operator_mode import AnyOverload, OperatorMode

_BLOCKS = 32  # of the terms of a product: the running sums are known at the end of each
# Operators with two factors, by the index of the first one.
_FIRST_FACTOR = {"mm": 0, "bmm": 0, "mv": 0, "dot": 0, "vdot": 0, "addmm": 1, "baddbmm": 1, "addmv": 1}


def running_sums(name: str, args: Sequence[object], options: Mapping[str, object]) -> torch.Tensor | None:
    """√(Σ s²) of the running sums of each element of an operator's result; None for an operator not known here."""
    terms = args[0] if args else None
    if not isinstance(terms, torch.Tensor) or not terms.numel():
        return None
    if name in _FIRST_FACTOR:
        first = _FIRST_FACTOR[name]
        a, b = args[first], args[first + 1]
        if isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor):
            return _of_product(a.double(), b.double())
    if name in _OF_TERMS:
        dims = args[1] if len(args) > 1 else options.get("dim")
        keepdim = bool(args[2] if len(args) > 2 else options.get("keepdim", False))
        return _OF_TERMS[name](terms.double(), _dims(dims, terms.dim()), keepdim)
    return None


def summed_terms(name: str, args: Sequence[object], result: object) -> int:
    """How many terms an operator adds for each element of its result; 1 for an operator not known here."""
    tensors = [t for t in args if isinstance(t, torch.Tensor)]
    if name in _FIRST_FACTOR and len(tensors) > 1:
        return tensors[_FIRST_FACTOR[name]].shape[-1]
    one = next((t for t in (result if isinstance(result, tuple) else (result,)) if isinstance(t, torch.Tensor)), None)
    if name in _REDUCTIONS and tensors and one is not None and one.numel():
        return tensors[0].numel() // one.numel()
    return 1


class TermCounter(OperatorMode):
    """While active, notes the largest number of terms that any operator adds."""

    def __init__(self) -> None:
        super().__init__()
        self.most = 1

    def __torch_dispatch__(
        self,
        func: AnyOverload,
        types: Sequence[type],
        args: tuple[object, ...] = (),
        kwargs: Mapping[str, object] | None = None,
    ) -> object:
        result = func(*args, **(kwargs or {}))
        self.most = max(self.most, summed_terms(func.overloadpacket.__name__, args, result))
        return result


def _dims(dims: object, count: int) -> list[int]:
    """The dims that are reduced, from an operator's argument: one, several, or all of them."""
    if isinstance(dims, int):
        dims = (dims,)
    chosen = [int(dim) % max(1, count) for dim in dims] if isinstance(dims, (list, tuple)) else []
    return sorted(chosen) or list(range(count))


def _of_sum(terms: torch.Tensor, dims: Sequence[int], keepdim: bool) -> torch.Tensor:
    if not terms.dim():
        return torch.zeros_like(terms)
    last = list(range(-len(dims), 0))
    sums = terms.movedim(list(dims), last).flatten(-len(dims)).cumsum(-1)
    size = sums.square().sum(-1).sqrt()
    for dim in dims if keepdim else ():
        size = size.unsqueeze(dim)
    return size


def _of_mean(terms: torch.Tensor, dims: Sequence[int], keepdim: bool) -> torch.Tensor:
    return _of_sum(terms, dims, keepdim) / math.prod(terms.shape[dim] for dim in dims)


def _of_cumulated(terms: torch.Tensor, dims: Sequence[int], keepdim: bool) -> torch.Tensor:
    return terms.cumsum(dims[0]).square().cumsum(dims[0]).sqrt() if terms.dim() else torch.zeros_like(terms)


def _of_product(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Of `a @ b`. All running sums would take too much memory: those at the ends of blocks stand for the others."""
    vectors = (a.dim() == 1, b.dim() == 1)
    a, b = (a.unsqueeze(0) if vectors[0] else a), (b.unsqueeze(-1) if vectors[1] else b)
    width = -(-a.shape[-1] // _BLOCKS) or 1
    total, squares = torch.zeros_like(a[..., :1] @ b[..., :1, :]), 0.0
    for left, right in zip(a.split(width, -1), b.split(width, -2), strict=True):
        total = total + left @ right
        squares = squares + left.shape[-1] * total.square()
    size = torch.as_tensor(squares).sqrt()
    size = size.squeeze(-1) if vectors[1] else size
    return size.squeeze(0) if vectors[0] else size


_OfTerms = Callable[[torch.Tensor, Sequence[int], bool], torch.Tensor]
_OF_TERMS: dict[str, _OfTerms] = {"sum": _of_sum, "mean": _of_mean, "cumsum": _of_cumulated}
_REDUCTIONS = frozenset(
    ("sum", "mean", "var", "std", "var_mean", "std_mean", "norm", "linalg_vector_norm", "logsumexp", "nansum")
)
