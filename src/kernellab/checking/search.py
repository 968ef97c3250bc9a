"""Searching beyond the battery: Hypothesis draws random trials until one fails, and shrinks the failure."""

from __future__ import annotations

import contextlib
import itertools
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass

import hypothesis

from kernellab.base.paths import cache_dir
from kernellab.checking.confirmation import Examine, examine_and_confirm
from kernellab.checking.outcome import Outcome
from kernellab.declaration.op import Impl, Op
from kernellab.trials.bases import Bases
from kernellab.trials.domain import Domain
from kernellab.trials.random_trials import MAX_ELEMENTS, random_trials, simplicity
from kernellab.trials.trial import Trial

_EXAMPLES_PER_ROUND = 10  # with more, Hypothesis would vary earlier examples instead of drawing new ones
_DRAWING_SHARE = 0.75  # of the time; the rest is for shrinking


@dataclass(frozen=True)
class SearchFailure:
    """The simplest trial that failed, and its outcome."""

    trial: Trial
    outcome: Outcome


@dataclass(frozen=True)
class SearchResult:
    """How many trials a search examined, and the failure it found."""

    drawn: int  # trials examined until one failed or time was up
    outside: int  # of those, the ones outside the implementation's domain or not judged
    shrinking: int  # trials examined to simplify the failure
    seconds: float
    failure: SearchFailure | None


class _TimeIsUp(BaseException):
    """Ends a search from inside: Hypothesis does not catch it."""


class _TrialFailed(Exception):
    """Tells Hypothesis that a trial failed."""


def search(
    op: Op,
    examine: Examine,
    *,
    seconds: float,
    seed: int,
    device: str,
    impl: Impl | None = None,
    dtypes: Sequence[str] = (),
    max_elements: int | None = None,
) -> SearchResult:
    """Examine random trials, inside the domain of `impl`, until one fails or time is up. Raises what `examine` raises.

    A larger trial than `max_elements` is drawn where the domain has nothing smaller.
    """
    progress = _Progress(op, examine, seconds)
    # Hypothesis stores numbers it finds in source files, by default in the working directory.
    os.environ.setdefault("HYPOTHESIS_STORAGE_DIRECTORY", str(cache_dir("hypothesis")))
    settings = hypothesis.settings(
        database=None,  # failures are stored as trials, which stay valid when the declaration changes
        derandomize=False,  # the seed decides
        deadline=None,
        max_examples=_EXAMPLES_PER_ROUND,
        phases=(hypothesis.Phase.generate, hypothesis.Phase.shrink),
        suppress_health_check=list(hypothesis.HealthCheck),
        verbosity=hypothesis.Verbosity.quiet,
        print_blob=False,
        report_multiple_bugs=False,
    )
    bases = Bases(Domain(op, impl), device, dtypes=dtypes, max_elements=max_elements)
    trials = random_trials(bases, min(max_elements or MAX_ELEMENTS, MAX_ELEMENTS), progress.check_time)
    with contextlib.suppress(_TimeIsUp):
        for number in itertools.count():
            # HypothesisException: a flaky implementation, or a round in which `where=` accepted nothing.
            with contextlib.suppress(_TrialFailed, hypothesis.errors.HypothesisException):
                hypothesis.seed((seed << 32) + number)(settings(hypothesis.given(trials)(progress.examine)))()
            if progress.failure is not None:
                break
    if progress.error is not None:
        raise progress.error
    return progress.result()


class _Progress:
    """Examines each drawn trial once, and keeps the simplest failure of one kind."""

    def __init__(self, op: Op, examine: Examine, seconds: float) -> None:
        self._op, self._examine = op, examine
        self._began = time.monotonic()
        self._seconds, self._deadline = seconds, self._began + _DRAWING_SHARE * seconds
        self._examined: dict[str, bool] = {}  # by the trial's key: whether it failed
        self._forward_only = False  # known once a backward pass was refused
        self._kind: tuple[str, str] | None = None  # of the first failure; failures of other kinds are ignored
        self._drawn = self._outside = self._shrinking = 0
        self.failure: SearchFailure | None = None
        self.error: Exception | None = None

    def check_time(self) -> None:
        if time.monotonic() > self._deadline:
            raise _TimeIsUp

    def examine(self, trial: Trial) -> None:
        if trial.key not in self._examined:
            self._examined[trial.key] = self._fails(trial)
        if self._examined[trial.key]:
            raise _TrialFailed

    def _fails(self, trial: Trial) -> bool:
        if self._forward_only and trial.pass_name != "forward":
            return False
        try:
            outcome = examine_and_confirm(self._examine, trial)
        except Exception as error:
            self.error = error
            raise _TimeIsUp from error
        if outcome is None:
            return False
        if self._kind is None:
            self._drawn += 1
            self._outside += outcome.status in ("outside", "unknown")
        else:
            self._shrinking += 1
        if not outcome.failed:
            self._forward_only |= outcome.status == "outside" and "not differentiable" in str(outcome.reason)
            return False
        kind = _failure_kind(outcome)
        if self._kind is None:
            self._kind, self._deadline = kind, self._began + self._seconds
        if kind != self._kind:
            return False
        if self.failure is None or simplicity(self._op, trial) < simplicity(self._op, self.failure.trial):
            self.failure = SearchFailure(trial, outcome)
        return True

    def result(self) -> SearchResult:
        seconds = round(time.monotonic() - self._began, 2)
        return SearchResult(self._drawn, self._outside, self._shrinking, seconds, self.failure)


def _failure_kind(outcome: Outcome) -> tuple[str, str]:
    """What is wrong, regardless of the numbers: wrong values are of one kind, finite or not."""
    reason = str(outcome.reason)
    return outcome.status, "values" if "values" in reason else reason.split(" ")[0]
