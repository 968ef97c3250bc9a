"""Making a case's tensors from a seed: the same inputs in every process that is given the same seed."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from kernellab.declaration.case import Case
from kernellab.declaration.op import Arg, Op

Inputs = dict[str, "torch.Tensor | None"]


def make(op: Op, case: Case, seed: int, device: str | torch.device | None = None) -> Inputs:
    """Random inputs for a case, contiguous, values drawn from N(0, 1); indices uniform with sentinels."""
    where = torch.device(device or case.device)
    inputs: Inputs = {}
    for name, arg in op.args.items():
        if arg.optional and not case.options.get(name, False):
            inputs[name] = None
            continue
        generator = generator_for(where, seed, op.name, name)
        inputs[name] = _draw(op, arg, case, generator, where)
    return inputs


def normal(sizes: Sequence[int], dtype: torch.dtype, where: torch.device, seed: int, *words: str) -> torch.Tensor:
    """A tensor of N(0, 1) that depends on the seed and the words alone."""
    return torch.randn(sizes, generator=generator_for(where, seed, *words), device=where, dtype=dtype)


def generator_for(where: torch.device, seed: int, *words: str) -> torch.Generator:
    """One seed per argument, so that adding an argument leaves the others as they were."""
    text = "/".join((str(seed), *words))
    mixed = int.from_bytes(hashlib.sha256(text.encode(errors="surrogatepass")).digest()[:7], "little")
    return torch.Generator(device=where).manual_seed(mixed)


def _draw(op: Op, arg: Arg, case: Case, generator: torch.Generator, where: torch.device) -> torch.Tensor:
    sizes = op.sizes(arg, case)
    if not arg.is_index:
        return torch.randn(sizes, generator=generator, device=where, dtype=getattr(torch, case.dtype))
    below = case.dims[arg.below] if isinstance(arg.below, str) else arg.below
    assert isinstance(below, int)
    drawn = torch.randint(0, max(below, 1), sizes, generator=generator, device=where)
    sentinel = case.options.get(arg.sentinel) if isinstance(arg.sentinel, str) else arg.sentinel
    if sentinel is not None:
        marks = torch.rand(sizes, generator=generator, device=where) < 0.1
        drawn[marks] = sentinel
    return drawn


def call(op: Op, fn: Any, inputs: Mapping[str, torch.Tensor | None], case: Case) -> Any:
    """Call a way as its signature asks: tensors by position, options by name."""
    return fn(*inputs.values(), **op.call_options(case))


def clone(inputs: Mapping[str, torch.Tensor | None]) -> Inputs:
    return {k: None if t is None else t.clone() for k, t in inputs.items()}


def upcast(inputs: Mapping[str, torch.Tensor | None]) -> Inputs:
    """Float tensors in float64; indices as they are."""
    return {k: t.double() if t is not None and t.is_floating_point() else t for k, t in inputs.items()}
