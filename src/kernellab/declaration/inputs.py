"""Makes the input tensors of a case from a seed. The same seed gives the same inputs in every process."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence

import torch

from kernellab.base.functions import AnyFunction
from kernellab.declaration.arguments import Arg
from kernellab.declaration.case import Case
from kernellab.declaration.op import Op

Inputs = dict[str, torch.Tensor | None]

_SENTINEL_SHARE = 0.1


def make_inputs(op: Op, case: Case, seed: int, device: str | torch.device | None = None) -> Inputs:
    """Contiguous inputs for a case: floats from N(0, 1), uniform indices, some replaced by the sentinel."""
    device = torch.device(device or case.device)
    inputs: Inputs = {}
    for name, arg in op.args.items():
        if arg.optional and not case.options.get(name, False):
            inputs[name] = None
            continue
        generator = generator_for(device, seed, op.name, name)
        inputs[name] = _draw(op, arg, case, generator, device)
    return inputs


def normal(sizes: Sequence[int], dtype: torch.dtype, device: torch.device, seed: int, *words: str) -> torch.Tensor:
    """A tensor from N(0, 1) that depends only on the seed and the words."""
    return torch.randn(sizes, generator=generator_for(device, seed, *words), device=device, dtype=dtype)


def generator_for(device: torch.device, seed: int, *words: str) -> torch.Generator:
    """One generator per argument, so that adding an argument does not change the others."""
    text = "/".join((str(seed), *words))
    mixed = int.from_bytes(hashlib.sha256(text.encode(errors="surrogatepass")).digest()[:7], "little")
    return torch.Generator(device=device).manual_seed(mixed)


def _draw(op: Op, arg: Arg, case: Case, generator: torch.Generator, device: torch.device) -> torch.Tensor:
    sizes = op.sizes(arg, case)
    if not arg.is_index:
        return torch.randn(sizes, generator=generator, device=device, dtype=getattr(torch, case.dtype))
    bound, sentinel = op.index_bound(arg, case), op.sentinel(arg, case)
    indices = torch.randint(0, max(bound, 1), sizes, generator=generator, device=device)
    if sentinel is not None:
        marks = torch.rand(sizes, generator=generator, device=device) < _SENTINEL_SHARE
        indices[marks] = sentinel
    return indices


def call(op: Op, fn: AnyFunction, inputs: Mapping[str, torch.Tensor | None], case: Case) -> object:
    """Call an implementation: tensors by position, options by name."""
    return fn(*inputs.values(), **op.call_options(case))


def clone(inputs: Mapping[str, torch.Tensor | None]) -> Inputs:
    return {k: None if t is None else t.clone() for k, t in inputs.items()}


def upcast(inputs: Mapping[str, torch.Tensor | None]) -> Inputs:
    """Floats in float64; indices unchanged."""
    return {k: t.double() if t is not None and t.is_floating_point() else t for k, t in inputs.items()}
