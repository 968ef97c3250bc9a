"""What is left to check, time and profile in a group, according to the run's record."""

from __future__ import annotations

import statistics
from dataclasses import dataclass

from kernellab.declaration.documents import CaseJson
from kernellab.record.event import result_of
from kernellab.record.journal import Journal
from kernellab.record.result_events import is_series
from kernellab.record.schema import CheckOutcome, Result, SeriesJson
from kernellab.record.settings import Settings, needed_checks
from kernellab.record.statuses import RIGHT
from kernellab.running.parent.worker_slot import WorkerSlot
from kernellab.running.protocol.events import ImplDescription
from kernellab.timing.timers import needs_profiler


@dataclass(frozen=True)
class Group:
    """One op at one case: implementations that are compared share a group, and so a worker."""

    slot: WorkerSlot
    op: str
    case: CaseJson
    impls: list[ImplDescription]

    @property
    def native(self) -> list[str]:
        """Implementations that run on the device itself."""
        return [i["name"] for i in self.impls if not i["interpreted"] and not i["obstacle"]]

    @property
    def interpreted(self) -> list[str]:
        """Implementations that run in Triton's interpreter."""
        return [i["name"] for i in self.impls if i["interpreted"]]


class RemainingWork:
    def __init__(self, settings: Settings, journal: Journal, device: str) -> None:
        self._journal = journal
        self._timing = "time" in settings.stages
        self.checks = settings.checked_passes() if self._timing else ["forward"]
        series = settings.series(device)
        # Timers that need a profiler have their own worker; the others run where implementations are checked.
        self.series = [entry for entry in series if not needs_profiler(entry["timer"])]
        first = {entry["pass"]: entry for entry in reversed(self.series)}
        self.energy_series = list(first.values())  # in which the energy is measured too: one of each pass
        self.profiler_series = [entry for entry in series if needs_profiler(entry["timer"])]

    def result(self, group: Group, impl: str) -> Result:
        return result_of(self._journal.record, group.op, impl, group.case)

    def check(self, group: Group, impl: str, pass_name: str = "forward") -> CheckOutcome | None:
        result = self.result(group, impl)
        return result["check"] if pass_name == "forward" else result["gradients"]

    def is_right(self, group: Group, impl: str, pass_name: str = "forward") -> bool:
        checks = [self.check(group, impl, needed) for needed in needed_checks(pass_name)]
        return all(check is not None and check["status"] in RIGHT for check in checks)

    def needs_check(self, group: Group, impl: str, pass_name: str) -> bool:
        """Whether it is not checked yet. Gradients of a wrong implementation are not checked."""
        forward = self.check(group, impl)
        possible = pass_name == "forward" or forward is None or forward["status"] in RIGHT
        return possible and self.check(group, impl, pass_name) is None

    def is_timed(self, group: Group, impl: str, series: SeriesJson) -> bool:
        return any(t["status"] != "partial" and is_series(t, series) for t in self.result(group, impl)["times"])

    def reported_us(self, group: Group, impl: str, series: SeriesJson) -> float | None:
        """The median of what the worker has reported for a series so far; None where it has reported nothing."""
        times = [t for t in self.result(group, impl)["times"] if is_series(t, series) and t["samples_us"]]
        return statistics.median(times[0]["samples_us"]) if times else None

    def checked_errors(self, group: Group, impls: list[str], pass_name: str) -> dict[str, float]:
        """The largest error that the check found in each implementation, in roundings."""
        largest: dict[str, float] = {}
        for impl in impls:
            check = self.check(group, impl, pass_name)
            errors = check.get("errors") if check is not None else None
            if errors and errors["max"] is not None:
                largest[impl] = errors["max"]
        return largest

    def failed_while_timed(self, group: Group, impl: str) -> bool:
        return any(t["status"] not in ("ok", "partial", "skipped") for t in self.result(group, impl)["times"])

    def needs_timing(self, group: Group, impl: str, series: SeriesJson) -> bool:
        """Whether it is not timed yet, not known to be wrong, and did not fail in earlier timing."""
        if self.is_timed(group, impl, series) or self.failed_while_timed(group, impl):
            return False
        checks = [self.check(group, impl, needed) for needed in needed_checks(series["pass"])]
        return all(check is None or check["status"] in RIGHT for check in checks)

    def unfinished(self, group: Group, impls: list[str]) -> list[str]:
        """Implementations not checked yet, or right and not timed yet although timing was requested."""
        native = set(group.native)
        return [
            impl
            for impl in impls
            if any(self.needs_check(group, impl, pass_name) for pass_name in self.checks)
            or (self._timing and impl in native and any(self.needs_timing(group, impl, s) for s in self.series))
        ]

    def is_finished(self, group: Group) -> bool:
        return not self.unfinished(group, [impl["name"] for impl in group.impls])

    def is_profiled(self, group: Group, impl: str) -> bool:
        return self.result(group, impl)["inside"] is not None
