"""A trial: one thing to try a way with. Plain data, so that it can be stored, sent and tried again. No torch."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from kernellab.case import Case
from kernellab.declare import Op

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
        }
        return told | {"draw": self.draw} if self.draw else told

    @classmethod
    def from_json(cls, data: Mapping[str, Any], op: Op) -> Trial | None:
        """A trial that was stored, or None where the op has changed so that it means nothing any more."""
        case = op.case(data["case"])
        named = {*data["layouts"], *data["values"]}
        if set(case.dims) != set(op.dims) or set(case.options) != set(op.all_options()) or not named <= set(op.args):
            return None
        if any(value not in op.all_options()[name] for name, value in case.options.items()):
            return None
        told = {name: data[name] for name in ("kind", "layouts", "values", "of", "upstream", "call")}
        return cls(**told, case=case, draw=data.get("draw", 0))

    @property
    def key(self) -> str:
        """What is tried, whatever it is about: two kinds may come upon the same."""
        told = {k: v for k, v in self.to_json().items() if k != "kind"}
        return json.dumps(told, sort_keys=True, separators=(",", ":"))
