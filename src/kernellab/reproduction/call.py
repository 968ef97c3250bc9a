"""The part of a script that shows the failure: it calls the implementation as the trial did and prints what is wrong.

How a failure shows follows from the first words of its reason (`kernellab.checking.reasons`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

import torch

from kernellab.accuracy.oracle import gradient_inputs
from kernellab.checking import reasons
from kernellab.declaration.inputs import Inputs
from kernellab.declaration.op import Op
from kernellab.declaration.passes import is_upstream
from kernellab.reproduction.names import FreeNames
from kernellab.trials import calls
from kernellab.trials.trial import Trial

# Failures that a script cannot show, by their reason.
_INVISIBLE = {
    reasons.WROTE_OUTSIDE_ALLOCATION: "only kernellab sees the memory around what the implementation allocates",
    reasons.NOTHING_COMPILED: "only kernellab sees that nothing was compiled",
}


@dataclass(frozen=True)
class ScriptNames:
    """Names in a script: the two functions, and a supply of free names; as source, the options of the call and the
    author's functions that make the values of inputs, by input."""

    free: FreeNames
    options: Mapping[str, str]
    impl: str = "impl"
    reference: str = "reference"
    values: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class FailedTrial:
    """A failed trial as the writers of a script see it."""

    op: Op
    trial: Trial
    status: str
    reason: str
    inputs: Inputs
    variables: Mapping[str, str]  # by input: the variable that holds it
    names: ScriptNames
    lay_out: str  # the function that copies a tensor into memory of its own
    buffers: str  # the list of the memory that inputs lie in

    @property
    def concerns_memory(self) -> bool:
        """Whether the cause may be memory around or in the tensors, read before it was written or out of bounds."""
        return "NaN" in self.reason or "outside" in self.reason

    @property
    def keeps_buffers(self) -> bool:
        return self.reason.startswith(reasons.WROTE_OUTSIDE_INPUT)

    @property
    def depends_on_surroundings(self) -> bool:
        return self.reason.startswith(reasons.READS_OUTSIDE)

    def arguments(self, float_suffix: str = "") -> list[str]:
        """The op's own inputs as expressions; `float_suffix` is appended to float tensors."""
        inputs = [(self.variables[name], self.inputs[name]) for name in self.op.args]
        return [f"{v}{float_suffix}" if t is not None and t.is_floating_point() else v for v, t in inputs]

    def options(self) -> list[str]:
        return [f"{name}={value}" for name, value in self.names.options.items()]

    def input_named_after(self, prefix: str) -> str:
        """The variable of the input whose name follows these words in the reason."""
        rest = self.reason.removeprefix(prefix)
        return next(variable for name, variable in self.variables.items() if f"{rest} ".startswith(f"{name} "))


def write_call(failed: FailedTrial) -> list[str]:
    """The lines that call the implementation and print what is wrong."""
    return (_ForwardCall(failed) if failed.trial.pass_name == "forward" else _BackwardCall(failed)).write()


