"""What comes of a trial, and of a checked case: typed here, and as JSON in the record."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace

from kernellab.accuracy.errors import Errors
from kernellab.activity.untuned import UntunedRun
from kernellab.declaration.case import Case
from kernellab.record.schema import CheckOutcome, OutsideJson, PeerJson, TrialOutcome
from kernellab.record.statuses import RIGHT
from kernellab.trials.trial import Trial

FAILED = ("wrong", "error")


@dataclass(frozen=True)
class PeerErrors:
    """The implementation that set the tolerance, and its own errors."""

    impl: str
    errors: Errors

    def to_json(self) -> PeerJson:
        return {"impl": self.impl, **self.errors.to_json()}


@dataclass(frozen=True)
class Outcome:
    """What came of one implementation at one trial.

    Statuses: `ok`, `imprecise`, `wrong`, `error`, `oom`, `crashed`; `outside`: the implementation or the reference
    refuses the trial; `unknown`: the trial cannot be judged, which is not the implementation's fault.
    """

    status: str
    reason: str | None = None
    errors: Errors | None = None
    peer: PeerErrors | None = None
    notes: tuple[str, ...] = ()
    first_call_s: float | None = None
    traceback: str | None = None
    needed_bytes: int | None = None  # where memory ran out
    untuned: tuple[UntunedRun, ...] = ()  # of a failure: the configurations of autotuned kernels that ran
    draws: int | None = None  # calls whose distribution was compared; None: the values themselves were
    excess: float = math.inf  # the error as a multiple of the limit, where values are wrong

    @property
    def failed(self) -> bool:
        return self.status in FAILED

    def with_notes(self, notes: Iterable[str]) -> Outcome:
        return replace(self, notes=(*self.notes, *notes))

    def at_trial(self, *, op: str, impl: str, number: int, trial: Trial, interpreted: bool) -> TrialOutcome:
        """As the record stores it, with its trial. Fields that do not apply are left out."""
        entry: TrialOutcome = {
            "op": op,
            "impl": impl,
            "number": number,
            "interpreter": interpreted,
            "trial": trial.to_labelled_json(),
            "status": self.status,
            "reason": self.reason,
        }
        if self.errors is not None:
            entry["errors"] = self.errors.to_json()
        if self.peer is not None:
            entry["peer"] = self.peer.to_json()
        if self.status in RIGHT:
            entry["notes"] = list(self.notes)
        if self.draws is not None:
            entry["draws"] = self.draws
        if self.traceback is not None:
            entry["traceback"] = self.traceback
        return entry


@dataclass(frozen=True)
class OutsideVariant:
    """A variant of a case that is outside the implementation's domain."""

    case: Case
    reason: str

    def to_json(self) -> OutsideJson:
        return {"case": self.case.to_json(), "reason": self.reason}


@dataclass(frozen=True)
class CaseOutcome:
    """What came of checking one implementation at a case and at the other values of its options."""

    status: str  # as of an Outcome, and `skipped`: the case itself is outside the implementation's domain
    reason: str | None
    checked_at: Case
    interpreted: bool
    trials: int = 0
    outside: tuple[OutsideVariant, ...] = ()
    outcomes: tuple[Outcome, ...] = ()  # of the case itself, then of the option values that failed
    flaw: str = ""  # what is wrong with the implementation on purpose

    def to_json(self) -> CheckOutcome:
        """As the record stores it. Fields that do not apply are left out."""
        stored: CheckOutcome = {
            "status": self.status,
            "reason": self.reason,
            "checked_at": {**self.checked_at.to_json(), "interpreter": self.interpreted},
            "trials": self.trials,
            "outside": [variant.to_json() for variant in self.outside],
            "notes": [],
        }
        if self.flaw:
            stored["flaw"] = self.flaw
        for outcome in self.outcomes:
            if outcome.errors is not None:
                stored["errors"] = outcome.errors.to_json()
            if outcome.peer is not None:
                stored["peer"] = outcome.peer.to_json()
            if outcome.status in RIGHT:
                stored["notes"] = list(outcome.notes)
            if outcome.draws is not None:
                stored["draws"] = outcome.draws
            if outcome.first_call_s is not None:
                stored["first_call_s"] = outcome.first_call_s
            if outcome.traceback is not None:
                stored["traceback"] = outcome.traceback
            if outcome.needed_bytes is not None:
                stored["needed_bytes"] = outcome.needed_bytes
        return stored
