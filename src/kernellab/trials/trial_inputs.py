"""The input tensors of a trial: made from a seed, with the values, layouts and guard bands that the trial asks for."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from kernellab.declaration.inputs import Inputs, generator_for, normal
from kernellab.declaration.op import Op
from kernellab.declaration.passes import is_upstream, pass_of
from kernellab.trials import layouts, values
from kernellab.trials.guard_bands import GuardedMemory
from kernellab.trials.trial import CONTIGUOUS, RANDOM_UPSTREAM, Trial
from kernellab.vocabulary.value_kinds import Fill


class NotApplicable(Exception):
    """The trial has no meaning for this op or this implementation, or shows nothing that another trial does not."""


@dataclass(frozen=True)
class TrialInputs:
    """The tensors that an implementation is called with, and the guarded memory they lie in."""

    tensors: Inputs
    memory: GuardedMemory


def make_inputs(op: Op, trial: Trial, seed: int, device: torch.device, *, guarded: bool) -> TrialInputs:
    """`guarded=False` leaves every tensor as torch allocates it, unless the trial names a layout for it."""
    seed = seed_of(seed, trial)
    tensors = pass_of(trial.pass_name).inputs(op, trial.case, seed, device)
    if trial.loss_on is not None:
        tensors = _keep_one_upstream(tensors, trial.loss_on)
    memory = GuardedMemory(bands=guarded, poison=guarded)
    for name, x in tensors.items():
        if x is None:
            continue
        if name in trial.values:
            x = _fill(op, trial, name, x, generator_for(device, seed, op.name, name, trial.values[name]))
        if is_upstream(name) and trial.upstream != RANDOM_UPSTREAM:
            tensors[name] = _upstream_like(x, trial.upstream, memory.part(name))
        elif guarded or name in trial.layouts:
            tensors[name] = layouts.apply_layout(x, trial.layouts.get(name, CONTIGUOUS), memory.part(name))
        else:
            tensors[name] = x
    for name in trial.same[1:]:
        tensors[name] = tensors[trial.same[0]]
    return TrialInputs(tensors, memory)


def allowed_inputs(op: Op, trial: Trial) -> bool:
    """Whether the declarations of all inputs allow the values and layouts that a trial gives them."""
    return all(kind in values.special_values(op.args[name]) for name, kind in trial.values.items()) and all(
        layouts.allows_layout(op.args[name], layout, len(op.sizes(op.args[name], trial.case)))
        for name, layout in trial.layouts.items()
    )


def copy_input(x: torch.Tensor, name: str, trial: Trial, memory: GuardedMemory, *, guarded: bool) -> torch.Tensor:
    """A copy of an input in the layout that the trial gives it, in memory of its own."""
    if guarded or name in trial.layouts:
        return layouts.apply_layout(x, trial.layouts.get(name, CONTIGUOUS), memory.part(name))
    return x.clone()


def seed_of(seed: int, trial: Trial) -> int:
    """The seed of a trial's values in a run with this seed."""
    return seed + trial.draw


def _fill(op: Op, trial: Trial, name: str, x: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    arg = op.args[name]
    if arg.is_index:
        bound, sentinel = op.index_bound(arg, trial.case), op.sentinel(arg, trial.case)
        return values.INDICES[trial.values[name]](x, bound, sentinel)
    for fill in fills(op, trial, name):
        x = fill(x, generator)
    return x


def fills(op: Op, trial: Trial, name: str) -> list[Fill]:
    """The functions that make the special values of a float input, to be applied in this order to ordinary ones."""
    steps = values.fills_of(op.args[name], trial.values[name])
    # Products of large numbers overflow. In a sum of both signs, the order of summation decides which infinity
    # results, so that no sign is mixed there.
    several_large = list(trial.values.values()).count(values.LARGE) > 1
    return [*steps, values.magnitude] if several_large and op.reduces else steps


UPSTREAM = (RANDOM_UPSTREAM, "expanded", "non-contiguous", "zero")
# Layouts of an upstream gradient. Where its rank does not have one, it is non-contiguous in another way.
UPSTREAM_LAYOUTS = ("sliced columns", "every second element", "first two dims swapped", "second dim sliced")


def _upstream_like(x: torch.Tensor, kind: str, memory: GuardedMemory) -> torch.Tensor:
    """An upstream gradient as autograd passes it: `expanded` is what `.sum().backward()` produces."""
    if kind == "expanded":
        return layouts.expanded(torch.ones((), dtype=x.dtype, device=x.device), x.shape, memory)
    if kind == "zero":
        return layouts.apply_layout(torch.zeros_like(x), CONTIGUOUS, memory)
    layout = "transposed" if x.dim() >= 2 else "every second element"
    if kind in UPSTREAM_LAYOUTS and layouts.fits(kind, x.dim()):
        layout = kind
    return layouts.apply_layout(x, layout if x.dim() else CONTIGUOUS, memory)


def _keep_one_upstream(tensors: Inputs, number: int) -> Inputs:
    """Without upstream gradients for the other results: autograd passes None, or zeros, in their place."""
    upstream = [name for name in tensors if is_upstream(name)]
    if len(upstream) < 2:
        raise NotApplicable("the op has one result: the loss depends on it in every trial")
    return {name: x for name, x in tensors.items() if not is_upstream(name) or name == upstream[number]}


def with_random_upstream(tensors: Inputs, seed: int) -> Inputs:
    """The inputs with their upstream gradients replaced by random ones."""
    return {
        name: normal(x.shape, x.dtype, x.device, seed, name) if x is not None and is_upstream(name) else x
        for name, x in tensors.items()
    }
