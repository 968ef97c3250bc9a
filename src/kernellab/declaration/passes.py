"""The passes of an op: what a way computes in each, as a value to check and as a call to time."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from kernellab.base.errors import UserError, nearest
from kernellab.declaration import inputs as make_inputs
from kernellab.declaration.case import Case
from kernellab.declaration.op import Op

_UPSTREAM = "upstream gradient"
_RAISING = ("torch::autograd::Error", "DelayedError")  # what once_differentiable leaves in the graph
Inputs = make_inputs.Inputs
Tensors = tuple[torch.Tensor, ...]
Above = Sequence[torch.Tensor | None]


class NotDifferentiable(Exception):
    """A way whose result has no grad_fn has no backward pass."""


@dataclass(frozen=True)
class Pass:
    """`forward` computes results, `backward` gradients from an upstream gradient, `both` one after the other.

    The backward pass is timed directly: its forward runs before the window, on a graph of its own, so that
    nothing is subtracted and no graph is used twice.
    """

    name: str
    wrt: tuple[str, ...] = ()  # the inputs that ask for a gradient; every float one where nothing is said

    def inputs(self, op: Op, case: Case, seed: int, device: torch.device) -> Inputs:
        """The op's inputs, and a random upstream gradient where the pass needs one."""
        made = make_inputs.make(op, case, seed, device)
        if self.name == "forward":
            return made
        with torch.no_grad():
            results = _tuple(make_inputs.call(op, op.reference, made, case))
        for number, result in enumerate(results):
            if result.is_floating_point():
                name = f"{_UPSTREAM} {number}"
                made[name] = make_inputs.normal(result.shape, result.dtype, device, seed, op.name, name)
        return made

    def compute(self, op: Op, fn: Any, inputs: Inputs, case: Case) -> Any:
        """Everything the pass yields: results, gradients, or both."""
        if self.name == "forward":
            with torch.no_grad():
                return fn(*_arguments(op, inputs), **op.call_options(case))
        results, leaves, upstream = self.graph(op, fn, inputs, case)
        if self.name == DOUBLE.name:
            return _second_gradients(results, leaves, upstream)
        found = present(leaves, gradients(results, leaves, upstream))
        return found if self.name == "backward" else (*(r.detach() for r in results), *found)

    def prepare(self, op: Op, fn: Any, inputs: Inputs, case: Case) -> Callable[[], Any]:
        """The call to time; whatever must happen before it has happened."""
        if self.name == "forward":
            return functools.partial(fn, *_arguments(op, inputs), **op.call_options(case))
        if self.name == "both":
            return lambda: gradients(*self.graph(op, fn, inputs, case))
        return functools.partial(gradients, *self.graph(op, fn, inputs, case))

    def graph(self, op: Op, fn: Any, inputs: Inputs, case: Case) -> tuple[Tensors, Tensors, Above]:
        """A forward call as the root of gradients: its results, the leaves, and the gradients from above.

        A result that no loss is taken on has no gradient from above.
        """
        named = zip(op.args, _arguments(op, inputs), strict=True)
        arguments = [_leaf(t) if not self.wrt or name in self.wrt else t for name, t in named]
        leaves = tuple(t for t in arguments if t is not None and t.requires_grad)
        with torch.enable_grad():
            results = _tuple(fn(*arguments, **op.call_options(case)))
        given = [inputs.get(f"{_UPSTREAM} {number}") for number in range(len(results))]
        given_any = any(g is not None for g in given)  # none at all where the caller brings them later
        roots = (r for r, g in zip(results, given, strict=True) if g is not None or not given_any)
        if not any(isinstance(r, torch.Tensor) and r.grad_fn is not None for r in roots):
            raise NotDifferentiable("its result has no grad_fn")
        if any(isinstance(r, torch.Tensor) and r.is_complex() for r in results):
            raise NotDifferentiable("its result is complex, whose gradients are not compared yet")
        return results, leaves, given


FORWARD, BACKWARD, BOTH = (Pass(name) for name in ("forward", "backward", "both"))
DOUBLE = Pass("double backward")  # the gradient of the gradient: checked, not timed
PASSES = {p.name: p for p in (FORWARD, BACKWARD, BOTH, DOUBLE)}


def pass_of(name: str, wrt: Sequence[str] = ()) -> Pass:
    """The pass of that name; with `wrt`, one in which the other inputs ask for no gradient, as frozen weights do."""
    if name not in PASSES:
        raise UserError(f"no pass {name!r}: {nearest(name, PASSES)}")
    return Pass(name, tuple(wrt)) if wrt else PASSES[name]


def is_upstream(name: str) -> bool:
    """Whether an input of a pass is an upstream gradient rather than one of the op's own."""
    return name.startswith(_UPSTREAM)


def gradients(results: Tensors, leaves: Tensors, upstream: Above, **how: Any) -> tuple[torch.Tensor | None, ...]:
    """`torch.autograd.grad` of what has a gradient; None for a leaf that plays no part."""
    pairs = [(r, g) for r, g in zip(results, upstream, strict=True) if g is not None and r.requires_grad]
    roots, above = zip(*pairs, strict=True)
    return torch.autograd.grad(roots, leaves, above, allow_unused=True, **how)


def _second_gradients(results: Tensors, leaves: Tensors, upstream: Above) -> Tensors:
    """Of Σ g·x, g being the gradient of the input x. The gradient from above has a history too, as in a model."""
    above = [_leaf(u) for u in upstream]
    found = zip(gradients(results, leaves, above, create_graph=True), leaves, strict=True)
    first = [(g, x.detach()) for g, x in found if g is not None and g.requires_grad]
    if not first:
        raise NotDifferentiable("its gradient has no grad_fn")
    roots, weights = zip(*first, strict=True)
    if _ends_in_an_error(roots):
        raise NotDifferentiable("its gradient is marked once_differentiable")
    return present(leaves, torch.autograd.grad(roots, leaves, weights, allow_unused=True))


def _ends_in_an_error(roots: Tensors) -> bool:
    """Whether autograd would refuse: behind the node that raises nothing of the graph is left to be followed, so that
    asking for gradients finds none instead of the refusal."""
    seen: set[Any] = set()
    nodes: list[Any] = [root.grad_fn for root in roots]
    while nodes:
        node = nodes.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        if node.name() in _RAISING:
            return True
        nodes += [earlier for earlier, _ in node.next_functions]
    return False


def present(leaves: Tensors, found: tuple[torch.Tensor | None, ...]) -> Tensors:
    """Zeros where a leaf plays no part."""
    return tuple(torch.zeros_like(x) if g is None else g for x, g in zip(leaves, found, strict=True))


def _arguments(op: Op, inputs: Inputs) -> list[torch.Tensor | None]:
    return [inputs[name] for name in op.args]


def _leaf(t: torch.Tensor | None) -> torch.Tensor | None:
    """The same memory as the root of a graph of its own."""
    return t.detach().requires_grad_() if t is not None and t.is_floating_point() else t


def _tuple(result: Any) -> Tensors:
    return tuple(result) if isinstance(result, (tuple, list)) else (result,)
