"""How a call can be made other than plainly: twice, in other surroundings, on a side stream, captured in a graph.

Each takes a way's call and gives back results to be judged like any others, or says what is wrong at once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch.autograd.gradcheck import GradcheckError

from kernellab.base.user_code import explain
from kernellab.checking import registered_ops as registered
from kernellab.checking.oracle import Outputs, Wrong, judged_in, same_bits, synchronise, tensors_of
from kernellab.declaration.case import Case
from kernellab.declaration.inputs import Inputs, clone
from kernellab.declaration.op import Impl, Op
from kernellab.declaration.passes import fill_missing, gradients, pass_of
from kernellab.trials import layouts
from kernellab.trials.guard_bands import LARGE, MINUS_LARGE, Fence

_SLEEP_CYCLES = 20_000_000  # about 10 ms: longer than a launch takes, on any stream


class Refused(Exception):
    """A way that cannot be called like this and says so."""


class MeansNothing(Exception):
    """This kind of call turned out to have no meaning for this way."""


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
    notes: list[str] = field(default_factory=list)

    def __call__(self) -> Outputs:
        return tensors_of(judged_in(self.of, self.wrt).compute(self.op, self.impl, self.inputs, self.case))


def _twice(call: Call) -> Outputs:
    """Bit for bit the same, and a result is not a later call's to change, be it on the same inputs or on others."""
    first = call()
    kept = tuple(t.clone() for t in first)
    second = call()
    if not all(map(same_bits, first, kept)):
        raise Wrong("its second call changed what the first had returned")
    if not all(map(same_bits, kept, second)):
        if call.impl.repeatable:
            count, total = sum(map(_differing, kept, second)), sum(t.numel() for t in kept)
            raise Wrong(f"not repeatable: {count} of {total} values differ between two calls on the same inputs")
        call.notes.append("its results differ from call to call, as repeatable=False declares")
    kept = tuple(t.clone() for t in second)
    replace(call, inputs=_halved(call.inputs))()
    if not all(map(same_bits, second, kept)):
        raise Wrong("its call on other inputs changed what an earlier one had returned")
    return second


def _halved(inputs: Inputs) -> Inputs:
    return {name: t * 0.5 if t is not None and t.is_floating_point() else t for name, t in inputs.items()}


def _beside_large_numbers(call: Call) -> Outputs:
    """What lies around the inputs plays no part: NaN, which loses every comparison, large numbers, or their negatives.

    A way whose results vary by themselves, declared or seen to, is only judged in other surroundings.
    """
    first = call()
    others = []
    for filling in (LARGE, MINUS_LARGE):
        fence = Fence(filling=filling)
        laid = {k: None if t is None else layouts.lay(t, "contiguous", fence) for k, t in call.inputs.items()}
        others.append(replace(call, inputs=laid)())
        if fence.broken():
            raise Wrong("wrote outside one of its inputs")
    for other in others if call.impl.repeatable else ():
        if not all(map(same_bits, first, other)) and all(map(same_bits, first, call())):
            count, total = sum(map(_differing, first, other)), sum(t.numel() for t in other)
            raise Wrong(f"reads outside its inputs: {count} of {total} values depend on what lies there")
    return others[0]


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
    _scale(call.inputs)  # before the warm-up: what a way remembers of that is baked in as well
    synchronise(call.device)
    stream = torch.cuda.Stream(call.device)
    with torch.cuda.stream(stream):
        for _ in range(2):
            call()
    synchronise(call.device)
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
    """torch's own tests for operators: of the way, where it is one, and inside a compiled function too; else of each
    that it calls."""
    arguments, options = tuple(call.inputs[name] for name in call.op.args), call.op.call_options(call.case)
    if not registered.is_operator(call.impl.fn):
        with registered.Noted() as noted:
            outputs = call()
        if not noted.calls:
            raise MeansNothing
        for seen in noted.calls.values():
            _opcheck(seen.operator, seen.args, seen.kwargs, f"{seen.operator}: ")
        return outputs
    _opcheck(call.impl.fn, arguments, options)
    compiled = torch.compile(lambda *args: call.impl.fn(*args, **options), fullgraph=True, dynamic=False)
    try:
        with torch.no_grad():
            return tensors_of(compiled(*arguments))
    except Wrong:
        raise
    except Exception as error:
        raise Wrong(f"torch.compile(fullgraph=True): {_first_line(error)}") from None


def _opcheck(operator: Any, args: tuple[Any, ...], kwargs: dict[str, Any], whose: str = "") -> None:
    try:
        torch.library.opcheck(operator, args, kwargs)
    except Exception as error:
        raise Wrong(f"torch.library.opcheck: {whose}{_first_line(error)}") from None


def _backward_twice(call: Call) -> Outputs:
    """A graph that is kept gives its gradients again."""
    results, leaves, upstream = pass_of(call.of, call.wrt).graph(call.op, call.impl, call.inputs, call.case)
    gradients(results, leaves, upstream, retain_graph=True)
    try:
        again = fill_missing(leaves, gradients(results, leaves, upstream))
    except Exception as error:
        raise Wrong(f"its backward works once only, with retain_graph=True too: {explain(error)}") from None
    return tensors_of((*(r.detach() for r in results), *again))


def _gradcheck(call: Call) -> Outputs:
    """torch's comparison with finite differences; the gradients themselves are judged afterwards as well."""
    pass_of(call.of).graph(call.op, call.impl, call.inputs, call.case)  # says so if there is nothing to differentiate
    arguments: list[Any] = [call.inputs[name] for name in call.op.args]
    leaves = [t.detach().clone().requires_grad_() if _is_float(t) else t for t in arguments]
    options = call.op.call_options(call.case)
    tolerance = 0.0 if call.impl.repeatable else 1e-7
    try:
        torch.autograd.gradcheck(lambda *args: call.impl(*args, **options), leaves, nondet_tol=tolerance)
    except GradcheckError as error:
        raise Wrong(f"gradcheck: {_first_line(error)}") from None
    return call()


CALLS: dict[str, Callable[[Call], Outputs]] = {
    "plainly": lambda call: call(),
    "twice": _twice,
    "beside large numbers": _beside_large_numbers,
    "on a side stream": _on_a_side_stream,
    "in a CUDA graph": _in_a_graph,
    "as a registered op": _registered,
    "backward twice": _backward_twice,
    "gradcheck": _gradcheck,
}
_ON_A_GPU = ("on a side stream", "in a CUDA graph")
ABOUT_BANDS = ("beside large numbers",)


def applies(name: str, impl: Impl, device: torch.device) -> bool:
    """Whether a kind of call means anything for a way here."""
    if name == "as a registered op":
        return registered.is_operator(impl.fn) or not (impl.mutates or impl.kind.name == "compile")
    if name in _ON_A_GPU:
        return device.type == "cuda" and impl.kind.name != "compile" and not impl.mutates
    return not (name != "plainly" and impl.mutates)


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
