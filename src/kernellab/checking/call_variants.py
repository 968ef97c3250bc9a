"""Call variants: calling an implementation twice, with other surroundings, in inference mode, in a CUDA graph.

Each variant takes a call and returns outputs to be judged like any others, or raises Wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

import torch
from torch.autograd.gradcheck import GradcheckError

from kernellab.accuracy.oracle import pass_to_judge
from kernellab.accuracy.outputs import Outputs, Wrong, as_tensors, bitwise_equal
from kernellab.base.user_code import explain
from kernellab.checking import reasons
from kernellab.checking.form import wrote_outside
from kernellab.checking.registered_ops import Operator, OperatorRecorder, as_operator
from kernellab.declaration.inputs import Inputs, clone
from kernellab.declaration.op import Impl, Op
from kernellab.declaration.passes import Gradients, Tensors, fill_missing, gradients, pass_of
from kernellab.machine.gpu_state import synchronise
from kernellab.trials import calls
from kernellab.trials.guard_bands import LARGE, MINUS_LARGE, GuardedMemory
from kernellab.trials.layouts import apply_layout
from kernellab.trials.trial import CONTIGUOUS, Trial
from kernellab.trials.trial_inputs import NotApplicable, copy_input, make_inputs

_SLEEP_CYCLES = 20_000_000  # about 10 ms: longer than a launch takes, on any stream
_OTHER_SEED = 7919  # of the second inputs, where a variant calls on two
_MORE_CALLS = 14  # on a GPU, to see whether results vary by themselves


class Refused(Exception):
    """The implementation refuses this call variant with an error."""


@dataclass(frozen=True)
class Call:
    """An implementation with everything it is called with at a trial."""

    impl: Impl
    inputs: Inputs
    trial: Trial
    device: torch.device
    copies: GuardedMemory  # for copies of inputs that the implementation changes
    others: Inputs | None = None  # of a second call, where the variant makes one
    guarded: bool = True  # whether copies lie between guard bands
    notes: list[str] = field(default_factory=list)

    @property
    def op(self) -> Op:
        return self.impl.op

    def __call__(self) -> Outputs:
        pass_ = pass_to_judge(self.trial.pass_name, self.trial.wrt)
        inputs = self.fresh_inputs()
        return as_tensors(pass_.compute(self.op, self.impl, inputs, self.trial.case, mutates=self.impl.mutates))

    def graph(self) -> tuple[Tensors, Tensors, Gradients]:
        """A forward call as the root of gradients."""
        pass_ = pass_of(self.trial.pass_name, self.trial.wrt)
        return pass_.graph(self.op, self.impl, self.fresh_inputs(), self.trial.case, mutates=self.impl.mutates)

    def fresh_inputs(self) -> Inputs:
        """The inputs of one call: copies of those that the implementation changes, so that every call finds them."""
        return {
            name: copy_input(t, name, self.trial, self.copies, guarded=self.guarded)
            if t is not None and name in self.impl.mutates
            else t
            for name, t in self.inputs.items()
        }

    def arguments(self) -> tuple[torch.Tensor | None, ...]:
        """The op's own inputs, in order."""
        inputs = self.fresh_inputs()
        return tuple(inputs[name] for name in self.op.args)

    def options(self) -> dict[str, object]:
        return self.op.call_options(self.trial.case)


def _twice(call: Call) -> Outputs:
    """Two calls give the same bits, and a later call does not change an earlier result, on the same or other inputs."""
    first = call()
    kept = tuple(t.clone() for t in first)
    second = call()
    if not all(map(bitwise_equal, first, kept)):
        raise Wrong(reasons.SECOND_CALL)
    second = _first_different(call, kept, second)
    if call.impl.repeatable:
        _require_repeatable(kept, second)
    elif not all(map(bitwise_equal, kept, second)):
        call.notes.append("its results differ from call to call, as repeatable=False declares")
    kept = tuple(t.clone() for t in second)
    replace(call, inputs=_halved(call.inputs))()
    if not all(map(bitwise_equal, second, kept)):
        raise Wrong(reasons.LATER_CALL)
    return second


def _first_different(call: Call, expected: Outputs, latest: Outputs) -> Outputs:
    """The first of several further results that differs from `expected`, else the last.

    On an idle GPU blocks often finish in the same order: atomics then need more than two calls to show.
    """
    for _ in range(_MORE_CALLS if call.device.type == "cuda" else 0):
        if not all(map(bitwise_equal, expected, latest)):
            break
        latest = call()
    return latest


