"""What shows a failure in plain torch: the lines that call a way as the trial did and print what is wrong with it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import torch

from kernellab.declaration.inputs import Inputs
from kernellab.declaration.op import Op
from kernellab.declaration.passes import is_upstream
from kernellab.reproduction.literals import Names
from kernellab.trials.trial import Trial

_FORMS = ("shape", "dtype", "device", "strides")
# Seen from outside the call only.
_UNSEEN = {
    "wrote outside the memory": "what lies around the memory a way allocates is seen by kernellab alone",
    "torch.compile compiled nothing": "that nothing was compiled is seen by kernellab alone",
}
_ON_A_GPU = ("on a side stream", "in a CUDA graph")


@dataclass(frozen=True)
class Words:
    """What things are called in a script: the two functions, the options' values, and names that are free."""

    names: Names
    options: Mapping[str, str]
    way: str = "way"
    reference: str = "reference"


@dataclass(frozen=True)
class Scene:
    """A trial as a script sees it: its inputs, what they are called there, and what went wrong."""

    op: Op
    trial: Trial
    status: str
    reason: str
    made: Inputs
    called: Mapping[str, str]
    words: Words
    lay: str  # what the function that lays out an input is called
    rooms: str  # what the list of the rooms that inputs lie in is called

    @property
    def poisoned(self) -> bool:
        """Whether it may have come of what a way read and should not have, or of what it wrote around its inputs."""
        return "NaN" in self.reason or "outside" in self.reason

    @property
    def keeps_rooms(self) -> bool:
        return self.reason.startswith("wrote outside one of its inputs")

    @property
    def surrounded(self) -> bool:
        """Whether results differ with what lies around the inputs."""
        return self.reason.startswith("reads outside its inputs")

    def tensors(self, floats: str = "") -> list[str]:
        """The op's own inputs; `floats` is written behind those that are of floats."""
        given = [(self.called[name], self.made[name]) for name in self.op.args]
        return [f"{n}{floats}" if t is not None and t.is_floating_point() else n for n, t in given]

    def options(self) -> list[str]:
        return [f"{name}={value}" for name, value in self.words.options.items()]

    def input(self, before: str) -> str:
        """What the input is called whose name follows these words in the reason."""
        after = self.reason.removeprefix(before)
        return next(self.called[name] for name in self.called if f"{after} ".startswith(f"{name} "))


def shown(scene: Scene) -> list[str]:
    """The call, and what is printed of it."""
    return (_Forward(scene) if scene.trial.of == "forward" else _Backward(scene)).write()


