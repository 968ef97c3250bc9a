"""A trial: one call of an implementation. Plain data, so that it can be stored, sent and repeated. No torch."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from kernellab.declaration.case import Case
from kernellab.declaration.op import Op
from kernellab.record.schema import TrialJson
from kernellab.trials import calls

# What a trial varies. Failures are reported, and the trials of a battery are counted, by these names.
KINDS = (
    "declared",
    "stored",
    "sizes",
    "ranks",
    "large",
    "strides",
    "layouts",
    "values",
    "indices",
    "dtypes",
    "options",
    "gradients",
    "combinations",
    "long",
    "calls",
    "search",
)

CONTIGUOUS = "contiguous"
NORMAL = "normal"  # values drawn from N(0, 1), and index values drawn uniformly
RANDOM_UPSTREAM = "random"
CONTIGUOUS_LAYOUTS = (CONTIGUOUS, "sliced rows", "misaligned")  # these only start at another address


@dataclass(frozen=True)
class Trial:
    """A case, the memory layout and the values of its inputs, the pass, and how the implementation is called."""

    kind: str
    case: Case
    layouts: Mapping[str, str] = field(default_factory=dict)  # by input; an input that is missing is contiguous
    values: Mapping[str, str] = field(default_factory=dict)  # by input; an input that is missing has normal values
    pass_name: str = "forward"
    upstream: str = RANDOM_UPSTREAM  # the upstream gradient
    call: str = calls.PLAIN
    wrt: Sequence[str] = ()  # the inputs that require a gradient; empty: every input that takes one
    loss_on: int | None = None  # the only result the loss depends on, 0 the first and -1 the last; None: all results
    draw: int = 0  # added to the seed: other values of the same kind
    same: Sequence[str] = ()  # inputs that are one and the same tensor

    @property
    def case_for_supports(self) -> Case:
        """The case that `supports=` is asked about: its layout says whether the inputs are contiguous."""
        return self.case.with_(layout="strided") if self.strided_inputs else self.case

    @property
    def strided_inputs(self) -> list[str]:
        """The inputs that are not contiguous."""
        return [name for name, layout in self.layouts.items() if layout not in CONTIGUOUS_LAYOUTS]

    @property
    def label(self) -> str:
        words = [self.case.label]
        words += [f"{name} {layout}" for name, layout in self.layouts.items()]
        words += [f"{name} {value}" for name, value in self.values.items()]
        if self.pass_name != "forward":
            words.append(f"{self.pass_name}, upstream {self.upstream}")
        if self.wrt:
            words.append(f"gradient of {' and '.join(self.wrt)} alone")
        if self.loss_on is not None:
            words.append(f"loss on the {'last' if self.loss_on else 'first'} result alone")
        if self.call != calls.PLAIN:
            words.append(self.call)
        if self.same:
            words.append(f"{' and '.join(self.same)} the same tensor")
        if self.draw:
            words.append(f"draw {self.draw}")
        return " · ".join(words)

    def to_json(self) -> TrialJson:
        stored: TrialJson = {
            "kind": self.kind,
            "case": self.case.to_json(),
            "layouts": dict(self.layouts),
            "values": dict(self.values),
            "of": self.pass_name,
            "upstream": self.upstream,
            "call": self.call,
            "wrt": list(self.wrt),
            "loss_on": self.loss_on,
        }
        if self.draw:
            stored["draw"] = self.draw
        if self.same:
            stored["same"] = list(self.same)
        return stored

    def to_labelled_json(self) -> TrialJson:
        """The trial as events carry it: with its label."""
        return {**self.to_json(), "label": self.label}

    @classmethod
    def from_json(cls, stored: TrialJson, op: Op) -> Trial | None:
        """A stored trial, or None where the op's declaration has changed so that the trial no longer fits it.

        Trials stored by earlier versions lack some fields.
        """
        case, wrt = op.case(stored["case"]), tuple(stored.get("wrt", ()))
        same = tuple(stored.get("same", ()))
        inputs = {*stored["layouts"], *stored["values"], *wrt, *same}
        if set(case.dims) != set(op.dims) or set(case.options) != set(op.all_options()) or not inputs <= set(op.args):
            return None
        if any(value not in op.all_options()[name] for name, value in case.options.items()):
            return None
        return cls(
            stored["kind"],
            case,
            layouts=stored["layouts"],
            values=stored["values"],
            pass_name=stored["of"],
            upstream=stored.get("upstream") or RANDOM_UPSTREAM,
            call=stored.get("call") or calls.PLAIN,
            wrt=wrt,
            loss_on=stored.get("loss_on"),
            draw=stored.get("draw", 0),
            same=same,
        )

    @property
    def key(self) -> str:
        """The identity of a trial. The kind is left out: two kinds may generate the same trial."""
        content = {name: value for name, value in self.to_json().items() if name != "kind"}
        return json.dumps(content, sort_keys=True, separators=(",", ":"))

    @property
    def preparation_key(self) -> str:
        """The identity of inputs and expected results, which do not depend on how the call is made."""
        return replace(self, call=calls.PLAIN).key