def _halved(inputs: Inputs) -> Inputs:
    return {name: t * 0.5 if t is not None and t.is_floating_point() else t for name, t in inputs.items()}


def _beside_large_numbers(call: Call) -> Outputs:
    """The result does not depend on the memory around the inputs: NaN loses every comparison, large numbers do not."""
    first = call()
    results = []
    for filling in (LARGE, MINUS_LARGE):
        memory = GuardedMemory(filling=filling)
        inputs = {
            name: None if t is None else apply_layout(t, CONTIGUOUS, memory.part(name))
            for name, t in call.inputs.items()
        }
        beside = replace(call, inputs=inputs, copies=memory)
        results.append(beside())
        for name in memory.overwritten_parts():
            raise Wrong(wrote_outside(name))
        if call.impl.repeatable and not all(map(bitwise_equal, first, results[-1])):
            for again, before in ((call, first), (beside, results[-1])):
                _require_repeatable(before, _first_different(again, before, again()))
            differing = _count_differing(first, results[-1])
            raise Wrong(f"{reasons.READS_OUTSIDE}: {differing} values depend on what lies there")
    return results[0]


def _require_repeatable(first: Outputs, second: Outputs) -> None:
    if not all(map(bitwise_equal, first, second)):
        differing = _count_differing(first, second)
        raise Wrong(f"{reasons.NOT_REPEATABLE}: {differing} values differ between two calls on the same inputs")


def _count_differing(first: Outputs, second: Outputs) -> str:
    """`3 of 64`: how many values differ, NaN being equal to NaN."""
    count = sum(
        int(((a != b) & ~(a.isnan() & b.isnan())).sum()) if a.shape == b.shape else a.numel()
        for a, b in zip(first, second, strict=False)
    )
    return f"{count} of {sum(t.numel() for t in first)}"


def _on_a_side_stream(call: Call) -> Outputs:
    """The inputs get their values late, on the stream of the call: code that does not wait for it reads poison."""
    values = clone(call.inputs)
    for t in call.inputs.values():
        if t is not None:
            _overwrite(t)
    synchronise(call.device)
    with torch.cuda.stream(torch.cuda.Stream(call.device)):
        torch.cuda._sleep(_SLEEP_CYCLES)
        _restore(call.inputs, values)
        outputs = tuple(t.clone() for t in call())
    synchronise(call.device)
    return outputs


def _in_a_graph(call: Call) -> Outputs:
    """Captured on some values and replayed on others: values that were baked into the graph show."""
    values = clone(call.inputs)
    _halve_in_place(call.inputs)  # before the warm-up: what is cached there is baked in as well
    synchronise(call.device)
    with torch.cuda.stream(torch.cuda.Stream(call.device)):
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
        _overwrite(t)
    graph.replay()
    synchronise(call.device)
    return tuple(t.clone() for t in outputs)


def _as_registered_op(call: Call) -> Outputs:
    """torch's own tests of operators.

    An implementation that is an operator is tested itself, and inside a compiled function. Otherwise each operator
    that it calls is tested.
    """
    operator = as_operator(call.impl.fn)
    if operator is None:
        with OperatorRecorder() as recorder:
            outputs = call()
        if not recorder.calls:
            raise NotApplicable("it calls no registered operator")
        for seen in recorder.calls.values():
            _opcheck(seen.operator, seen.args, seen.kwargs, f"{seen.operator}: ")
        return outputs
    options = call.options()
    _opcheck(operator, call.arguments(), options)
    compiled = torch.compile(lambda *args: call.impl.fn(*args, **options), fullgraph=True, dynamic=False)
    try:
        with torch.no_grad():
            return as_tensors(compiled(*call.arguments()))
    except Wrong:
        raise
    except Exception as error:
        raise Wrong(f"torch.compile(fullgraph=True): {_first_line(error)}") from None


def _opcheck(operator: Operator, args: tuple[object, ...], kwargs: Mapping[str, object], prefix: str = "") -> None:
    try:
        torch.library.opcheck(operator, args, dict(kwargs))
    except Exception as error:
        raise Wrong(f"{reasons.OPCHECK}{prefix}{_first_line(error)}") from None