class _CallWriter(ABC):
    """How each kind of failure shows, for any pass."""

    def __init__(self, failed: FailedTrial) -> None:
        self.failed, self.new_name = failed, failed.names.free.new
        self.got, self.want = self.new_name("got"), self.new_name("want")

    @abstractmethod
    def definitions(self) -> list[str]:
        """What the call needs above it."""

    @abstractmethod
    def call(self) -> str:
        """The call of the implementation, as an expression."""

    @abstractmethod
    def results(self, *, halved: bool = False) -> str:
        """The results of the implementation as an expression to iterate over; `halved`: on inputs times 0.5."""

    @abstractmethod
    def pairs(self, *, float64: bool) -> tuple[str, str]:
        """A line below which both results are bound, and the indent there; `float64`: the reference in float64."""

    def torch_tool(self) -> str | None:
        """The call of the tool of torch that found the failure."""
        return None

    def write(self) -> list[str]:
        tool = self.torch_tool()
        if tool is not None:
            return [tool]
        comments = [text for reason, text in _INVISIBLE.items() if self.failed.reason.startswith(reason)]
        if self.failed.trial.call in calls.GPU_ONLY:
            comments.append(f"kernellab called it {self.failed.trial.call}, which this script does not do")
        lines = self._show_behaviour() or self._compare()
        return [*self.definitions(), *(f"# {text}" for text in comments), *lines]

    def _show_behaviour(self) -> list[str]:
        """Failures other than wrong values; empty for wrong values."""
        failed, reason = self.failed, self.failed.reason
        if reason.startswith(tuple(_INVISIBLE)):
            return [self.call()]
        if reason.startswith(reasons.CHANGED_INPUT):
            x, before = failed.input_named_after(reasons.CHANGED_INPUT), self.new_name("before")
            same = f"torch.equal({x}.nan_to_num(), {before}.nan_to_num())"
            return [f"{before} = {x}.clone()", self.call(), f'print("{x} is unchanged:", {same})']
        if reason.startswith(reasons.CHANGED_UPSTREAM):
            before, upstream = self.new_name("before"), [v for n, v in failed.variables.items() if is_upstream(n)]
            same = f"[torch.equal(a, b) for a, b in zip({_tuple(upstream)}, {before})]"
            copies = f"{before} = {_tuple(f'{x}.clone()' for x in upstream)}"
            return [copies, self.call(), f'print("each upstream gradient is unchanged:", {same})']
        if reason.startswith(reasons.RETURNED_INPUT):
            x = failed.input_named_after(reasons.RETURNED_INPUT)
            same = f"{self.got}.untyped_storage().data_ptr() == {x}.untyped_storage().data_ptr()"
            loop = f"for {self.got} in {self.results()}:"
            return [loop, f'    print("the result lies in the memory of {x}:", {same})']
        if reason.startswith((reasons.NOT_REPEATABLE, reasons.SECOND_CALL, reasons.LATER_CALL, reasons.LATER_BACKWARD)):
            other_inputs = reason.startswith((reasons.LATER_CALL, reasons.LATER_BACKWARD))
            return self._call_twice(self.results(halved=other_inputs))
        if failed.depends_on_surroundings:
            return self._call_twice(self.results(), self._change_surroundings())
        if failed.keeps_buffers:
            before = self.new_name("before")
            changed = "int((a.view(torch.uint8) != b.view(torch.uint8)).sum())"
            total = f"sum({changed} for a, b in zip({failed.buffers}, {before}))"
            return [
                f"{before} = [buffer.clone() for buffer in {failed.buffers}]",
                self.call(),
                f'print("bytes written around inputs:", {total})',
            ]
        if failed.status == "error" or reason.startswith(reasons.RETURNED):
            return [*([self.call()] if failed.trial.call == calls.TWICE else []), f"print({self.call()})"]
        return []

    def _call_twice(self, second_call: str, between: Iterable[str] = ()) -> list[str]:
        first, kept, second = (self.new_name(name) for name in ("first", "kept", "second"))
        differ = "int(((b != c) & ~(b.isnan() & c.isnan())).sum())"
        return [
            f"{first} = {self.results()}",
            f"{kept} = [t.clone() for t in {first}]",
            *between,
            f"{second} = {second_call}",
            f"for {self.got}, b, c in zip({first}, {kept}, {second}):",
            f'    print("values that differ between two calls:", {differ})',
            f'    print("the first result is unchanged:", torch.equal({self.got}.nan_to_num(), b.nan_to_num()))',
        ]

    def _change_surroundings(self) -> Iterator[str]:
        """Large numbers around the inputs: they win comparisons that NaN loses."""
        for name, t in self.failed.inputs.items():
            if t is not None and t.is_floating_point():
                variable, strides = self.failed.variables[name], torch.empty(t.shape, device="meta").stride()
                yield f"{variable} = {self.failed.lay_out}({variable}, {strides}, around=6e4)"

    def _compare(self) -> list[str]:
        got, want = self.got, self.want
        # A reason may begin with which of the results it is about.
        if any(part.split(" ")[0] in reasons.FORMS for part in self.failed.reason.split(": ")[:2]):
            head, indent = self.pairs(float64=False)
            form = '{0}print("{1}", tuple({2}.shape), {2}.dtype, {2}.stride(), {2}.device)'
            return [head, form.format(indent, "got", got), form.format(indent, "should be", want)]
        head, indent = self.pairs(float64=True)
        same, off = self.new_name("same"), self.new_name("off")
        return [
            head,
            f"{indent}{same} = ({got} == {want}.to({got}.dtype)) | ({got}.isnan() & {want}.isnan())",
            f"{indent}{off} = ({got}.double() - {want}).abs().masked_fill({same}, 0).nan_to_num(torch.inf)",
            f'{indent}print("worst difference:", max({off}.flatten().tolist(), default=0.0))',
        ]


class _ForwardCall(_CallWriter):
    def __init__(self, failed: FailedTrial) -> None:
        super().__init__(failed)
        with torch.no_grad():
            tensors = [failed.inputs[name] for name in failed.op.args]
            result = failed.op.reference(*tensors, **failed.op.call_options(failed.trial.case))
        self._one_result = isinstance(result, torch.Tensor)

    def torch_tool(self) -> str | None:
        if not self.failed.reason.startswith(reasons.OPCHECK):
            return None
        options = ", ".join(f"{name!r}: {value}" for name, value in self.failed.names.options.items())
        return f"torch.library.opcheck({self.failed.names.impl}, {_tuple(self.failed.arguments())}, {{{options}}})"

    def definitions(self) -> list[str]:
        impl = self.failed.names.impl
        if self.failed.trial.call == calls.INFERENCE_MODE:
            return [f"{impl} = torch.inference_mode()({impl})"]
        if self.failed.trial.call != calls.REGISTERED_OP:
            return []
        return [f"{impl} = torch.compile({impl}, fullgraph=True, dynamic=False)"]

    def call(self) -> str:
        return self._call_of(self.failed.names.impl)

    def _call_of(self, function: str, float_suffix: str = "") -> str:
        return f"{function}({', '.join([*self.failed.arguments(float_suffix), *self.failed.options()])})"

    def results(self, *, halved: bool = False) -> str:
        call = self._call_of(self.failed.names.impl, " * 0.5" if halved else "")
        return f"[{call}]" if self._one_result else call

    def pairs(self, *, float64: bool) -> tuple[str, str]:
        reference = self._call_of(self.failed.names.reference, ".double()" if float64 else "")
        if self._one_result:
            return f"{self.got}, {self.want} = {self.call()}, {reference}", ""
        return f"for {self.got}, {self.want} in zip({self.call()}, {reference}):", "    "


