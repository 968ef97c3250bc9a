"""What became wrong or right: the statuses of results that both sides have."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from kernellab.comparison.pairs import ResultKey
from kernellab.record.statuses import FAILED, RIGHT, UNKNOWN, worst


@dataclass(frozen=True)
class SideStatus:
    """The worst status of a result in the runs of one side, and why it is not `ok`."""

    status: str
    reason: str | None

    @property
    def is_right(self) -> bool:
        return self.status in RIGHT


@dataclass(frozen=True)
class StatusChange:
    """A result whose status differs, or that failed on both sides.

    `verdict`: `worse` if it fails only now, `better` if it is right only now, `failed before` if it fails on both
    sides, `cannot tell` if it cannot be judged now and could be, `changed` otherwise.
    """

    key: ResultKey
    before: SideStatus
    after: SideStatus
    verdict: Literal["worse", "better", "failed before", "cannot tell", "changed"]


def worst_status(first: SideStatus, second: SideStatus) -> SideStatus:
    """The status of a result in two runs of one side. A run that skipped it says nothing about it."""
    return first if worst((first.status, second.status)) == first.status else second


def status_change(key: ResultKey, before: SideStatus, after: SideStatus) -> StatusChange | None:
    """None where nothing changed and nothing failed."""
    if after.status in FAILED:
        return StatusChange(key, before, after, "failed before" if before.status in FAILED else "worse")
    if before.status == after.status:
        return None
    if before.status in FAILED and after.is_right:
        return StatusChange(key, before, after, "better")
    return StatusChange(key, before, after, "cannot tell" if after.status == UNKNOWN else "changed")