class _Shown(ABC):
    """How each kind of failure shows, whatever the pass."""

    def __init__(self, scene: Scene) -> None:
        self.scene, self.new = scene, scene.words.names.new
        self.got, self.want = self.new("got"), self.new("want")

    @abstractmethod
    def before(self) -> list[str]:
        """What the call needs above it."""

    @abstractmethod
    def call(self) -> str:
        """The way's call, as an expression."""

    @abstractmethod
    def results(self, *, halved: bool = False) -> str:
        """The same as something to iterate over; `halved` on other inputs."""

    @abstractmethod
    def pairs(self, *, wide: bool) -> tuple[str, str]:
        """The line below which both results are there, and the indent there; `wide`: the reference's in float64."""

    def tool(self) -> str | None:
        """The call of the tool of torch's that found the failure."""
        return None

    def write(self) -> list[str]:
        tool = self.tool()
        if tool is not None:
            return [tool]
        said = [text for reason, text in _UNSEEN.items() if self.scene.reason.startswith(reason)]
        if self.scene.trial.call in _ON_A_GPU:
            said.append(f"kernellab called it {self.scene.trial.call}, which is not done here")
        return [*self.before(), *(f"# {text}" for text in said), *(self._special() or self._compared())]

    def _special(self) -> list[str]:
        """What is no matter of values."""
        scene, reason = self.scene, self.scene.reason
        if any(map(reason.startswith, _UNSEEN)):
            return [self.call()]
        if reason.startswith("changed its input"):
            x, before = scene.input("changed its input "), self.new("before")
            same = f"torch.equal({x}.nan_to_num(), {before}.nan_to_num())"
            return [f"{before} = {x}.clone()", self.call(), f'print("{x} is as it was:", {same})']
        if reason.startswith("returned the memory of its input"):
            x = scene.input("returned the memory of its input ")
            same = f"{self.got}.untyped_storage().data_ptr() == {x}.untyped_storage().data_ptr()"
            loop = f"for {self.got} in {self.results()}:"
            return [loop, f'    print("the result lies in the memory of {x}:", {same})']
        if reason.startswith(("not repeatable", "its second call", "its call on other inputs")):
            return self._twice(self.results(halved=reason.startswith("its call on other inputs")))
        if scene.surrounded:
            return self._twice(self.results(), self._in_other_surroundings())
        if scene.keeps_rooms:
            before = self.new("before")
            changed = "int((a.view(torch.uint8) != b.view(torch.uint8)).sum())"
            return [
                f"{before} = [room.clone() for room in {scene.rooms}]",
                self.call(),
                f'print("bytes written around inputs:", sum({changed} for a, b in zip({scene.rooms}, {before})))',
            ]
        if scene.status == "error" or reason.startswith("returned"):
            return [*([self.call()] if scene.trial.call == "twice" else []), f"print({self.call()})"]
        return []

    def _twice(self, again: str, between: Iterable[str] = ()) -> list[str]:
        first, kept, second = (self.new(name) for name in ("first", "kept", "second"))
        differ = "int(((b != c) & ~(b.isnan() & c.isnan())).sum())"
        return [
            f"{first} = {self.results()}",
            f"{kept} = [t.clone() for t in {first}]",
            *between,
            f"{second} = {again}",
            f"for {self.got}, b, c in zip({first}, {kept}, {second}):",
            f'    print("values that differ between two calls:", {differ})',
            f'    print("the first result is as it was:", torch.equal({self.got}.nan_to_num(), b.nan_to_num()))',
        ]

    def _in_other_surroundings(self) -> Iterator[str]:
        """Large numbers, which win where NaN loses a comparison."""
        for name, t in self.scene.made.items():
            if t is not None and t.is_floating_point():
                called, strides = self.scene.called[name], torch.empty(t.shape, device="meta").stride()
                yield f"{called} = {self.scene.lay}({called}, {strides}, around=6e4)"

    def _compared(self) -> list[str]:
        got, want = self.got, self.want
        if self.scene.reason.split(" ")[0] in _FORMS:
            head, indent = self.pairs(wide=False)
            form = '{0}print("{1}", tuple({2}.shape), {2}.dtype, {2}.stride(), {2}.device)'
            return [head, form.format(indent, "got", got), form.format(indent, "should be", want)]
        head, indent = self.pairs(wide=True)
        same, off = self.new("same"), self.new("off")
        return [
            head,
            f"{indent}{same} = ({got} == {want}.to({got}.dtype)) | ({got}.isnan() & {want}.isnan())",
            f"{indent}{off} = ({got}.double() - {want}).abs().masked_fill({same}, 0).nan_to_num(torch.inf)",
            f'{indent}print("worst difference:", max({off}.flatten().tolist(), default=0.0))',
        ]


class _Forward(_Shown):
    def __init__(self, scene: Scene) -> None:
        super().__init__(scene)
        with torch.no_grad():
            tensors = [scene.made[name] for name in scene.op.args]
            results = scene.op.reference(*tensors, **scene.op.call_options(scene.trial.case))
        self._single = isinstance(results, torch.Tensor)

    def tool(self) -> str | None:
        if not self.scene.reason.startswith("torch.library.opcheck"):
            return None
        options = ", ".join(f"{name!r}: {value}" for name, value in self.scene.words.options.items())
        return f"torch.library.opcheck({self.scene.words.way}, {_tuple(self.scene.tensors())}, {{{options}}})"

    def before(self) -> list[str]:
        if self.scene.trial.call != "as a registered op":
            return []
        way = self.scene.words.way
        return [f"{way} = torch.compile({way}, fullgraph=True, dynamic=False)"]

    def call(self) -> str:
        return self._of(self.scene.words.way)

    def _of(self, function: str, floats: str = "") -> str:
        return f"{function}({', '.join([*self.scene.tensors(floats), *self.scene.options()])})"

    def results(self, *, halved: bool = False) -> str:
        call = self._of(self.scene.words.way, " * 0.5" if halved else "")
        return f"[{call}]" if self._single else call

    def pairs(self, *, wide: bool) -> tuple[str, str]:
        reference = self._of(self.scene.words.reference, ".double()" if wide else "")
        if self._single:
            return f"{self.got}, {self.want} = {self.call()}, {reference}", ""
        return f"for {self.got}, {self.want} in zip({self.call()}, {reference}):", "    "


