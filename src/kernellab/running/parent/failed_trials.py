"""Failed trials, stored so that the next run tries them first: a few per implementation, the newest first."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import cast

from kernellab.base import shape
from kernellab.base.paths import cache_dir, file_name, replace_file
from kernellab.record.schema import TrialJson, TrialOutcome
from kernellab.record.statuses import RIGHT

KEPT = 10  # for each implementation
FAILED = ("wrong", "error", "crashed", "timeout")
_PASSED = (*RIGHT, "outside")


class FailedTrials:
    """The failed trials of one op of one file."""

    def __init__(self, op: str, file: str) -> None:
        self._op, self._file = op, str(Path(file).resolve())

    def read(self, impl: str) -> list[TrialJson]:
        try:
            trials = json.loads(self._path(impl).read_text())
        except (OSError, ValueError):
            return []
        return cast("list[TrialJson]", trials) if shape.difference(trials, list[TrialJson]) is None else []

    def matching(self, impl: str, *, device: str, dtypes: Sequence[str]) -> list[TrialJson]:
        """The stored trials for a device and the requested dtypes; no dtypes: all."""
        return [
            {**trial, "kind": "stored"}
            for trial in self.read(impl)
            if trial["case"]["device"] == device and (not dtypes or trial["case"]["dtype"] in dtypes)
        ]

    def update(self, impl: str, outcomes: Sequence[TrialOutcome]) -> None:
        """Store trials that failed, a trial of the search first; delete trials that pass now."""
        failed = [outcome["trial"] for outcome in outcomes if outcome["status"] in FAILED]
        first_of_kind = {trial["kind"]: trial for trial in reversed(failed)}
        from_search = [first_of_kind.pop("search")] if "search" in first_of_kind else []
        first_of_kind.pop("stored", None)
        stored = [trial for trial in failed if trial["kind"] == "stored"]
        passed = {_identity(outcome["trial"]) for outcome in outcomes if outcome["status"] in _PASSED}
        before = self.read(impl)
        kept: dict[str, TrialJson] = {}
        for trial in [*from_search, *first_of_kind.values(), *stored, *before]:
            if _identity(trial) not in passed:
                kept.setdefault(_identity(trial), _without_label(trial))
        trials = list(kept.values())[:KEPT]
        if trials != before:
            self._write(impl, trials)

    def _write(self, impl: str, trials: list[TrialJson]) -> None:
        if trials:
            replace_file(self._path(impl), json.dumps(trials, indent=1).encode())
        else:
            self._path(impl).unlink(missing_ok=True)

    def _path(self, impl: str) -> Path:
        key = hashlib.sha256("\0".join((self._file, self._op, impl)).encode()).hexdigest()[:12]
        return cache_dir("failures") / f"{file_name(self._op)}-{file_name(impl)}-{key}.json"


def _without_label(trial: TrialJson) -> TrialJson:
    trial = {**trial}
    trial.pop("label", None)
    return trial


def _identity(trial: TrialJson) -> str:
    return json.dumps({k: v for k, v in trial.items() if k not in ("kind", "label")}, sort_keys=True)
