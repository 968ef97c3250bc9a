"""The passes of an op. Each gives an implementation's results, to check, and a call, to time."""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import cast

import torch
from torch.autograd.graph import Node

from kernellab.base.errors import UserError, nearest
from kernellab.base.functions import AnyFunction
from kernellab.declaration.case import Case
from kernellab.declaration.inputs import Inputs, call, make_inputs, normal
from kernellab.declaration.op import Op

_UPSTREAM = "upstream gradient"
_RAISING_NODES = ("torch::autograd::Error", "DelayedError")  # once_differentiable puts these into the graph
Tensors = tuple[torch.Tensor, ...]
Gradients = Sequence[torch.Tensor | None]


class NotDifferentiable(Exception):
    """The implementation has no backward pass, for example because its result has no grad_fn."""


@dataclass(frozen=True)
class Pass:
    """`forward` computes results, `backward` gradients from an upstream gradient, `both` one after the other.

    Only the backward pass itself is timed: every call has a graph of its own, whose forward pass ran before the window.
    Everywhere below, `mutates` names inputs that `fn` changes in place: their gradients can be computed all the same.
    """

    name: str
    wrt: tuple[str, ...] = ()  # the inputs that require a gradient; empty: every input that takes one

    def inputs(self, op: Op, case: Case, seed: int, device: torch.device) -> Inputs:
        """The op's inputs, and random upstream gradients if the pass needs them."""
        inputs = make_inputs(op, case, seed, device)
        if self.name == "forward":
            return inputs
        with torch.no_grad():
            results = _as_tuple(call(op, op.reference, inputs, case))
        for number, result in enumerate(results):
            if result.is_floating_point():
                name = f"{_UPSTREAM} {number}"
                inputs[name] = normal(result.shape, result.dtype, device, seed, op.name, name)
        return inputs

    def compute(self, op: Op, fn: AnyFunction, inputs: Inputs, case: Case, *, mutates: Collection[str] = ()) -> object:
        """Everything that the pass computes: results, gradients, or both."""
        if self.name == "forward":
            with torch.no_grad():
                return fn(*_arguments(op, inputs), **op.call_options(case))
        results, leaves, upstream = self.graph(op, fn, inputs, case, mutates=mutates)
        if self.name == DOUBLE.name:
            return _second_gradients(results, leaves, upstream)
        computed = fill_missing(leaves, gradients(results, leaves, upstream))
        return computed if self.name == "backward" else (*(r.detach() for r in results), *computed)

    def prepare(
        self, op: Op, fn: AnyFunction, inputs: Inputs, case: Case, *, mutates: Collection[str] = ()
    ) -> Callable[[], object]:
        """The call to time. Everything before it is already done."""
        if self.name == "forward":
            return functools.partial(fn, *_arguments(op, inputs), **op.call_options(case))
        if self.name == "both":
            if mutates:  # copying the inputs is not part of the call
                arguments = self._make_arguments(op, inputs, mutates)
                return lambda: gradients(*self._graph_of(arguments, op, fn, inputs, case))
            return lambda: gradients(*self.graph(op, fn, inputs, case))
        return functools.partial(gradients, *self.graph(op, fn, inputs, case, mutates=mutates))

    def graph(
        self, op: Op, fn: AnyFunction, inputs: Inputs, case: Case, *, mutates: Collection[str] = ()
    ) -> tuple[Tensors, Tensors, Gradients]:
        """Call the implementation with a graph: its results, the leaves, and the upstream gradients.

        A result that the loss does not use has no upstream gradient.
        """
        return self._graph_of(self._make_arguments(op, inputs, mutates), op, fn, inputs, case)

    def _make_arguments(self, op: Op, inputs: Inputs, mutates: Collection[str]) -> list[_Argument]:
        named = zip(op.args, _arguments(op, inputs), strict=True)
        leaf_names = [name for name in op.gradient_args if not self.wrt or name in self.wrt]
        return [_argument(t, in_place=name in mutates) if name in leaf_names else _Argument(t) for name, t in named]

    def _graph_of(
        self, arguments: Sequence[_Argument], op: Op, fn: AnyFunction, inputs: Inputs, case: Case
    ) -> tuple[Tensors, Tensors, Gradients]:
        leaves = tuple(argument.leaf for argument in arguments if argument.leaf is not None)
        with torch.enable_grad():
            results = _as_tuple(fn(*(argument.value for argument in arguments), **op.call_options(case)))
        upstream = [inputs.get(f"{_UPSTREAM} {number}") for number in range(len(results))]
        has_upstream = any(g is not None for g in upstream)  # False if the caller adds them later
        roots = (r for r, g in zip(results, upstream, strict=True) if g is not None or not has_upstream)
        if not any(isinstance(r, torch.Tensor) and _is_recorded(r, arguments) for r in roots):
            raise NotDifferentiable("its result has no grad_fn")
        if any(isinstance(r, torch.Tensor) and r.is_complex() for r in results):
            raise NotDifferentiable("its result is complex, and gradients of complex results are not compared yet")
        return results, leaves, upstream


