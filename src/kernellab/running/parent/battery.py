"""An op's battery and searches: each implementation runs all trials, or stops when it kills a worker."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TypedDict

from kernellab.base.paths import file_name
from kernellab.record.battery_events import SearchFinished, TrialFinished
from kernellab.record.event import Event
from kernellab.record.journal import Journal
from kernellab.record.result_events import PhaseBegun
from kernellab.record.schema import TrialJson, TrialOutcome
from kernellab.record.settings import Settings
from kernellab.running.parent.failed_trials import FAILED, FailedTrials
from kernellab.running.parent.worker_slot import LostWorker, WorkerSlot
from kernellab.running.protocol.commands import RunBattery, SearchTrials
from kernellab.running.protocol.events import CulpritNamed, ScriptWritten

_FATAL = ("crashed", "timeout", "oom")
_MOST_LOST = 3  # workers that the reference may kill: a trial may be too large for it, and each costs a new worker

Listener = Callable[[Event], None]


class _Common(TypedDict):
    """The fields that both commands share."""

    op: str
    dtypes: list[str]
    distrusted: list[str]
    seed: int
    interpreted: bool


class Battery:
    """One op's implementations in one kind of worker. `failed_trials` are kept from run to run."""

    def __init__(
        self, op: str, slot: WorkerSlot, settings: Settings, journal: Journal, failed_trials: FailedTrials
    ) -> None:
        self.op, self.slot, self.settings, self.journal = op, slot, settings, journal
        self.failed_trials = failed_trials
        self._interpreted = slot.kind == "interpreter"
        self._current_trial: PhaseBegun | None = None  # the trial that began last
        self._current_where: PhaseBegun | None = None  # the call of the op's where= that began last
        self._culprits: set[str] = set()  # peers that killed a worker
        self._lost_to_reference = 0  # workers

    def run(self, impls: Sequence[str], listener: Listener) -> None:
        """Run the battery for the implementations; `listener` receives every event."""
        device, dtypes = self.journal.record["machine"]["device"].split(":")[0], self.settings.request["dtypes"]
        stored = {impl: self.failed_trials.matching(impl, device=device, dtypes=dtypes) for impl in impls}
        try:
            self._run_until_done(impls, stored, listener)
        finally:
            for impl in impls:
                self.failed_trials.update(impl, self._outcomes(impl))

    def _run_until_done(self, impls: Sequence[str], stored: dict[str, list[TrialJson]], listener: Listener) -> None:
        while left := [impl for impl in impls if not self._is_stopped(impl)]:
            done = {impl: self._next_number(impl, -len(stored[impl])) for impl in left}
            command = RunBattery(**self._common(impls), done=done, stored=stored, quick=self.settings.request["quick"])
            lost = self.slot.work(command, partial(self._observe, listener=listener))
            if lost is not None:
                self._record_loss(lost, left)
            finished = lost is None and not any(self._is_stopped(impl) for impl in left)
            hopeless = lost is not None and lost.phase == "where"
            progress = any(self._next_number(impl, -len(stored[impl])) > done[impl] for impl in left)
            if finished or hopeless or self._lost_to_reference == _MOST_LOST or not progress:
                return

    def search(self, impl: str, seconds: float, listener: Listener) -> None:
        """Draw trials for an implementation that has failed none so far."""
        began, self._current_trial = time.monotonic(), None
        first = self._next_number(impl)
        command = SearchTrials(**self._common([impl]), impl=impl, number=first, seconds=seconds)
        lost = self.slot.work(command, partial(self._observe, listener=listener))
        if lost is not None:
            self._record_loss(lost, [impl])
        if not self.is_searched(impl):  # its worker was lost
            last = self._current_trial.number if self._current_trial is not None else None
            drawn = last + 1 - first if last is not None else 0
            elapsed_s = round(time.monotonic() - began, 2)
            self.journal.write(SearchFinished(op=self.op, impl=impl, drawn=drawn, outside=0, seconds=elapsed_s))
        self.failed_trials.update(impl, self._outcomes(impl))

    def has_failed(self, impl: str) -> bool:
        return any(outcome["status"] in (*FAILED, *_FATAL) for outcome in self._outcomes(impl))

    def is_searched(self, impl: str) -> bool:
        return any(s["op"] == self.op and s["impl"] == impl for s in self.journal.record["searches"])

    def _common(self, impls: Sequence[str]) -> _Common:
        return {
            "op": self.op,
            "dtypes": self.settings.request["dtypes"],
            "distrusted": sorted(self._culprits | {impl for impl in impls if self._is_stopped(impl)}),
            "seed": self.settings.seed,
            "interpreted": self._interpreted,
        }

    def _observe(self, event: Event, listener: Listener) -> None:
        match event:
            case PhaseBegun(phase="try" | "search"):
                self._current_trial = event
            case PhaseBegun(phase="where"):
                self._current_where = event
            case TrialFinished():
                self.journal.write(dataclasses.replace(event, op=self.op))
            case ScriptWritten():
                self._script_path(event.impl).write_text(event.text)
            case SearchFinished():
                script = self._script_path(event.impl)
                file = f"artifacts/{script.name}" if event.script and script.exists() else None
                self.journal.write(dataclasses.replace(event, op=self.op, file=file))
            case CulpritNamed():
                self._culprits.add(event.impl)
        listener(event)

    def _script_path(self, impl: str) -> Path:
        return self.journal.folder / "artifacts" / f"reproduce-{file_name(self.op)}-{file_name(impl)}.py"

    # When a worker is lost -----------------------------------------------------------------------------

    def _record_loss(self, lost: LostWorker, impls: list[str]) -> None:
        if lost.phase == "where" and self._current_where is not None and self._current_where.trial is not None:
            trial = self._current_where.trial
            reason = f"the op's where= at {trial.get('label')}: {lost.reason}"
            for impl in impls:
                self._write(impl, self._next_number(impl), trial, "unknown", reason)
        elif self._current_trial is not None:
            self._record_loss_in_trial(lost, self._current_trial, impls)

    def _record_loss_in_trial(self, lost: LostWorker, phase: PhaseBegun, impls: list[str]) -> None:
        assert phase.impl is not None
        assert phase.trial is not None
        assert phase.number is not None
        if lost.impl is not None:
            self._write(phase.impl, phase.number, phase.trial, lost.status, lost.reason)
            return
        reason = lost.reason
        if lost.phase == "oracle":
            self._lost_to_reference += 1
            reason = f"cannot check: the reference: {lost.reason}"
            if self._lost_to_reference == _MOST_LOST:
                reason += f"; for the {_MOST_LOST}rd time, so the rest of the battery is not tried"
        for impl in impls:
            if self._next_number(impl, phase.number) <= phase.number:
                self._write(impl, phase.number, phase.trial, "unknown", reason)

    def _write(self, impl: str, number: int, trial: TrialJson, status: str, reason: str) -> None:
        self.journal.write(
            TrialFinished(
                op=self.op,
                impl=impl,
                number=number,
                trial=trial,
                status=status,
                reason=reason,
                interpreter=self._interpreted,
            )
        )

    # What is done --------------------------------------------------------------------------------------

    def _outcomes(self, impl: str) -> list[TrialOutcome]:
        return [t for t in self.journal.record["trials"] if t["op"] == self.op and t["impl"] == impl]

    def _next_number(self, impl: str, first: int = 0) -> int:
        return max((outcome["number"] + 1 for outcome in self._outcomes(impl)), default=first)

    def _is_stopped(self, impl: str) -> bool:
        """Whether an implementation has killed a worker. It is not tried further: each time costs a new worker."""
        return any(outcome["status"] in _FATAL for outcome in self._outcomes(impl))