class _BackwardCall(_CallWriter):
    def __init__(self, failed: FailedTrial) -> None:
        super().__init__(failed)
        self._gradients = self.new_name("gradients")
        # By the number of the result: the variable of its upstream gradient.
        self._upstream = {int(name.split()[-1]): failed.variables[name] for name in failed.inputs if is_upstream(name)}
        leaves = gradient_inputs(failed.op, failed.trial, failed.inputs)
        self._leaves = [at for at, name in enumerate(failed.op.args) if name in leaves]

    def torch_tool(self) -> str | None:
        if not self.failed.reason.startswith(reasons.GRADCHECK):
            return None
        arguments = self.failed.arguments()
        tensors = [f"{name}.requires_grad_()" if at in self._leaves else name for at, name in enumerate(arguments)]
        call = ", ".join(["*args", *self.failed.options()])
        return f"torch.autograd.gradcheck(lambda *args: {self.failed.names.impl}({call}), {_tuple(tensors)})"

    def definitions(self) -> list[str]:
        """A function for gradients, as `kernellab.declaration.passes` computes them."""
        leaf, leaves = "t.detach().requires_grad_()", "inputs"
        if len(self._leaves) < len(self.failed.op.args):
            leaf = f"{leaf} if n in {_tuple(map(str, self._leaves))} else t"
            leaves = f"[{', '.join(f'inputs[{at}]' for at in self._leaves)}]"
        roots = ", ".join(f"results[{number}]" for number in self._upstream)
        head = [
            f"def {self._gradients}(fn, upstream, *inputs):",
            f"    inputs = [{leaf} for n, t in enumerate(inputs)]",
            f"    results = fn({', '.join(['*inputs', *self.failed.options()])})",
            "    results = results if isinstance(results, (tuple, list)) else [results]",
        ]
        if self.failed.trial.call == calls.INTERLEAVED:
            halved = "[t * 0.5 if t is not None and t.is_floating_point() else t for t in inputs]"
            head.append(f"    other = fn({', '.join([f'*{halved}', *self.failed.options()])})  # before the backward")
        if self.failed.trial.pass_name == "double backward":
            return [*head, *_second_gradients(roots, leaves)]
        twice = self.failed.trial.call == calls.BACKWARD_TWICE
        how = "materialize_grads=True" + (", retain_graph=True" if twice else "")
        grad = f"torch.autograd.grad([{roots}], {leaves}, upstream, {how})"
        return [*head, *([f"    {grad}"] if twice else []), f"    return [*(t.detach() for t in results), *{grad}]"]

    def call(self) -> str:
        return self._call_of(self.failed.names.impl)

    def _call_of(self, function: str, float_suffix: str = "") -> str:
        upstream = ", ".join(f"{name}{float_suffix}" for name in self._upstream.values())
        return f"{self._gradients}({function}, [{upstream}], {', '.join(self.failed.arguments(float_suffix))})"

    def results(self, *, halved: bool = False) -> str:
        return self._call_of(self.failed.names.impl, " * 0.5" if halved else "")

    def pairs(self, *, float64: bool) -> tuple[str, str]:
        reference = self._call_of(self.failed.names.reference, ".double()" if float64 else "")
        return f"for {self.got}, {self.want} in zip({self.call()}, {reference}):", "    "


def _second_gradients(roots: str, leaves: str) -> list[str]:
    """The gradients of the sum of the first gradients times the inputs."""
    return [
        f"    leaves, upstream = {leaves}, [t.detach().requires_grad_() for t in upstream]",
        f"    first = torch.autograd.grad([{roots}], leaves, upstream, create_graph=True, allow_unused=True)",
        "    first = [(g, t.detach()) for g, t in zip(first, leaves) if g is not None and g.requires_grad]",
        "    roots, weights = zip(*first)",
        "    return torch.autograd.grad(roots, leaves, weights, materialize_grads=True)",
    ]


def _tuple(parts: Iterable[str]) -> str:
    """A tuple of expressions, also of a single one."""
    return f"({''.join(f'{part}, ' for part in parts).rstrip()})"
