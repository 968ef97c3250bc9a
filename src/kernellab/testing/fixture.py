"""The fixture `klab`: `check`, `assert_not_slower` and `run`, each in processes of its own."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, cast

import pytest

from kernellab.api.command_words import Target
from kernellab.api.run import Names, Run, Sizes, execute
from kernellab.base.errors import UserError
from kernellab.comparison.compare import compare
from kernellab.comparison.side import Side
from kernellab.machine.tools import has_gpu
from kernellab.record import verdict
from kernellab.record.derived import DerivedResult
from kernellab.record.schema import Record
from kernellab.reporting.text import numbers
from kernellab.running.processes.worker_template import WorkerTemplate
from kernellab.testing.failures import fail, fail_unless_right, how_to_reproduce
from kernellab.testing.kept_runs import KeptRuns, NoBaseline
from kernellab.testing.pace import Pace, pace_beside, paces_since, why_not_compared
from kernellab.testing.times import TimeRow, time_row


class KlabWarning(UserWarning):
    """Something that a test should know and that does not fail it."""


@dataclass(frozen=True)
class _Judgement:
    """How long one result takes in one pass, relative to something. `notes`: what else may explain it."""

    result: DerivedResult
    pass_name: str
    pace: Pace
    notes: Sequence[str] = ()

    @property
    def sentence(self) -> str:
        return f"{_subject(self.result, self.pass_name)}: {self.pace.sentence}"


class Klab:
    """Checks ops and compares times. A failure names the reason, and the command that reproduces it."""

    def __init__(
        self,
        request: pytest.FixtureRequest,
        folders: pytest.TempPathFactory,
        template: WorkerTemplate,
        rows: list[TimeRow],
    ) -> None:
        self._test, self._folders, self._template, self._rows = request.node, folders, template, rows
        self._device: str | None = request.config.getoption("--klab-device")
        self._kept = KeptRuns(
            request.node.nodeid, *(request.config.getoption(f"--klab-{name}") for name in ("save", "baseline"))
        )
        self._number = 0  # of measurements of this test

    def check(
        self,
        target: Target,
        impl: Names = (),
        *,
        shape: Sizes = (),
        dtype: object = (),
        options: Mapping[str, object] | None = None,
        device: str | None = None,
        seed: int | None = None,
        timeout: float | None = None,
        quick: bool = False,
        **dims: object,
    ) -> Run:
        """Fail unless the implementations of an op are right, as `klab check` says. Skip where none can run here.

        Without sizes or options, the battery is tried too.
        """
        __tracebackhide__ = True
        run = self._execute(
            "check",
            target,
            {
                "impl": impl,
                "shape": shape,
                "dtype": dtype,
                "opt": options,
                "device": device,
                "seed": seed,
                "timeout": timeout,
                "quick": quick,
            },
            dims,
        )
        fail_unless_right(run)
        return run

    def run(
        self,
        target: Target,
        impl: Names = (),
        *,
        shape: Sizes = (),
        dtype: object = (),
        options: Mapping[str, object] | None = None,
        passes: Names = (),
        device: str | None = None,
        seed: int | None = None,
        timeout: float | None = None,
        seconds: float | None = None,
        rounds: int | None = None,
        quick: bool = False,
        **dims: object,
    ) -> Run:
        """Check and time an op, as `klab run --only-times` does, and fail unless all is right.

        Its times are in the table after the tests.
        """
        __tracebackhide__ = True
        settings = {
            "impl": impl,
            "shape": shape,
            "dtype": dtype,
            "opt": options,
            "pass": passes,
            "device": device,
            "seed": seed,
            "timeout": timeout,
            "seconds": seconds,
            "rounds": rounds,
            "quick": quick,
        }
        run = self._time(target, settings, dims)
        fail_unless_right(run)
        for result in run.results:
            self._note(result)
        return run

    def assert_not_slower(
        self,
        target: Target,
        impl: str,
        *,
        than: str | None = None,
        baseline: str | Path | Run | None = None,
        by: float = 0.02,
        shape: Sizes = (),
        dtype: object = (),
        options: Mapping[str, object] | None = None,
        passes: Names = (),
        device: str | None = None,
        seed: int | None = None,
        timeout: float | None = None,
        seconds: float | None = None,
        rounds: int | None = None,
        quick: bool = False,
        **dims: object,
    ) -> Run:
        """Fail where `impl` is certainly slower than another implementation, or than before, by more than `by`, 2 %.

        `than` names an implementation; both are timed in the same rounds. `baseline` is an earlier run: its folder, a
        folder that `--klab-save` filled, or what `kl.load` returned. Without either, the option `--klab-baseline` names
        it. Where the times do not tell, or a case cannot be compared, a warning says so. Skips what cannot be timed
        or compared here at all.
        """
        __tracebackhide__ = True
        if not 0 <= by < math.inf:
            fail([f"klab.assert_not_slower: by={by:g} must not be negative, and must be a number: by=0.02 allows 2 %"])
        if than == impl:
            fail([f"klab.assert_not_slower: {impl} cannot be slower than itself: than= names another implementation"])
        if than is not None and baseline is not None:
            fail(["klab.assert_not_slower: than= and baseline= are two questions: write two calls"])
        settings = {
            "impl": [impl, than] if than is not None else impl,
            "shape": shape,
            "dtype": dtype,
            "opt": options,
            "pass": passes,
            "device": device,
            "seed": seed,
            "timeout": timeout,
            "seconds": seconds,
            "rounds": rounds,
            "quick": quick,
        }
        earlier = self._earlier_run(baseline) if than is None else None  # before this run is kept in its place
        run = self._time(target, settings, dims)
        fail_unless_right(run)
        mine = [_of_impl(group, impl) for group in verdict.groups(run.results)]
        for result in mine:
            _skip_unless_timed(result)
        if than is not None:
            judged = self._beside_other(run, mine, than, by)
        elif earlier is not None:
            judged = self._beside_earlier(run, mine, earlier, by)
        else:
            judged = []
            for result in mine:
                self._note(result)
        if not judged and (than is not None or earlier is not None):
            pytest.skip(f"nothing was compared: {'; '.join(_reasons(mine, [], earlier, than)) or 'there is no time'}")
        for reason in _reasons(mine, judged, earlier, than) if judged else []:
            warnings.warn(KlabWarning(f"not compared: {reason}"), stacklevel=2)
        slower = [judgement for judgement in judged if judgement.pace.verdict == "slower"]
        if slower:
            notes = dict.fromkeys(note for judgement in slower for note in judgement.notes)
            fail([*(judgement.sentence for judgement in slower), *notes, *how_to_reproduce(run)])
        for judgement in judged:
            if judgement.pace.verdict == "not resolved":
                remedy = "that does not tell: more rounds= or seconds= make the interval narrower"
                warnings.warn(KlabWarning(f"{judgement.sentence}; {remedy}"), stacklevel=2)
        return run

    def _beside_other(self, run: Run, mine: Sequence[DerivedResult], than: str, by: float) -> list[_Judgement]:
        """An implementation and another one in the same rounds."""
        __tracebackhide__ = True
        judged = []
        for result in mine:
            others = (other for other in run.results if (other["op"], other["case"]) == (result["op"], result["case"]))
            other = _of_impl(others, than)
            _skip_unless_timed(other)
            for pass_name in result["derived"]["passes"]:
                difference = pace_beside(result, other, pass_name, by)
                if difference is not None:
                    judged.append(_Judgement(result, pass_name, difference))
                    self._note(result, pass_name, difference.summary)
                    self._note(other, pass_name)
        return judged

    def _beside_earlier(self, run: Run, mine: Sequence[DerivedResult], earlier: Run, by: float) -> list[_Judgement]:
        """An implementation now and in an earlier run."""
        __tracebackhide__ = True
        before, now = (
            Side(name, [cast("Record", of.record)]) for name, of in (("the baseline", earlier), ("this run", run))
        )
        if len({*before.devices, *now.devices}) > 1:
            here, there = (" and ".join(side.devices) for side in (now, before))
            pytest.skip(f"the baseline is from another machine, {there}; this is {here}: its times tell nothing here")
        try:
            comparison = compare(before, now)
        except UserError as error:  # it has nothing in common with this run, for example: such a baseline tells nothing
            pytest.skip(error.message)
        judged = []
        for result in mine:
            for pass_name, difference in paces_since(comparison, result, by):
                judged.append(_Judgement(result, pass_name, difference, [f"note: {w}" for w in comparison.warnings]))
                self._note(result, pass_name, difference.summary)
        return judged

    def _earlier_run(self, baseline: str | Path | Run | None) -> Run | None:
        """The run to compare the next measurement with; None where that is only kept, as the first of them."""
        __tracebackhide__ = True
        refused: UserError | None = None
        try:
            return self._kept.earlier(baseline, self._number + 1)
        except NoBaseline as reason:
            pytest.skip(str(reason))
        except UserError as error:
            refused = error
        return fail([f"klab.assert_not_slower: {refused.message}"])  # outside of the handler: the sentence alone

    # Measuring -----------------------------------------------------------------------------------------

    def _time(self, target: Target, settings: Mapping[str, object], dims: Mapping[str, object]) -> Run:
        __tracebackhide__ = True
        return self._execute("run", target, {**settings, "only-times": True}, dims)

    def _execute(
        self, verb: Literal["run", "check"], target: Target, settings: Mapping[str, object], dims: Mapping[str, object]
    ) -> Run:
        __tracebackhide__ = True
        device = settings.get("device") or self._device
        if str(device).startswith("cuda") and not has_gpu():
            pytest.skip(f"{device}: there is no NVIDIA GPU here")
        self._number += 1
        refused: UserError | None = None
        try:
            self._kept.prepare()
        except UserError as error:
            refused = error
        if refused is not None:  # outside of the handler, so that pytest shows the sentence alone
            fail([refused.message])
        folder = self._folders.mktemp("klab") / self._kept.name(self._number)
        options = {**settings, "device": device, "out": folder}
        try:
            run = execute(verb, [self._beside_test(target)], options, dims, progress=False, template=self._template)
            run = self._kept.keep(run, self._number)
        except UserError as error:
            refused = error
        if refused is not None:  # outside of the handler, so that pytest shows the sentence alone
            fail([f"klab {verb}: {refused.message}", *filter(None, [refused.detail])])
        return run

    def _beside_test(self, target: Target) -> Target:
        """An op file that is not in the current folder is looked for beside the test."""
        if not isinstance(target, str):
            return target
        path, colon, op = target.partition(":")
        beside = self._test.path.parent / path
        is_beside = path.endswith(".py") and not Path(path).is_file() and beside.is_file()
        return f"{beside}{colon}{op}" if is_beside else target

    def _note(self, result: DerivedResult, pass_name: str | None = None, compared: str = "") -> None:
        """Adds a result to the table after the tests."""
        for name in [pass_name] if pass_name else result["derived"]["passes"]:
            row = time_row(result, name, compared)
            if row is not None:
                self._rows.append(row)


def _subject(result: DerivedResult, pass_name: str) -> str:
    return f"{result['op']} {numbers.case_label(result['case'])}, {pass_name}"


def _of_impl(group: Iterable[DerivedResult], impl: str) -> DerivedResult:
    __tracebackhide__ = True
    result = next((result for result in group if result["impl"] == impl), None)
    if result is None:
        fail([f"klab.assert_not_slower: {impl!r} must name one implementation, without * or commas"])
    return result


def _skip_unless_timed(result: DerivedResult) -> None:
    __tracebackhide__ = True
    derived = result["derived"]
    if derived["status"] == "skipped":
        pytest.skip(f"{result['impl']}: {derived['reason']}")
    if derived["time"] is None:
        reason = derived["timing"]["reason"] if derived["timing"] else "it was not timed"
        pytest.skip(f"{result['impl']}: {reason}")


def _reasons(
    mine: Sequence[DerivedResult], judged: Sequence[_Judgement], earlier: Run | None, than: str | None
) -> list[str]:
    """Why what was timed was not compared: a sentence for each case and pass."""
    compared = {(id(judgement.result), judgement.pass_name) for judgement in judged}
    return [
        f"{_subject(result, pass_name)}: {why_not_compared(result, earlier, than)}"
        for result in mine
        for pass_name, passed in result["derived"]["passes"].items()
        if passed["time"] is not None and (id(result), pass_name) not in compared
    ]
