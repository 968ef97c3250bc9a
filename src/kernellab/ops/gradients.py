"""Implementations with a hand-written backward: their two passes, and how autograd joins them.

An op folder declares both passes of an implementation once:

    @gelu.impl("triton")
    @differentiable(CONTRACT)
    def _(*, approximate="tanh"):
        return map_passes(map_triton, "gelu", *FORMS[approximate])

The implementation of these passes is what `klab check` checks and `klab bench` times. `kernellab.library` registers the
same passes with torch.library, for use in models.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol, TypeVar

import torch
from torch.autograd.function import FunctionCtx, once_differentiable

from kernellab.ops.layout import empty_elementwise, empty_rows

F = TypeVar("F", contravariant=True)
Tensors = Sequence[torch.Tensor]
Given = Sequence[torch.Tensor | None]


class Forward(Protocol):
    """Computes the outputs that the op's contract names from its inputs."""

    def __call__(self, *inputs: torch.Tensor) -> Tensors: ...


class InformedForward(Protocol):
    """The same for a contract with `forward_takes_wanted`: `wanted` is what backward will be given."""

    def __call__(self, *inputs: torch.Tensor, wanted: Sequence[bool]) -> Tensors: ...


class Backward(Protocol):
    """Computes the gradients that the contract names from those of the results and from what is saved. `wanted` says
    which of them are needed; an unwanted one may be None."""

    def __call__(self, *upstream_and_saved: torch.Tensor, wanted: Sequence[bool]) -> Given: ...


class Passes(NamedTuple):
    """The two passes of an implementation, for given options of the op."""

    forward: Forward | InformedForward
    backward: Backward


class NewTensors(Protocol):
    """New tensors with the shapes, strides and dtypes of those that a pass returns, whoever implements it."""

    def __call__(self, *tensors: torch.Tensor, **options: object) -> Tensors: ...


@dataclass(frozen=True)
class Contract:
    """What the passes of all implementations of an op have in common. The backward pass of one takes what the forward
    pass of another saved.

    Forward takes `inputs`, None for one that is not given, and returns `outputs`: first the results, then what only
    backward reads. Backward takes the gradients of the results, and then what `saved` names among inputs and outputs.
    It returns the gradients of the `differentiated` inputs. These are in groups: inputs of a group have the same
    gradient. Backward does not compute the gradients of the `added` inputs: each is the upstream gradient of the first
    result.

    With `forward_takes_wanted`, forward is told which gradients backward will have to compute. An output that no
    backward pass will read may then be `left_out`. Outputs that are `handed_over` belong to the first backward pass of
    a call, which may overwrite them and return their memory; for a later one they are left out.
    """

    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    saved: tuple[str, ...]
    differentiated: tuple[tuple[str, ...], ...]
    new_outputs: NewTensors  # of the inputs
    new_gradients: NewTensors  # of what backward takes: all of them, wanted or not
    results: int = 1
    # Whether backward takes None as the gradient of a result that is not used.
    takes_missing_gradients: bool = False
    # Which of the tensors that backward takes has the sizes of the first input: here the first that is saved.
    sizing_place: int = 1
    added: tuple[str, ...] = ()
    forward_takes_wanted: bool = False
    handed_over: tuple[str, ...] = ()

    def pick_saved(self, inputs: Given, outputs: Tensors) -> list[torch.Tensor | None]:
        tensors = (*inputs, *outputs)
        return [tensors[place] for place in self._saved_places]

    def wanted(self, needs_gradient: Sequence[bool]) -> list[bool]:
        """Which gradients backward has to compute, from which inputs need one."""
        return [any(needs_gradient[place] for place in group) for group in self._input_places]

    def inform(self, forward: Forward | InformedForward, wanted: Sequence[bool]) -> Forward:
        """The forward pass, told which gradients are wanted if it takes that."""
        return functools.partial(forward, wanted=wanted) if self.forward_takes_wanted else forward  # type: ignore

    def hand_over(self, saved: Given) -> tuple[Given, Given]:
        """What every backward pass gets, and what the first one gets in the place of tensors that are left out."""
        owned = [saved[place] for place in self._handed_over_places]
        return self.replace_handed_over(saved, [None if t is None else left_out(t) for t in owned]), owned

    def replace_handed_over(self, saved: Given, replacements: Given) -> list[torch.Tensor | None]:
        tensors = list(saved)
        for place, tensor in zip(self._handed_over_places, replacements, strict=True):
            tensors[place] = tensor
        return tensors

    def copy_handed_over(self, saved: Given) -> list[torch.Tensor | None]:
        """The same for a backward pass that does not own them."""
        return self.replace_handed_over(saved, [_copy(saved[place]) for place in self._handed_over_places])

    def spread(self, upstream: Given, gradients: Given) -> list[torch.Tensor | None]:
        """The gradient of every input, from the upstream gradients and those of the groups."""
        spread: list[torch.Tensor | None] = [None] * len(self.inputs)
        for group, gradient in zip(self._input_places, gradients, strict=True):
            for place in group:
                spread[place] = gradient
        for place in self._added_places:
            spread[place] = upstream[0]
        return spread

    @functools.cached_property
    def _saved_places(self) -> list[int]:
        return [(*self.inputs, *self.outputs).index(name) for name in self.saved]

    @functools.cached_property
    def _handed_over_places(self) -> list[int]:
        return [self.saved.index(name) for name in self.handed_over]

    @functools.cached_property
    def _added_places(self) -> list[int]:
        return [self.inputs.index(name) for name in self.added]

    @functools.cached_property
    def _input_places(self) -> list[list[int]]:
        return [[self.inputs.index(name) for name in group] for group in self.differentiated]


