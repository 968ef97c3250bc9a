"""The fixture `klab`: `check`, `assert_not_slower` and `run`, each in processes of its own."""

from __future__ import annotations

import hashlib
import shlex
import shutil
import warnings
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Literal, NoReturn

import pytest

from kernellab.api.command_words import Target
from kernellab.api.run import Names, Run, Sizes, execute
from kernellab.base.errors import UserError
from kernellab.base.paths import file_name
from kernellab.base.text import printable_lines
from kernellab.machine.tools import has_gpu
from kernellab.record import batteries, statuses, verdict
from kernellab.record.derived import DerivedResult
from kernellab.reporting.text import numbers
from kernellab.running.processes.worker_template import WorkerTemplate
from kernellab.testing.pace import pace
from kernellab.testing.times import TimeRow, time_row

_MOST_TRIALS = 5  # that a failure lists of each implementation


class KlabWarning(UserWarning):
    """Something that a test should know and that does not fail it."""


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
        save = request.config.getoption("--klab-save")
        self._save = Path(save).resolve() if save else None
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
        self._fail_unless_right(run, run.results)
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
        self._fail_unless_right(run, run.results)
        for result in run.results:
            self._note(result)
        return run

    def assert_not_slower(
        self,
        target: Target,
        impl: str,
        *,
        than: str,
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
        """Fail where `impl` is certainly slower than the implementation `than`, by more than `by` (0.02 is 2 %).

        Both are timed in the same rounds. Where the rounds do not tell, a warning says so. Skips where one of the two
        cannot run here.
        """
        __tracebackhide__ = True
        if by < 0:
            pytest.fail(f"klab.assert_not_slower: by={by:g} must not be negative", pytrace=False)
        settings = {
            "impl": [impl, than],
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
        self._fail_unless_right(run, run.results)
        slower, unresolved = [], []
        for group in verdict.groups(run.results):
            mine, other = (_of_impl(group, name) for name in (impl, than))
            for result in (mine, other):
                _skip_unless_timed(result)
            for pass_name in mine["derived"]["passes"]:
                difference = pace(mine, other, pass_name, by)
                if difference is None:
                    continue
                self._note(mine, pass_name, difference.summary)
                self._note(other, pass_name)
                where = f"{mine['op']} {numbers.case_label(mine['case'])}, {pass_name}: {difference.sentence}"
                if difference.verdict == "slower":
                    slower.append(where)
                elif difference.verdict == "not resolved":
                    unresolved.append(where)
        if slower:
            _fail([*slower, *_how_to_reproduce(run)])
        for sentence in unresolved:
            remedy = "cannot tell with these rounds: rounds= or seconds= times more of them"
            warnings.warn(KlabWarning(f"{sentence}: {remedy}"), stacklevel=2)
        return run

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
        name = self._name()
        folder = self._folders.mktemp("klab") / name
        options = {**settings, "device": device, "out": folder}
        refused: UserError | None = None
        try:
            run = execute(verb, [self._beside_test(target)], options, dims, progress=False, template=self._template)
        except UserError as error:
            refused = error
        if refused is not None:  # outside of the handler, so that pytest shows the sentence alone
            _fail([f"klab {verb}: {refused.message}", *filter(None, [refused.detail])])
        if self._save is not None:
            run = Run(run.record, _keep(folder, self._save / name))
        return run

    def _name(self) -> str:
        """The folder of a measurement: the same for the same test in every run of the tests."""
        self._number += 1
        digest = hashlib.sha256(self._test.nodeid.encode()).hexdigest()[:6]
        return f"{file_name(self._test.nodeid)[-80:].strip('-')}-{digest}-{self._number}"

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

    # Judging -------------------------------------------------------------------------------------------

    def _fail_unless_right(self, run: Run, results: Sequence[DerivedResult]) -> None:
        __tracebackhide__ = True
        if run.exit_code == 0:
            return
        found = {(r["op"], r["impl"], r["derived"]["status"]): r["derived"]["reason"] for r in results}
        bad = {key: reason for key, reason in found.items() if key[2] in statuses.FAILED | {statuses.UNKNOWN}}
        if not bad and all(status == "skipped" for _, _, status in found):
            pytest.skip("; ".join(f"{impl}: {reason}" for (_, impl, _), reason in found.items()) or "nothing to check")
        names = [
            f"{op} {impl}: {'cannot tell' if status == statuses.UNKNOWN else status}: {reason}"
            for (op, impl, status), reason in bad.items()
        ]
        failures = [summary for summary in run.record["batteries"] if summary["failures"]]
        details = [line for summary in failures for line in batteries.sentences(summary, most=_MOST_TRIALS)]
        _fail([*names, *details, *_how_to_reproduce(run)])


def _of_impl(group: Iterable[DerivedResult], impl: str) -> DerivedResult:
    __tracebackhide__ = True
    result = next((result for result in group if result["impl"] == impl), None)
    if result is None:
        _fail([f"klab.assert_not_slower: {impl!r} must name one implementation, without * or commas"])
    return result


def _skip_unless_timed(result: DerivedResult) -> None:
    __tracebackhide__ = True
    derived = result["derived"]
    if derived["status"] == "skipped":
        pytest.skip(f"{result['impl']}: {derived['reason']}")
    if derived["time"] is None:
        reason = derived["timing"]["reason"] if derived["timing"] else "it was not timed"
        pytest.skip(f"{result['impl']}: {reason}")


def _how_to_reproduce(run: Run) -> list[str]:
    """The command, without the folder of its record, the scripts of failed trials, and the record."""
    words = [word for word in run.record["command"] if not word.startswith("--out=")]
    lines = [f"reproduce: {shlex.join(words)}"]
    scripts = [search["file"] for search in run.record["searches"] if search.get("file")]
    lines += [f"script: {run.folder / script}" for script in scripts]
    return [*lines, f"record: {run.folder}"]


def _fail(lines: Iterable[str]) -> NoReturn:
    __tracebackhide__ = True
    pytest.fail(printable_lines("\n".join(lines)), pytrace=False)


def _keep(folder: Path, place: Path) -> Path:
    """Copies a run to its place, where an earlier one may be."""
    scratch = place.with_name(f".{place.name}")
    for old in (scratch, place):
        if old.exists():
            shutil.rmtree(old)
    shutil.copytree(folder, scratch)
    scratch.rename(place)
    return place
