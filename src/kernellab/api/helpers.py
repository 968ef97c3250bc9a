"""Helpers for notebooks: a device, closures to time, two functions compared."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

import torch

from kernellab.accuracy.errors import Errors, limit, measure, nonfinite_mismatch
from kernellab.declaration.case import parse_dtype

_BOTH_ROUNDED = Errors(max=2.0, q999=2.0, rel_l2=0.0, max_abs=0.0, at=())
Result = TypeVar("Result")


def get_device(index: int = 0) -> torch.device:
    """The GPU of that index if there is one, else the CPU."""
    return torch.device(f"cuda:{index}") if torch.cuda.is_available() else torch.device("cpu")


def run_operation1(dim: int, operation: Callable[[torch.Tensor], Result]) -> Callable[[], Result]:
    """A closure that applies `operation` to a random dim × dim matrix."""
    x = torch.randn(dim, dim, device=get_device())
    return lambda: operation(x)


def run_operation2(dim: int, operation: Callable[[torch.Tensor, torch.Tensor], Result]) -> Callable[[], Result]:
    """A closure that applies `operation` to two random dim × dim matrices."""
    x, y = (torch.randn(dim, dim, device=get_device()) for _ in range(2))
    return lambda: operation(x, y)


def check_equal(
    f: Callable[[torch.Tensor], torch.Tensor],
    g: Callable[[torch.Tensor], torch.Tensor],
    shape: Sequence[int] = (2048, 2048),
    dtype: str | torch.dtype = "float32",
    seed: int = 0,
) -> None:
    """Raise AssertionError unless g(x) is as close to f in float64 as f(x) itself, on a random x.

    Where f cannot run in float64, g is compared with f directly.
    """
    name = parse_dtype(dtype) if isinstance(dtype, str) else str(dtype).removeprefix("torch.")
    device = get_device()
    generator = torch.Generator(device=device).manual_seed(seed)
    x = torch.randn(tuple(shape), generator=generator, device=device, dtype=getattr(torch, name))
    expected, got = f(x.clone()), g(x.clone())
    if got.shape != expected.shape or got.dtype != expected.dtype:
        raise AssertionError(
            f"results differ in form: {tuple(expected.shape)} {expected.dtype} and {tuple(got.shape)} {got.dtype}"
        )
    try:
        oracle = f(x.double())
        peer = measure(expected, oracle, rowwise=False)
    except Exception:  # f does not take float64: compare the two with each other
        oracle, peer = expected.double(), _BOTH_ROUNDED
    difference = nonfinite_mismatch(got, oracle, expected)
    if difference is not None:
        raise AssertionError(difference)
    errors = measure(got, oracle, rowwise=False)
    for label, error, peer_error in (("largest", errors.max, peer.max), ("99.9 %", errors.q999, peer.q999)):
        if error > limit(peer_error):
            at = errors.at
            raise AssertionError(
                f"results differ: {label} error {error:.3g} roundings, limit {limit(peer_error):.3g}; "
                f"at {list(at)} {got[at].item():.6g}, should be {oracle[at].item():.6g}"
            )
