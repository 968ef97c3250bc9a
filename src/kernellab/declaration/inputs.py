"""Makes the input tensors of a case from a seed. The same seed gives the same inputs in every process."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence

import torch

from kernellab.base.functions import AnyFunction
from kernellab.base.user_code import explain
from kernellab.declaration.arguments import Arg, ValueFunction
from kernellab.declaration.case import Case
from kernellab.declaration.op import Op
from kernellab.vocabulary.value_kinds import random_mask

Inputs = dict[str, torch.Tensor | None]

_SENTINEL_SHARE = 0.1


class InputsFailed(Exception):
    """The `values=` of an input raised, or returned something else than the tensor it was asked for."""


def make_inputs(op: Op, case: Case, seed: int, device: str | torch.device | None = None) -> Inputs:
    """Contiguous inputs for a case: the declared values; otherwise floats from N(0, 1), uniform indices, some replaced
    by the sentinel. Raises InputsFailed."""
    device = torch.device(device or case.device)
    inputs: Inputs = {}
    for name, arg in op.args.items():
        if arg.optional and not case.options.get(name, False):
            inputs[name] = None
            continue
        generator = generator_for(device, seed, op.name, value_source(op, name))
        inputs[name] = _draw(op, name, case, generator, device)
    return inputs


def value_source(op: Op, name: str) -> str:
    """What an input's generator is seeded with besides the op: its name, or the source it shares with other inputs."""
    return getattr(op.args[name].values, "source", "") or name


def normal(sizes: Sequence[int], dtype: torch.dtype, device: torch.device, seed: int, *words: str) -> torch.Tensor:
    """A tensor from N(0, 1) that depends only on the seed and the words."""
    return torch.randn(sizes, generator=generator_for(device, seed, *words), device=device, dtype=dtype)


def generator_for(device: torch.device, seed: int, *words: str) -> torch.Generator:
    """One generator per argument, so that adding an argument does not change the others."""
    text = "/".join((str(seed), *words))
    mixed = int.from_bytes(hashlib.sha256(text.encode(errors="surrogatepass")).digest()[:7], "little")
    return torch.Generator(device=device).manual_seed(mixed)


def _draw(op: Op, name: str, case: Case, generator: torch.Generator, device: torch.device) -> torch.Tensor:
    arg = op.args[name]
    sizes, dtype = op.sizes(arg, case), getattr(torch, op.dtype_of(arg, case))
    if not arg.is_index:
        function = value_function(arg)
        if function is None:
            return torch.randn(sizes, generator=generator, device=device, dtype=dtype)
        return _make_values(name, function, sizes, dtype, device, generator)
    bound, sentinel = op.index_bound(arg, case), op.sentinel(arg, case)
    indices = torch.randint(0, max(bound, 1), sizes, generator=generator, device=device)
    if sentinel is not None:
        marks = torch.rand(sizes, generator=generator, device=device) < _SENTINEL_SHARE
        indices[marks] = sentinel
    return indices


def value_function(arg: Arg) -> ValueFunction | None:
    """What makes an input's values; None for N(0, 1) and for indices."""
    return random_mask if arg.values is None and arg.dtype == "bool" else arg.values


def _make_values(
    name: str,
    function: ValueFunction,
    sizes: tuple[int, ...],
    dtype: torch.dtype,
    device: torch.device,
    generator: torch.Generator,
) -> torch.Tensor:
    try:
        made = function(sizes, dtype, device, generator)
    except Exception as error:
        raise InputsFailed(f"values= of {name} failed: {explain(error)}") from error
    if not isinstance(made, torch.Tensor):
        raise InputsFailed(f"values= of {name} returned a {type(made).__name__}, not a tensor")
    if (tuple(made.shape), made.dtype, made.device.type) != (sizes, dtype, device.type):
        returned = f"{made.dtype} of shape {tuple(made.shape)} on {made.device}"
        raise InputsFailed(f"values= of {name} returned {returned}, not {dtype} of shape {sizes} on {device}")
    return made.detach().contiguous()


def are_exchangeable(arg: Arg) -> bool:
    """Whether elements of one draw may be exchanged for those of another: each is a random number of its own."""
    return arg.is_float and arg.values is None


def call(op: Op, fn: AnyFunction, inputs: Mapping[str, torch.Tensor | None], case: Case) -> object:
    """Call an implementation: tensors by position, options by name."""
    return fn(*inputs.values(), **op.call_options(case))


def clone(inputs: Mapping[str, torch.Tensor | None]) -> Inputs:
    return {k: None if t is None else t.clone() for k, t in inputs.items()}


def upcast(inputs: Mapping[str, torch.Tensor | None]) -> Inputs:
    """Floats in float64; indices unchanged."""
    return {k: t.double() if t is not None and t.is_floating_point() else t for k, t in inputs.items()}
