"""The groups of a run: every implementation is checked, the right ones are timed and then profiled.

An implementation that kills a worker is recorded with the reason and left out from then on.
"""

from __future__ import annotations

import json
from functools import partial

from kernellab.record.event import CaseEvent, Event
from kernellab.record.journal import Journal
from kernellab.record.result_events import (
    CHECK_PHASES,
    GuardNoticed,
    ImplChecked,
    ImplFailed,
    PhaseBegun,
    PhaseEnded,
    SamplesDiscarded,
    SeriesTimed,
    TimeCrossChecked,
)
from kernellab.record.schema import SeriesJson
from kernellab.record.settings import Settings
from kernellab.running.parent.cross_check import DISAGREES, CrossChecks
from kernellab.running.parent.progress import Progress
from kernellab.running.parent.remaining_work import Group, RemainingWork
from kernellab.running.parent.worker_pool import WorkerPool
from kernellab.running.parent.worker_slot import LostWorker, WorkerSlot
from kernellab.running.protocol.commands import Command, ProfileGroup, SeriesRequest, WorkOnGroup
from kernellab.running.protocol.events import CulpritNamed, SeriesBegun, WaitBegun
from kernellab.timing.timers import needs_profiler

_QUICK_ELEMENTS = 1 << 18  # of an input, in a quick check