class _Backward(_Shown):
    def __init__(self, scene: Scene) -> None:
        super().__init__(scene)
        self._gradients = self.new("gradients")
        self._above = {int(name.split()[-1]): scene.called[name] for name in scene.made if is_upstream(name)}
        asked = scene.trial.wrt or scene.op.args
        given = [scene.made[name] if name in asked else None for name in scene.op.args]
        self._leaves = [at for at, t in enumerate(given) if t is not None and t.is_floating_point()]

    def tool(self) -> str | None:
        if not self.scene.reason.startswith("gradcheck"):
            return None
        tensors = [f"{n}.requires_grad_()" if at in self._leaves else n for at, n in enumerate(self.scene.tensors())]
        call = ", ".join(["*args", *self.scene.options()])
        return f"torch.autograd.gradcheck(lambda *args: {self.scene.words.way}({call}), {_tuple(tensors)})"

    def before(self) -> list[str]:
        """Gradients as `passes` takes them."""
        leaf, wanted = "t.detach().requires_grad_()", "inputs"
        if len(self._leaves) < len(self.scene.op.args):
            leaf = f"{leaf} if n in {_tuple(map(str, self._leaves))} else t"
            wanted = f"[{', '.join(f'inputs[{at}]' for at in self._leaves)}]"
        roots = ", ".join(f"results[{number}]" for number in self._above)
        found = [
            f"def {self._gradients}(fn, above, *inputs):",
            f"    inputs = [{leaf} for n, t in enumerate(inputs)]",
            f"    results = fn({', '.join(['*inputs', *self.scene.options()])})",
            "    results = results if isinstance(results, (tuple, list)) else [results]",
        ]
        if self.scene.trial.of == "double backward":
            return [*found, *_second(roots, wanted)]
        twice = self.scene.trial.call == "backward twice"
        how = "materialize_grads=True" + (", retain_graph=True" if twice else "")
        grad = f"torch.autograd.grad([{roots}], {wanted}, above, {how})"
        return [*found, *([f"    {grad}"] if twice else []), f"    return [*(t.detach() for t in results), *{grad}]"]

    def call(self) -> str:
        return self._of(self.scene.words.way)

    def _of(self, function: str, floats: str = "") -> str:
        above = ", ".join(f"{name}{floats}" for name in self._above.values())
        return f"{self._gradients}({function}, [{above}], {', '.join(self.scene.tensors(floats))})"

    def results(self, *, halved: bool = False) -> str:
        return self._of(self.scene.words.way, " * 0.5" if halved else "")

    def pairs(self, *, wide: bool) -> tuple[str, str]:
        reference = self._of(self.scene.words.reference, ".double()" if wide else "")
        return f"for {self.got}, {self.want} in zip({self.call()}, {reference}):", "    "


def _second(roots: str, wanted: str) -> list[str]:
    """The gradients of the sum of the first ones times the inputs."""
    return [
        f"    leaves, above = {wanted}, [t.detach().requires_grad_() for t in above]",
        f"    first = torch.autograd.grad([{roots}], leaves, above, create_graph=True, allow_unused=True)",
        "    first = [(g, t.detach()) for g, t in zip(first, leaves) if g is not None and g.requires_grad]",
        "    roots, weights = zip(*first)",
        "    return torch.autograd.grad(roots, leaves, weights, materialize_grads=True)",
    ]


def _tuple(parts: Iterable[str]) -> str:
    """A tuple of expressions, of one too."""
    return f"({''.join(f'{part}, ' for part in parts).rstrip()})"
