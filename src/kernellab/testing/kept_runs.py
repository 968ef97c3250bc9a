"""Records that tests keep, and earlier ones that they compare with: a folder for each measurement of each test."""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from pathlib import Path

from kernellab.api.run import Run, load
from kernellab.base.errors import UserError
from kernellab.base.paths import file_name
from kernellab.record.journal import JOURNAL, RUN

_LONGEST_NAME = 80  # characters of a test's name in that of its folder


class NoBaseline(Exception):
    """There is nothing to compare with, and why."""


class KeptRuns:
    """The folders of one test. `save`: where its runs are kept; `baseline`: where those of earlier runs are."""

    def __init__(self, test: str, save: str | None, baseline: str | None) -> None:
        self._test = test
        self._save, self._baseline = (Path(place).resolve() if place else None for place in (save, baseline))

    def name(self, number: int) -> str:
        """The folder of the test's measurement of this number: the same in every run of the tests."""
        digest = hashlib.sha256(self._test.encode()).hexdigest()[:6]
        return f"{file_name(self._test)[-_LONGEST_NAME:].strip('-')}-{digest}-{number}"

    def prepare(self) -> None:
        """Raise UserError if nothing can be kept: before anything is measured."""
        if self._save is not None:
            try:
                self._save.mkdir(parents=True, exist_ok=True)
                tempfile.TemporaryFile(dir=self._save).close()
            except OSError as error:
                raise _cannot_keep(self._save, error) from None

    def keep(self, run: Run, number: int) -> Run:
        """The run in the place where it is kept, in which an earlier one may be; the same run where none is kept."""
        if self._save is None:
            return run
        place = self._save / self.name(number)
        scratch = place.with_name(f".{place.name}")
        try:
            for old in (scratch, place):
                if old.exists():
                    shutil.rmtree(old)
            shutil.copytree(run.folder, scratch)
            scratch.rename(place)
        except (OSError, shutil.Error) as error:
            raise _cannot_keep(self._save, error) from None
        return Run(run.record, place)

    def earlier(self, baseline: str | Path | Run | None, number: int) -> Run | None:
        """The run to compare with; None where this one is only kept, as the first of them.

        Raises NoBaseline where there is none yet, UserError where a baseline was named that is none.
        """
        if isinstance(baseline, Run):
            return baseline
        if baseline is not None and not isinstance(baseline, str | os.PathLike):
            raise UserError(f"baseline={baseline!r} must be a folder, or a run: kl.load(folder)")
        path = Path(baseline) if baseline is not None else self._baseline
        if path is None:
            if self._save is not None:
                return None
            raise NoBaseline("no baseline: --klab-save DIR keeps this run as one, --klab-baseline DIR compares with it")
        if not path.exists():  # were this skipped, a misspelt name would turn the comparison off
            raise UserError(f"no baseline: there is no folder {path}. --klab-save {path} makes it")
        if path.is_file() or any((path / name).exists() for name in (JOURNAL, RUN)):
            return load(path)
        place = path / self.name(number)
        if not place.exists():
            raise NoBaseline(f"no baseline of this test in {path}: --klab-save keeps one")
        return load(place)


def _cannot_keep(folder: Path, error: Exception) -> UserError:
    reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return UserError(f"--klab-save {folder} cannot be written: {reason}. Name another folder")