FORWARD, BACKWARD, BOTH = (Pass(name) for name in ("forward", "backward", "both"))
DOUBLE = Pass("double backward")  # the gradient of the gradient: checked, not timed
PASSES = {p.name: p for p in (FORWARD, BACKWARD, BOTH, DOUBLE)}


def pass_of(name: str, wrt: Sequence[str] = ()) -> Pass:
    """The pass of that name. With `wrt`, the other inputs require no gradient, like frozen weights."""
    if name not in PASSES:
        raise UserError(f"no pass {name!r}: {nearest(name, PASSES)}")
    return Pass(name, tuple(wrt)) if wrt else PASSES[name]


def is_upstream(name: str) -> bool:
    """Whether an input of a pass is an upstream gradient rather than one of the op's own inputs."""
    return name.startswith(_UPSTREAM)


def gradients(
    results: Tensors,
    leaves: Tensors,
    upstream: Gradients,
    *,
    create_graph: bool = False,
    retain_graph: bool | None = None,
) -> tuple[torch.Tensor | None, ...]:
    """`torch.autograd.grad` of the results with an upstream gradient; None for a leaf that they do not depend on."""
    pairs = [(r, g) for r, g in zip(results, upstream, strict=True) if g is not None and r.requires_grad]
    roots, root_gradients = zip(*pairs, strict=True)
    return torch.autograd.grad(
        roots, leaves, root_gradients, allow_unused=True, create_graph=create_graph, retain_graph=retain_graph
    )


def fill_missing(leaves: Tensors, computed: Gradients) -> Tensors:
    """Zeros in place of the gradient of a leaf that the results do not depend on."""
    return tuple(torch.zeros_like(x) if g is None else g for x, g in zip(leaves, computed, strict=True))


def _second_gradients(results: Tensors, leaves: Tensors, upstream: Gradients) -> Tensors:
    """The gradients of Σ g·x, where g is the gradient of input x. The upstream gradient requires one too, as in a
    model."""
    pairs = zip(gradients(results, leaves, [_as_leaf(u) for u in upstream], create_graph=True), leaves, strict=True)
    first = [(g, x.detach()) for g, x in pairs if g is not None and g.requires_grad]
    if not first:
        raise NotDifferentiable("its gradient has no grad_fn")
    roots, weights = zip(*first, strict=True)
    if _contains_raising_node(roots):
        raise NotDifferentiable("its gradient is marked once_differentiable")
    return fill_missing(leaves, torch.autograd.grad(roots, leaves, weights, allow_unused=True))


def _contains_raising_node(roots: Tensors) -> bool:
    """Whether the graph has a node that raises. Such a node leads to no leaf, so `torch.autograd.grad` returns None
    instead of raising."""
    seen: set[Node] = set()
    nodes: list[Node | None] = [root.grad_fn for root in roots]
    while nodes:
        node = nodes.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        if node.name() in _RAISING_NODES:
            return True
        nodes += [producer for producer, _ in node.next_functions]
    return False


def _arguments(op: Op, inputs: Inputs) -> list[torch.Tensor | None]:
    return [inputs[name] for name in op.args]


@dataclass(frozen=True)
class _Argument:
    """What is passed for an input, and the leaf whose gradient is computed, if it has one.

    `origin` is the node of a value that is not a leaf itself, as it is before the call.
    """

    value: torch.Tensor | None
    leaf: torch.Tensor | None = None
    origin: Node | None = None


def _argument(t: torch.Tensor | None, *, in_place: bool) -> _Argument:
    """`in_place`: the function changes this input. Autograd allows that of intermediate results only, so it gets one:
    in the memory of `t`, computed from a leaf that keeps the values."""
    leaf = _as_leaf(t)
    if t is None or leaf is None or not leaf.requires_grad:
        return _Argument(t)
    if not in_place:
        return _Argument(leaf, leaf)
    leaf = t.detach().clone().requires_grad_()
    with torch.enable_grad():
        intermediate = leaf.clone()
    intermediate.data = t.detach()
    return _Argument(intermediate, leaf, intermediate.grad_fn)


def _is_recorded(result: torch.Tensor, arguments: Sequence[_Argument]) -> bool:
    """Whether autograd has recorded how a result was computed.

    It has not where a result is an argument, or a view of one, that was changed without autograd's knowledge.
    """
    node: object = result.grad_fn
    if node is None or isinstance(node, torch.autograd.function.BackwardCFunction):  # an author's autograd.Function
        return node is not None
    whole = result._base if result._is_view() and result._base is not None else result
    return not any(whole is a.value and whole.grad_fn is a.origin for a in arguments if a.origin is not None)


def _as_leaf(t: torch.Tensor | None) -> torch.Tensor | None:
    """The same memory as a leaf of a new graph."""
    return t.detach().requires_grad_() if t is not None and t.is_floating_point() else t


def _as_tuple(result: object) -> Tensors:
    """Results as a tuple. They may be no tensors: the check reports that."""
    return tuple(result) if isinstance(result, (tuple, list)) else (cast("torch.Tensor", result),)
