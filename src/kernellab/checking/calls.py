"""How a call can be made other than plainly: twice, on a side stream, captured in a graph, as a registered op.

Each takes a way's call and gives back results to be judged like any others, or says what is wrong at once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch._library.custom_ops import CustomOpDef
from torch.autograd.gradcheck import GradcheckError

from kernellab.blame import explain
from kernellab.case import Case
from kernellab.checking.truth import Outputs, Wrong, same_bits, synchronise, tensors_of
from kernellab.declare import Impl, Op
from kernellab.inputs import Inputs, clone
from kernellab.passes import gradients, pass_of, present

_SLEEP_CYCLES = 20_000_000  # about 10 ms: longer than a launch takes, on any stream


class Refused(Exception):
    """A way that cannot be called like this and says so."""


@dataclass(frozen=True)
class Call:
    """A way at a trial: what is called, with what."""

    op: Op
    impl: Impl
    inputs: Inputs
    case: Case
    of: str
    device: torch.device
    wrt: Sequence[str] = ()

    def __call__(self) -> Outputs:
        return tensors_of(pass_of(self.of, self.wrt).compute(self.op, self.impl, self.inputs, self.case))


def _twice(call: Call) -> Outputs:
    """Bit for bit the same, and the first result is not the second's to change."""
    first = call()
    kept = tuple(t.clone() for t in first)
    second = call()
    if not all(map(same_bits, first, kept)):
        raise Wrong("its second call changed what the first had returned")
    if call.impl.repeatable and not all(map(same_bits, kept, second)):
        count, total = sum(map(_differing, kept, second)), sum(t.numel() for t in kept)
        raise Wrong(f"not repeatable: {count} of {total} values differ between two calls on the same inputs")
    return second


def _differing(a: torch.Tensor, b: torch.Tensor) -> int:
    return int(((a != b) & ~(a.isnan() & b.isnan())).sum()) if a.shape == b.shape else a.numel()


def _on_a_side_stream(call: Call) -> Outputs:
    """The inputs get their values late, on the stream the call is made on: who does not wait in line reads poison."""
    values = clone(call.inputs)
    _empty(call.inputs)
    synchronise(call.device)
    stream = torch.cuda.Stream(call.device)
    with torch.cuda.stream(stream):
        torch.cuda._sleep(_SLEEP_CYCLES)
        _restore(call.inputs, values)
        copies = tuple(t.clone() for t in call())
    synchronise(call.device)
    return copies


def _in_a_graph(call: Call) -> Outputs:
    """Captured while the inputs hold one thing, replayed on another: what was baked in shows."""
    values = clone(call.inputs)
    stream = torch.cuda.Stream(call.device)
    with torch.cuda.stream(stream):
        for _ in range(2):
            call()
    synchronise(call.device)
    _scale(call.inputs)
    graph = torch.cuda.CUDAGraph()
    try:
        with torch.cuda.graph(graph):
            outputs = call()
    except Wrong:
        raise
    except Exception as error:
        synchronise(call.device)
        raise Refused(f"cannot be captured in a CUDA graph: {explain(error)}") from None
    _restore(call.inputs, values)
    for t in outputs:
        _spoil(t)
    graph.replay()
    synchronise(call.device)
    return tuple(t.clone() for t in outputs)


def _registered(call: Call) -> Outputs:
    """torch's own tests for operators, then the op inside a compiled function."""
    arguments, options = tuple(call.inputs.values()), call.op.call_options(call.case)
    registered: Any = call.impl.fn
    try:
        torch.library.opcheck(registered, arguments, options)
    except Exception as error:
        raise Wrong(f"torch.library.opcheck: {_first_line(error)}") from None
    compiled = torch.compile(lambda *args: call.impl.fn(*args, **options), fullgraph=True, dynamic=False)
    try:
        with torch.no_grad():
            return tensors_of(compiled(*arguments))
    except Wrong:
        raise
    except Exception as error:
        raise Wrong(f"torch.compile(fullgraph=True): {_first_line(error)}") from None


def _backward_twice(call: Call) -> Outputs:
    """A graph that is kept gives its gradients again."""
    results, leaves, upstream = pass_of(call.of, call.wrt).graph(call.op, call.impl, call.inputs, call.case)
    gradients(results, leaves, upstream, retain_graph=True)
    try:
        return present(leaves, gradients(results, leaves, upstream))
    except Exception as error:
        raise Wrong(f"its backward works once only, with retain_graph=True too: {explain(error)}") from None


def _gradcheck(call: Call) -> Outputs:
    """torch's comparison with finite differences; the gradients themselves are judged afterwards as well."""
    pass_of(call.of).graph(call.op, call.impl, call.inputs, call.case)  # says so if there is nothing to differentiate
    arguments: list[Any] = [call.inputs[name] for name in call.op.args]
    leaves = [t.detach().clone().requires_grad_() if _is_float(t) else t for t in arguments]
    options = call.op.call_options(call.case)
    tolerance = 0.0 if call.impl.repeatable else 1e-7
    try:
        torch.autograd.gradcheck(lambda *args: call.impl.fn(*args, **options), leaves, nondet_tol=tolerance)
    except GradcheckError as error:
        raise Wrong(f"gradcheck: {_first_line(error)}") from None
    return call()


CALLS: dict[str, Callable[[Call], Outputs]] = {
    "plainly": lambda call: call(),
    "twice": _twice,
    "on a side stream": _on_a_side_stream,
    "in a CUDA graph": _in_a_graph,
    "as a registered op": _registered,
    "backward twice": _backward_twice,
    "gradcheck": _gradcheck,
}
_ON_A_GPU = ("on a side stream", "in a CUDA graph")


def applies(name: str, impl: Impl, device: torch.device) -> bool:
    """Whether a kind of call means anything for a way here."""
    if name == "as a registered op":
        return is_registered(impl)
    if name in _ON_A_GPU:
        return device.type == "cuda" and impl.kind.name != "compile" and not impl.mutates
    return not (name != "plainly" and impl.mutates)


def is_registered(impl: Impl) -> bool:
    kinds = (CustomOpDef, torch._ops.OpOverload, torch._ops.OpOverloadPacket)
    return isinstance(impl.fn, kinds)


def _is_float(t: Any) -> bool:
    return isinstance(t, torch.Tensor) and t.is_floating_point()


def _spoil(t: torch.Tensor) -> None:
    with torch.no_grad():
        t.fill_(torch.nan) if t.is_floating_point() else t.zero_()


def _empty(inputs: Inputs) -> None:
    for t in inputs.values():
        if t is not None:
            _spoil(t)


def _scale(inputs: Inputs) -> None:
    """Other values of the same kind."""
    for t in inputs.values():
        if t is not None and t.is_floating_point():
            t.mul_(0.5)


def _restore(inputs: Inputs, values: Inputs) -> None:
    for name, t in inputs.items():
        before = values[name]
        if t is not None and before is not None:
            t.copy_(before)


def _first_line(error: BaseException) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0][:300]
