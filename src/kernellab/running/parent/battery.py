"""An op's battery and searches: a crash or a timeout ends its trial, and the battery goes on in a new worker.

Each costs a new worker, so an implementation that kills too many workers is stopped; what is left of its trials is
recorded as not judged.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Collection, Sequence
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
from kernellab.running.protocol.events import CulpritNamed, ScriptWritten, WorkerSpent

_FATAL = ("crashed", "timeout", "oom")
_RETURNED = ("ok", "imprecise", "wrong", "error")  # the call came back
_MOST_LOST = 10  # workers that one implementation may kill
_MOST_TIMEOUT_S, _FEWEST_TIMEOUTS = 300.0, 3  # spent on waiting for one implementation, but this many times in any case
_MOST_LOST_AT_FIRST = 3  # as long as no call of it came back, at a declared case neither
_MOST_LOST_TO_NOBODY = 3  # to the reference, or to kernellab itself

Listener = Callable[[Event], None]


class _Common(TypedDict):
    """The fields that both commands share."""

    op: str
    dtypes: list[str]
    distrusted: list[str]
    distrusted_at: list[TrialJson]
    seed: int
    interpreted: bool


class Battery:
    """One op's implementations in one kind of worker. `failed_trials` are kept from run to run."""

    def __init__(
        self,
        op: str,
        slot: WorkerSlot,
        settings: Settings,
        journal: Journal,
        failed_trials: FailedTrials,
        killers: Collection[str] = (),
    ) -> None:
        """`killers`: implementations that have killed a worker at a declared case."""
        self.op, self.slot, self.settings, self.journal = op, slot, settings, journal
        self.failed_trials = failed_trials
        self._interpreted = slot.kind == "interpreter"
        self._impls: Sequence[str] = ()  # those being tried
        self._current_trial: PhaseBegun | None = None  # the trial that began last
        self._current_where: PhaseBegun | None = None  # the call of the op's where= that began last
        self._killers = frozenset(killers)
        self._losses: dict[str, list[str]] = {impl: ["crashed"] for impl in killers}  # how each killed workers
        self._losses_to_nobody = 0
        self._distrusted_at: list[TrialJson] = []  # where PyTorch's own op, called as the peer, killed a worker
        self._spent = False  # the worker ended because its GPU context is unusable

    def run(self, impls: Sequence[str], listener: Listener) -> None:
        """Run the battery for the implementations; `listener` receives every event."""
        device, dtypes = self.journal.record["machine"]["device"].split(":")[0], self.settings.request["dtypes"]
        stored = {impl: self.failed_trials.matching(impl, device=device, dtypes=dtypes) for impl in impls}
        self._impls = impls
        try:
            self._run_until_done(stored, listener)
        finally:
            for impl in impls:
                self.failed_trials.update(impl, self._outcomes(impl))

    def _run_until_done(self, stored: dict[str, list[TrialJson]], listener: Listener) -> None:
        """Send the battery again, from where it stopped, until a worker finishes it."""
        while True:
            done = {impl: self._next_number(impl, -len(stored[impl])) for impl in self._impls}
            losses = self._count_losses()
            command = RunBattery(
                **self._common(),
                done=done,
                stopped={impl: reason for impl in self._impls if (reason := self._stop_reason(impl)) is not None},
                stored=stored,
                quick=self.settings.request["quick"],
            )
            lost = self._work(command, listener)
            if lost is None and not self._spent:
                return
            hopeless = lost is not None and lost.phase == "where"
            progress = self._count_losses() > losses or any(
                self._next_number(impl, -len(stored[impl])) > done[impl] for impl in self._impls
            )
            if hopeless or self._losses_to_nobody == _MOST_LOST_TO_NOBODY or not progress:
                return

    def _work(self, command: RunBattery | SearchTrials, listener: Listener) -> LostWorker | None:
        self._spent = False
        lost = self.slot.work(command, partial(self._observe, listener=listener))
        if lost is not None:
            self._record_loss(lost)
        return lost

    def search(self, impl: str, seconds: float, listener: Listener) -> None:
        """Draw trials for an implementation that has failed none so far."""
        began, self._current_trial, self._impls = time.monotonic(), None, [impl]
        first = self._next_number(impl)
        self._work(SearchTrials(**self._common(), impl=impl, number=first, seconds=seconds), listener)
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

    def _common(self) -> _Common:
        return {
            "op": self.op,
            "dtypes": self.settings.request["dtypes"],
            "distrusted": sorted(impl for impl in self._losses if self._stop_reason(impl) is not None),
            "distrusted_at": self._distrusted_at,
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
                if event.status == "crashed":  # it broke the GPU's context
                    self._count_loss(event.impl, event.status, event.number)
                self.journal.write(dataclasses.replace(event, op=self.op))
            case ScriptWritten():
                self._script_path(event.impl).write_text(event.text)
            case SearchFinished():
                script = self._script_path(event.impl)
                file = f"artifacts/{script.name}" if event.script and script.exists() else None
                self.journal.write(dataclasses.replace(event, op=self.op, file=file))
            case CulpritNamed():
                self._record_loss(LostWorker(event.impl, "check", "crashed", event.reason))
            case WorkerSpent():
                self._spent = True
        listener(event)

    def _script_path(self, impl: str) -> Path:
        return self.journal.folder / "artifacts" / f"reproduce-{file_name(self.op)}-{file_name(impl)}.py"

    # When a worker is lost -----------------------------------------------------------------------------

    def _record_loss(self, lost: LostWorker) -> None:
        if lost.phase == "where" and self._current_where is not None and self._current_where.trial is not None:
            trial = self._current_where.trial
            reason = f"the op's where= at {trial.get('label')}: {lost.reason}"
            for impl in self._impls:
                self._write(impl, self._next_number(impl), trial, "unknown", reason)
        elif self._current_trial is not None:
            self._record_loss_in_trial(lost, self._current_trial)

    def _record_loss_in_trial(self, lost: LostWorker, begun: PhaseBegun) -> None:
        assert begun.impl is not None
        assert begun.trial is not None
        assert begun.number is not None
        if lost.impl is not None:
            self._count_loss(lost.impl, lost.status, begun.number)
            if lost.phase == "check":
                self._distrusted_at.append(begun.trial)
            # As the peer, PyTorch's own op kills the worker while another implementation is tried: that one is
            # tried again, with the reference as its peer. Only numbers of the battery mean the same trial to both.
            counts = lost.impl == begun.impl or (begun.number >= 0 and lost.impl in self._impls)
            if counts and self._next_number(lost.impl, begun.number) <= begun.number:
                self._write(lost.impl, begun.number, begun.trial, *lost.outcome)
            return
        self._losses_to_nobody += 1
        reason = f"cannot check: the reference: {lost.reason}" if lost.phase == "oracle" else lost.reason
        if self._losses_to_nobody == _MOST_LOST_TO_NOBODY:
            reason += f"; for the {_MOST_LOST_TO_NOBODY}rd time, so the rest of the battery is not tried"
        for impl in self._impls:
            if self._next_number(impl, begun.number) <= begun.number:
                self._write(impl, begun.number, begun.trial, "unknown", reason)

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

    def _count_loss(self, impl: str, status: str, number: int) -> None:
        """Trials that failed in earlier runs (negative numbers) come first. They leave the battery its own share."""
        if number >= 0 or impl in self._killers:
            self._losses.setdefault(impl, []).append(status)

    def _count_losses(self) -> int:
        return sum(map(len, self._losses.values())) + self._losses_to_nobody + len(self._distrusted_at)

    def _stop_reason(self, impl: str) -> str | None:
        """Why an implementation is not tried further; None as long as it is."""
        losses = self._losses.get(impl, [])
        timeouts = losses.count("timeout")
        if timeouts >= max(_FEWEST_TIMEOUTS, _MOST_TIMEOUT_S / self.settings.timeout_s):
            return f"not tried: it had not returned within --timeout {timeouts} times"
        most = _MOST_LOST
        if impl in self._killers and not any(t["status"] in _RETURNED for t in self._outcomes(impl)):
            most = _MOST_LOST_AT_FIRST
        return f"not tried: it had ended its process {len(losses)} times" if len(losses) >= most else None
