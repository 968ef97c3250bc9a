"""A trial: one thing to try a way with. Plain data, so that it can be stored, sent and tried again. No torch."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

from kernellab.declaration.case import Case
from kernellab.declaration.op import Op

# What a trial is about; a failure is told, and a battery counted, by these.
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
    "calls",
    "search",
)


_STILL_CONTIGUOUS = ("contiguous", "sliced rows", "misaligned")  # layouts that only begin elsewhere


@dataclass(frozen=True)
class Trial:
    """A case, how its inputs lie in memory, what is in them, which pass, and how the call is made."""

    kind: str
    case: Case
    layouts: Mapping[str, str] = field(default_factory=dict)  # by input; contiguous where nothing is said
    values: Mapping[str, str] = field(default_factory=dict)  # by input; drawn from N(0, 1) where nothing is said
    of: str = "forward"
    upstream: str = "random"  # the gradient that comes from above
    call: str = "plainly"
    wrt: Sequence[str] = ()  # the inputs that ask for a gradient; every float one where nothing is said
    loss_on: int | None = None  # the one result the loss is taken on, 0 the first and -1 the last; all of them if None
    draw: int = 0  # other values of the same kind, from another seed

    @property
    def asked(self) -> Case:
        """The case as `supports=` is asked about it: it knows whether the inputs are contiguous."""
        plain = all(layout in _STILL_CONTIGUOUS for layout in self.layouts.values())
        return self.case if plain else self.case.with_(layout="strided")

    @property
    def label(self) -> str:
        words = [self.case.label]
        words += [f"{name} {layout}" for name, layout in self.layouts.items()]
        words += [f"{name} {value}" for name, value in self.values.items()]
        if self.of != "forward":
            words.append(f"{self.of}, upstream {self.upstream}")
        if self.wrt:
            words.append(f"gradient of {' and '.join(self.wrt)} alone")
        if self.loss_on is not None:
            words.append(f"loss on the {'last' if self.loss_on else 'first'} result alone")
        if self.call != "plainly":
            words.append(self.call)
        if self.draw:
            words.append(f"draw {self.draw}")
        return " · ".join(words)

    def to_json(self) -> dict[str, Any]:
        told: dict[str, Any] = {
            "kind": self.kind,
            "case": self.case.to_json(),
            "layouts": dict(self.layouts),
            "values": dict(self.values),
            "of": self.of,
            "upstream": self.upstream,
            "call": self.call,
            "wrt": list(self.wrt),
            "loss_on": self.loss_on,
        }
        return told | {"draw": self.draw} if self.draw else told

    @classmethod
    def from_json(cls, data: Mapping[str, Any], op: Op) -> Trial | None:
        """A trial that was stored, or None where the op has changed so that it means nothing any more."""
        case = op.case(data["case"])
        named = {*data["layouts"], *data["values"], *data.get("wrt", ())}
        if set(case.dims) != set(op.dims) or set(case.options) != set(op.all_options()) or not named <= set(op.args):
            return None
        if any(value not in op.all_options()[name] for name, value in case.options.items()):
            return None
        # Stored by an earlier version, it may lack what trials have come to say since.
        told = {one.name: data[one.name] for one in fields(cls) if one.name in data}
        return cls(**{**told, "case": case, "wrt": tuple(data.get("wrt", ()))})

    @property
    def key(self) -> str:
        """What is tried, whatever it is about: two kinds may come upon the same."""
        told = {k: v for k, v in self.to_json().items() if k != "kind"}
        return json.dumps(told, sort_keys=True, separators=(",", ":"))
