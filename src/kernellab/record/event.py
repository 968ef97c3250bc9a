"""What an event is: one line of the journal, or of a worker's channel to its parent.

Each event is declared once, as a subclass of `Event`: its name, its fields, whether the journal keeps it (`stored`),
and how it folds into the record (`fold`). Sender, journal, record and docs/record.md all read that declaration.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import ClassVar, Self

from kernellab.base.message import Message
from kernellab.declaration.documents import CaseJson
from kernellab.record.schema import Record, Result


@dataclass(frozen=True, kw_only=True)
class Event(Message, key="event"):
    """The base of all events."""

    stored: ClassVar[bool] = True

    def fold(self, record: Record) -> None:
        """Add what happened to the record, in place. By default it adds nothing."""


@dataclass(frozen=True, kw_only=True)
class CaseEvent(Event):
    """Something about one op at one case. A worker leaves out `op` and `case`, which its parent knows."""

    op: str = ""
    case: CaseJson | None = None

    def at(self, op: str, case: CaseJson) -> Self:
        """The same event with its op and case."""
        return dataclasses.replace(self, op=op, case=case)

    def results(self, record: Record) -> list[Result]:
        """The results of this op and case."""
        return [r for r in record["results"] if r["op"] == self.op and r["case"] == self.case]


@dataclass(frozen=True, kw_only=True)
class ImplEvent(CaseEvent):
    """Something about one implementation of one op at one case."""

    impl: str

    def result(self, record: Record) -> Result:
        assert self.case is not None, f"event `{self.message_name}` without its case"
        return result_of(record, self.op, self.impl, self.case)


def result_of(record: Record, op: str, impl: str, case: CaseJson) -> Result:
    """The result of an implementation at a case; an empty one is added if there is none."""
    for result in record["results"]:
        if result["op"] == op and result["impl"] == impl and result["case"] == case:
            return result
    record["results"].append(_empty_result(op, impl, case))
    return record["results"][-1]


def _empty_result(op: str, impl: str, case: CaseJson) -> Result:
    return {
        "op": op,
        "impl": impl,
        "kind": None,
        "case": case,
        "check": None,
        "gradients": None,
        "times": [],
        "cost": {},
        "memory": {},
        "built": None,
        "kernels": None,
        "inside": None,
        "traffic": None,
        "guards": [],
    }
