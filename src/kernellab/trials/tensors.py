"""A trial's tensors: values, layouts and fences as the trial asks, from a seed."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from kernellab.declaration.inputs import Inputs, generator_for, normal
from kernellab.declaration.op import Op
from kernellab.declaration.passes import is_upstream, pass_of
from kernellab.trials import layouts, values
from kernellab.trials.guard_bands import Fence
from kernellab.trials.trial import Trial


class Pointless(Exception):
    """A trial that comes to nothing new for this op."""


@dataclass
class Material:
    """What a way is given, and the fence that its inputs lie in."""

    inputs: Inputs
    fence: Fence


def make(op: Op, trial: Trial, seed: int, device: torch.device, *, bands: bool) -> Material:
    """`bands` off leaves every tensor as torch allocates it, unless its layout is the question."""
    seed = drawn_from(seed, trial)
    inputs = pass_of(trial.of).inputs(op, trial.case, seed, device)
    if trial.loss_on is not None:
        inputs = _loss_on_one(inputs, trial.loss_on)
    fence = Fence(bands=bands, poison=bands)
    for name, x in inputs.items():
        if x is None:
            continue
        if name in trial.values:
            x = _filled(op, trial, name, x, generator_for(device, seed, op.name, name, trial.values[name]))
        if is_upstream(name) and trial.upstream != "random":
            inputs[name] = _upstream(x, trial.upstream, fence)
        elif bands or name in trial.layouts:
            inputs[name] = layouts.lay(x, trial.layouts.get(name, "contiguous"), fence)
        else:
            inputs[name] = x
    return Material(inputs, fence)


def drawn_from(seed: int, trial: Trial) -> int:
    """The seed of a trial's values in a run with this seed."""
    return seed + trial.draw


def _filled(op: Op, trial: Trial, name: str, x: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    arg = op.args[name]
    if not arg.is_index:
        filled = values.fill(x, trial.values[name], generator)
        # Products of large numbers overflow, and in a sum of both signs its order decides which infinity comes of it.
        several = list(trial.values.values()).count(values.LARGE) > 1
        return filled.abs() if several and op.reduces else filled
    bound, sentinel = op.index_bound(arg, trial.case), op.sentinel(arg, trial.case)
    return values.INDICES[trial.values[name]](x, bound, sentinel)


UPSTREAM = ("random", "expanded", "non-contiguous", "zero")


def _upstream(x: torch.Tensor, kind: str, fence: Fence) -> torch.Tensor:
    """A gradient as autograd hands it down: `expanded` is what `.sum().backward()` gives."""
    if kind == "expanded":
        return torch.ones((), dtype=x.dtype, device=x.device).expand(x.shape)
    if kind == "zero":
        return torch.zeros_like(x)
    layout = "transposed" if x.dim() >= 2 else "every second element"
    return layouts.lay(x, layout if x.dim() else "contiguous", fence)


def _loss_on_one(inputs: Inputs, number: int) -> Inputs:
    """No gradient from above for the other results: autograd hands a way None, or zeros, in their place."""
    above = [name for name in inputs if is_upstream(name)]
    if len(above) < 2:
        raise Pointless("there is one result to take a loss on")
    return {name: x for name, x in inputs.items() if not is_upstream(name) or name == above[number]}


def random_upstream(inputs: Inputs, seed: int) -> Inputs:
    """The inputs with gradients from above that are random, whatever they were."""
    return {
        name: normal(x.shape, x.dtype, x.device, seed, name) if x is not None and is_upstream(name) else x
        for name, x in inputs.items()
    }