class Implementation:
    """An implementation made of its passes: call it as any other."""

    def __init__(self, contract: Contract, declared: Callable[..., Passes]) -> None:  # type: ignore[explicit-any]
        self.contract = contract
        self.passes = declared

    def __call__(self, *tensors: torch.Tensor | None, **options: object) -> torch.Tensor | tuple[torch.Tensor, ...]:
        """The results, which autograd differentiates by the backward pass. Their gradients cannot be differentiated
        again: autograd says so."""
        contract = self.contract
        inputs = [*tensors, *(options.pop(name, None) for name in contract.inputs[len(tensors) :])]
        passes = self.passes(**options)
        if torch.is_grad_enabled() and any(isinstance(x, torch.Tensor) and x.requires_grad for x in inputs):
            return _Function.apply(contract, passes, *inputs)
        forward = contract.inform(passes.forward, [False] * len(contract.differentiated))
        return _results(contract, forward(*inputs))  # type: ignore[arg-type]  # None where an input is not given


def differentiable(contract: Contract) -> Callable[[Callable[..., Passes]], Implementation]:  # type: ignore[explicit-any]
    """Make an implementation of a function that returns its passes for given options."""
    return functools.partial(Implementation, contract)


def left_out(like: torch.Tensor) -> torch.Tensor:
    """In place of an output that was not computed."""
    return like.new_empty(0)


def is_left_out(output: torch.Tensor) -> bool:
    """Outputs that may be left out have two dims."""
    return output.dim() == 1


def _copy(tensor: torch.Tensor | None) -> torch.Tensor | None:
    return None if tensor is None else tensor.clone()


class _Context(FunctionCtx):
    contract: Contract
    run_backward: Backward
    handed_over: Given
    saved_tensors: tuple[torch.Tensor, ...]
    needs_input_grad: tuple[bool, ...]


class _Function(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: _Context, contract: Contract, passes: Passes, *inputs: torch.Tensor
    ) -> torch.Tensor | tuple[torch.Tensor, ...]:
        outputs = contract.inform(passes.forward, contract.wanted(ctx.needs_input_grad[2:]))(*inputs)
        saved, ctx.handed_over = contract.hand_over(contract.pick_saved(inputs, outputs))
        ctx.save_for_backward(*saved)  # type: ignore[arg-type]  # None may be among them
        ctx.contract, ctx.run_backward = contract, passes.backward
        return _results(contract, outputs)

    @staticmethod
    @once_differentiable
    def backward(ctx: _Context, *upstream: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        wanted = ctx.contract.wanted(ctx.needs_input_grad[2:])
        gradients: Given = [None] * len(wanted)
        if any(wanted):
            saved: Given = ctx.saved_tensors
            if ctx.handed_over:
                saved, ctx.handed_over = ctx.contract.replace_handed_over(saved, ctx.handed_over), ()
            gradients = ctx.run_backward(*upstream, *saved, wanted=wanted)  # type: ignore[arg-type]
        return (None, None, *ctx.contract.spread(upstream, gradients))


def _results(contract: Contract, outputs: Tensors) -> torch.Tensor | tuple[torch.Tensor, ...]:
    return outputs[0] if contract.results == 1 else tuple(outputs[: contract.results])


# Ops that map elements ---------------------------------------------------------------------------------


def elementwise_contract(*inputs: str) -> Contract:
    """An op with one result, whose backward takes all inputs, all of one shape."""

    def new_output(*tensors: torch.Tensor, **options: object) -> Tensors:
        return [empty_elementwise(*tensors)]

    def new_gradients(*upstream_and_inputs: torch.Tensor, **options: object) -> Tensors:
        return [empty_elementwise(*upstream_and_inputs) for _ in inputs]

    return Contract(inputs, ("y",), inputs, tuple((name,) for name in inputs), new_output, new_gradients)


class Map(Protocol[F]):
    """Applies `f` to every element of some tensors, all of one shape."""

    def __call__(self, op: str, f: F, /, *inputs: torch.Tensor, outputs: int = 1) -> list[torch.Tensor]: ...


def map_passes(map_: Map[F], op: str, f: F, gradients: F) -> Passes:
    """f of every element. `gradients`, of the upstream gradient and the inputs, has an output for each input."""

    def forward(*inputs: torch.Tensor) -> Tensors:
        return map_(op, f, *inputs)

    def backward(*upstream_and_inputs: torch.Tensor, wanted: Sequence[bool]) -> Given:
        return map_(op, gradients, *upstream_and_inputs, outputs=len(upstream_and_inputs) - 1)

    return Passes(forward, backward)


# Ops that map rows -------------------------------------------------------------------------------------


def _new_rows(*tensors: torch.Tensor, **options: object) -> Tensors:
    return [empty_rows(tensors[0])]


# An op along the last dim of one input, whose backward takes the result.
ROWS = Contract(("x",), ("y",), ("y",), (("x",),), _new_rows, _new_rows)


class MapRows(Protocol[F]):
    """Applies `f` to every row of some tensors, all of one shape."""

    def __call__(self, op: str, f: F, /, *inputs: torch.Tensor) -> torch.Tensor: ...


def row_passes(map_: MapRows[F], op: str, f: F, gradient: F) -> Passes:
    """f of every row. `gradient` is a function of the upstream gradient and of the result, which is contiguous."""

    def forward(*inputs: torch.Tensor) -> Tensors:
        return [map_(op, f, *inputs)]

    def backward(*upstream_and_result: torch.Tensor, wanted: Sequence[bool]) -> Given:
        upstream, y = upstream_and_result
        return [map_(op, gradient, upstream, y.contiguous())]  # a hook on saved tensors may have changed its strides

    return Passes(forward, backward)