class Groups:
    """The groups of a run on one device."""

    def __init__(
        self,
        groups: list[Group],
        settings: Settings,
        journal: Journal,
        pool: WorkerPool,
        progress: Progress,
        device: str,
    ) -> None:
        self.groups, self.settings, self.journal = groups, settings, journal
        self.pool, self.progress, self.device = pool, progress, device
        self.remaining = RemainingWork(settings, journal, device)
        self._timing = "time" in settings.stages
        self._culprits: dict[tuple[str, str], set[str]] = {}  # implementations that killed workers, per op and case
        self._series: SeriesJson | None = None  # the series being timed
        self._checks: tuple[Group, CrossChecks] | None = None  # of the group that is being timed now

    def run(self) -> None:
        """Check and time everything that is not in the journal yet."""
        self.progress.begin_groups([self._steps(group) for group in self.groups])
        for group in self.groups:
            if not self.remaining.is_finished(group):
                self._skip_impossible(group)
                self._run_native(group)
                self._run_interpreted(group)
            self.journal.save()
            self.progress.finish_group()

    def killers(self, op: str) -> set[str]:
        """Implementations of an op that have killed a worker at any case."""
        return {name for (culprits_op, _), names in self._culprits.items() if culprits_op == op for name in names}

    def _steps(self, group: Group) -> int:
        """The number of checks and timings of a group. The remaining time is estimated from it."""
        timings = len(self.remaining.series) if self._timing else 0
        return len(group.native) * (1 + timings) + len(group.interpreted)

    def _skip_impossible(self, group: Group) -> None:
        """Skip implementations that this device cannot run; those that can be interpreted are still checked."""
        for impl in group.impls:
            if impl["obstacle"] and not impl["interpreted"] and self.remaining.check(group, impl["name"]) is None:
                check = ImplChecked(impl=impl["name"], check={"status": "skipped", "reason": impl["obstacle"]})
                self._write(group, check)

    def _run_native(self, group: Group) -> None:
        results = [self.remaining.result(group, impl) for impl in group.native]
        if any(times["status"] == "partial" for result in results for times in result["times"]):
            self._write(group, SamplesDiscarded())  # the run was interrupted in the middle of a series
        if results:
            self._work(group, group.slot, group.native, timed=self._timing)

    def _run_interpreted(self, group: Group) -> None:
        if group.interpreted:
            self._work(group, self.pool.sibling(group.slot, "interpreter"), group.interpreted, timed=False)

    def _work(self, group: Group, slot: WorkerSlot, impls: list[str], *, timed: bool) -> None:
        """Send commands until all are checked and the right ones timed, leaving out those that kill workers."""
        self._series = None
        remaining = self.remaining
        while unfinished := remaining.unfinished(group, impls):
            culprits = len(self._culprits_of(group))
            command = WorkOnGroup(
                op=group.op,
                case=group.case,
                check={p: [i for i in impls if remaining.needs_check(group, i, p)] for p in remaining.checks},
                right={p: [i for i in impls if remaining.is_right(group, i, p)] for p in remaining.checks},
                errors={p: remaining.checked_errors(group, impls, p) for p in remaining.checks},
                time=self._series_to_time(group, impls) if timed else [],
                distrusted=sorted(self._culprits_of(group)),
                seed=self.settings.seed,
                interpreted=slot.kind == "interpreter",
                most=_QUICK_ELEMENTS if self.settings.quick_check else None,
            )
            lost = slot.work(command, partial(self._observe, group))
            if lost is not None and lost.impl is not None:
                self._blame(group, lost)
            left = remaining.unfinished(group, impls)
            if len(left) == len(unfinished) and len(self._culprits_of(group)) == culprits:
                self._give_up(group, left, lost)

    def _series_to_time(self, group: Group, impls: list[str]) -> list[SeriesRequest]:
        """The series left to time. The worker leaves out implementations that it finds wrong."""
        requests: list[SeriesRequest] = []
        for series in self.remaining.series:
            names = [impl for impl in impls if self.remaining.needs_timing(group, impl, series)]
            if names:
                timing = self.settings.timing(self.device, series, max(1, len(self.groups)))
                blocks = self.settings.energy_blocks() if series in self.remaining.energy_series else 0
                requests.append({"series": series, "impls": names, "timing": timing, "energy_blocks": blocks})
        return requests

    def _observe(self, group: Group, event: Event) -> Command | None:
        """Writes what belongs in the journal. Returns the answer where the worker waits for one."""
        answer = self._cross_checks(group).observe(event)
        match event:
            case WaitBegun():
                self.progress.say(event.reason)
            case SeriesBegun():
                self._series = event.series
            case CulpritNamed():
                self._blame(group, LostWorker(event.impl, "check", "crashed", event.reason))
            case PhaseBegun(impl=str(impl), phase=phase):
                self.progress.show_phase(group.op, group.case, impl, phase)
        if isinstance(event, CaseEvent) and event.stored and not _is_noise(event):
            self._write(group, event)
        if isinstance(event, SeriesTimed) and not needs_profiler(event.timer):
            self._conclude_cross_checks(group, event)
        return answer

    def _conclude_cross_checks(self, group: Group, event: SeriesTimed) -> None:
        """Write whether each time of a series agrees with this process's clock, and refuse those that do not."""
        series = event.series
        for impl in event.impls:
            cross_check = self._cross_checks(group).conclude(impl, series)
            self._write(
                group,
                TimeCrossChecked(
                    impl=impl,
                    pass_name=series["pass"],
                    timer=series["timer"],
                    cache=series["cache"],
                    cross_check=cross_check,
                ),
            )
            if cross_check["verdict"] == DISAGREES:
                self._fail(group, impl, "time", "wrong", f"while timing: {cross_check['reason']}")

    def _cross_checks(self, group: Group) -> CrossChecks:
        if self._checks is None or self._checks[0] is not group:
            reported_us = partial(self.remaining.reported_us, group)
            device_type = self.device.split(":")[0]
            self._checks = group, CrossChecks(device_type, reported_us, lambda: group.slot.device)
        return self._checks[1]

    def _write(self, group: Group, event: CaseEvent) -> None:
        self.journal.write(event.at(group.op, group.case))

    # Attribution ---------------------------------------------------------------------------------------

    def _culprits_of(self, group: Group) -> set[str]:
        return self._culprits.setdefault((group.op, json.dumps(group.case)), set())

    def _blame(self, group: Group, lost: LostWorker) -> None:
        assert lost.impl is not None
        assert lost.phase is not None
        self._culprits_of(group).add(lost.impl)
        if lost.impl in {impl["name"] for impl in group.impls}:  # the peer may not have been requested
            self._fail(group, lost.impl, lost.phase, *lost.outcome)
        if lost.phase not in CHECK_PHASES:
            self._write(group, SamplesDiscarded())

    def _fail(self, group: Group, impl: str, phase: str, status: str, reason: str) -> None:
        series = self._series if phase not in CHECK_PHASES else None
        self._write(
            group,
            ImplFailed(
                impl=impl,
                phase=phase,
                status=status,
                reason=reason,
                pass_name=series["pass"] if series else None,
                timer=series["timer"] if series else None,
                cache=series["cache"] if series else None,
            ),
        )

    def _give_up(self, group: Group, impls: list[str], lost: LostWorker | None) -> None:
        """Record a failure for implementations that are left when a worker makes no progress and names no culprit."""
        cause = lost.reason if lost else "it made no progress"
        status, reason = "error", f"the worker was lost while no implementation was running: {cause}"
        if lost is not None and lost.phase == "oracle":
            status, reason = "unknown", f"cannot check: the reference: {cause}"
        if lost is not None and lost.phase == "cost":
            reason = f"the op's cost= failed: {cause}"
        for impl in impls:
            self._fail(group, impl, "time" if self.remaining.is_right(group, impl) else "check", status, reason)

    # Profiling -----------------------------------------------------------------------------------------

    def profile(self) -> None:
        """Profile one call of each right implementation: its kernels and what else it does. Runs after all timing."""
        for group in self.groups:
            impls = self._impls_to_profile(group)
            failed: set[str] = set()
            while impls:
                lost = self._profiler_slot(group).work(
                    self._profile_command(group, impls), partial(self._observe, group)
                )
                if lost is None or lost.impl is None:
                    break
                detail = f"could not be profiled: {lost.status}: {lost.reason}"
                self._write(group, GuardNoticed(impl=lost.impl, guard={"name": "profile", "detail": detail}))
                failed.add(lost.impl)
                impls = [impl for impl in self._impls_to_profile(group) if impl not in failed]
            self.journal.save()

    def _profile_command(self, group: Group, impls: list[str]) -> ProfileGroup:
        return ProfileGroup(
            op=group.op,
            case=group.case,
            impls=[impl for impl in impls if not self.remaining.is_profiled(group, impl)],
            series=[
                {"series": series, "impls": self._untimed(group, impls, series)}
                for series in self.remaining.profiler_series
            ],
            seed=self.settings.seed,
            rounds=self.settings.rounds,
        )

    def _impls_to_profile(self, group: Group) -> list[str]:
        """Right implementations that did not fail while timed and are not fully profiled yet."""
        remaining = self.remaining
        impls = [i for i in group.native if remaining.is_right(group, i) and not remaining.failed_while_timed(group, i)]
        untimed = {impl for series in remaining.profiler_series for impl in self._untimed(group, impls, series)}
        return [impl for impl in impls if impl in untimed or not remaining.is_profiled(group, impl)]

    def _untimed(self, group: Group, impls: list[str], series: SeriesJson) -> list[str]:
        right = [impl for impl in impls if self.remaining.is_right(group, impl, series["pass"])]
        return [impl for impl in right if not self.remaining.is_timed(group, impl, series)]

    def _profiler_slot(self, group: Group) -> WorkerSlot:
        """A worker that times nothing afterwards. On a GPU it has not timed anything before either."""
        return self.pool.sibling(group.slot, "profiler") if self.device.startswith("cuda") else group.slot


def _is_noise(event: CaseEvent) -> bool:
    """Whether the journal does not need an event: phases of samples, which rounds record, and of no implementation."""
    return isinstance(event, (PhaseBegun, PhaseEnded)) and (event.phase in ("time", "energy") or event.impl is None)
