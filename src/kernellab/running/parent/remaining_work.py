"""What a run's record says of a group so far, and so what is left to do: checked, right, timed, looked into."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kernellab.record.journal import Journal, result_of
from kernellab.record.settings import Settings, needed_checks
from kernellab.running.parent.worker_slot import Post
from kernellab.timing.timers import TIMERS


@dataclass(frozen=True)
class Group:
    """Work on one op at one case."""

    post: Post
    op: str
    case: dict[str, Any]
    impls: list[dict[str, Any]]

    def names(self, *, interpreted: bool) -> list[str]:
        """The ways that run natively, or those that run in the interpreter."""
        return [i["name"] for i in self.impls if i["interpreted"] is interpreted and (interpreted or not i["obstacle"])]


class Known:
    def __init__(self, settings: Settings, journal: Journal, device: str) -> None:
        self._journal = journal
        self._timing = "time" in settings.stages
        self.checks = settings.checked_passes() if self._timing else ["forward"]
        series = settings.series(device)
        # Timers that need a profiler need a worker of its own; the others run where the implementations are checked.
        self.series = [one for one in series if not TIMERS[one["timer"]].needs_profiler]
        self.profiler_series = [one for one in series if TIMERS[one["timer"]].needs_profiler]

    def result(self, group: Group, name: str) -> dict[str, Any]:
        return result_of(self._journal.record, group.op, name, group.case)

    def check(self, group: Group, name: str, of: str = "forward") -> dict[str, Any] | None:
        result = self.result(group, name)
        check: dict[str, Any] | None = result["check"] if of == "forward" else result["gradients"]
        return check

    def right(self, group: Group, name: str, of: str = "forward") -> bool:
        return all((self.check(group, name, p) or {}).get("status") == "ok" for p in needed_checks(of))

    def unchecked(self, group: Group, name: str, of: str) -> bool:
        """Not looked at yet; gradients of what is wrong are not looked at."""
        before = self.check(group, name)
        possible = of == "forward" or before is None or before["status"] == "ok"
        return possible and self.check(group, name, of) is None

    def timed(self, group: Group, name: str, series: Mapping[str, str]) -> bool:
        return any(
            t["status"] != "partial" and all(t[k] == v for k, v in series.items())
            for t in self.result(group, name)["times"]
        )

    def faulted(self, group: Group, name: str) -> bool:
        return any(t["status"] not in ("ok", "partial", "skipped") for t in self.result(group, name)["times"])

    def may_time(self, group: Group, name: str, series: Mapping[str, str]) -> bool:
        """Not yet timed, and not known to be wrong or a culprit of earlier timing."""
        if self.timed(group, name, series) or self.faulted(group, name):
            return False
        checks = [self.check(group, name, of) for of in needed_checks(series["pass"])]
        return all(check is None or check["status"] == "ok" for check in checks)

    def unfinished(self, group: Group, names: list[str]) -> list[str]:
        """Ways not yet checked, or right and not yet timed although timing was asked for."""
        native = set(group.names(interpreted=False))
        return [
            n
            for n in names
            if any(self.unchecked(group, n, of) for of in self.checks)
            or (self._timing and n in native and any(self.may_time(group, n, one) for one in self.series))
        ]

    def finished(self, group: Group) -> bool:
        return not self.unfinished(group, [i["name"] for i in group.impls])

    def looked_into(self, group: Group, name: str) -> bool:
        return self.result(group, name)["inside"] is not None