def _backward_twice(call: Call) -> Outputs:
    """A graph that is retained gives its gradients again."""
    results, leaves, upstream = call.graph()
    gradients(results, leaves, upstream, retain_graph=True)
    try:
        second = fill_missing(leaves, gradients(results, leaves, upstream))
    except Exception as error:
        raise Wrong(f"its backward works only once, even with retain_graph=True: {explain(error)}") from None
    return as_tensors((*(r.detach() for r in results), *second))


def other_inputs(op: Op, trial: Trial, device: torch.device) -> Inputs | None:
    """The inputs of a second call; None where the variant makes none. Called outside what an implementation sees: in
    Triton's interpreter, that is a GPU."""
    if trial.call != calls.INTERLEAVED:
        return None
    return make_inputs(op, trial, _OTHER_SEED, device, guarded=False).tensors


def _interleaved(call: Call) -> Outputs:
    """Two forwards on different inputs, then their backwards, as where a layer is used twice in a model.

    What the first backward needs is its own, and what it returns stays what it is.
    """
    assert call.others is not None
    results, leaves, upstream = call.graph()
    others = replace(call, inputs=call.others).graph()
    first = fill_missing(leaves, gradients(results, leaves, upstream))
    kept = tuple(t.clone() for t in first)
    gradients(*others)
    if not all(map(bitwise_equal, first, kept)):
        raise Wrong(reasons.LATER_BACKWARD)
    return as_tensors((*(r.detach() for r in results), *first))


def _in_inference_mode(call: Call) -> Outputs:
    """As models are served. The results are copied: torch allows less with those made in this mode."""
    with torch.inference_mode():
        outputs = call()
    return tuple(t.clone() if t.is_inference() else t for t in outputs)


def _gradcheck(call: Call) -> Outputs:
    """torch's comparison with finite differences; the gradients themselves are judged afterwards as well."""
    call.graph()  # raises where it has no gradient
    leaves = [
        _as_leaf(t) if arg.takes_gradient else t for arg, t in zip(call.op.args.values(), call.arguments(), strict=True)
    ]
    options, changed = call.options(), [name in call.impl.mutates for name in call.op.args]
    tolerance = 0.0 if call.impl.repeatable else 1e-7

    def function(*args: torch.Tensor | None) -> object:
        copied = (t.clone() if t is not None and copy else t for t, copy in zip(args, changed, strict=True))
        return call.impl(*copied, **options)

    try:
        # An optional input that is not given is None, which torch accepts and does not declare.
        torch.autograd.gradcheck(function, leaves, nondet_tol=tolerance)  # type: ignore[arg-type]
    except GradcheckError as error:
        raise Wrong(f"{reasons.GRADCHECK}{_first_line(error)}") from None
    return call()


VARIANTS: dict[str, Callable[[Call], Outputs]] = {
    calls.PLAIN: lambda call: call(),
    calls.TWICE: _twice,
    calls.LARGE_NEIGHBOURS: _beside_large_numbers,
    calls.SIDE_STREAM: _on_a_side_stream,
    calls.CUDA_GRAPH: _in_a_graph,
    calls.REGISTERED_OP: _as_registered_op,
    calls.BACKWARD_TWICE: _backward_twice,
    calls.GRADCHECK: _gradcheck,
    calls.INTERLEAVED: _interleaved,
    calls.INFERENCE_MODE: _in_inference_mode,
}
NEEDS_BANDS = (calls.LARGE_NEIGHBOURS,)


def applies(variant: str, impl: Impl, device: torch.device) -> bool:
    """Whether a call variant has a meaning for an implementation on this device. Results that are random by declaration
    are judged by many plain calls."""
    if impl.random:
        return variant == calls.PLAIN
    if variant == calls.REGISTERED_OP:
        operator = as_operator(impl.fn) is not None or not (impl.mutates or impl.kind.name == "compile")
        return operator and not impl.clone  # an operator must not change inputs that its schema does not name
    if variant in calls.GPU_ONLY:
        return device.type == "cuda" and impl.kind.name != "compile"
    return True


def _as_leaf(t: torch.Tensor | None) -> torch.Tensor | None:
    return t.detach().clone().requires_grad_() if t is not None and t.is_floating_point() else t


def _overwrite(t: torch.Tensor) -> None:
    with torch.no_grad():
        t.fill_(torch.nan) if t.is_floating_point() else t.zero_()


def _halve_in_place(inputs: Inputs) -> None:
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
