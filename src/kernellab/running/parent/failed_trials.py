"""Trials that failed, kept so that the next run tries them first: a few for each way, the newest first."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from kernellab.base.paths import cache_dir, file_name, replace_file

KEPT = 10  # for each way
FAILED = ("wrong", "error", "crashed", "timeout")
_DECIDED = ("ok", "outside")

Stored = dict[str, Any]  # a trial as JSON


class Failures:
    """Those of one op of one file."""

    def __init__(self, op: str, file: str) -> None:
        self._op, self._file = op, str(Path(file).resolve())

    def of(self, way: str) -> list[Stored]:
        try:
            found = json.loads(self._path(way).read_text())
        except (OSError, ValueError):
            return []
        return found if isinstance(found, list) and all(isinstance(one, dict) for one in found) else []

    def fitting(self, way: str, *, device: str, dtypes: Sequence[str]) -> list[Stored]:
        """Those of a device, of dtypes that were asked for."""
        return [
            {**one, "kind": "stored"}
            for one in self.of(way)
            if one["case"]["device"] == device and (not dtypes or one["case"]["dtype"] in dtypes)
        ]

    def learn(self, way: str, trials: Sequence[Mapping[str, Any]]) -> None:
        """Keep what failed, what was found by search before all else; forget what passes now."""
        failed = [t["trial"] for t in trials if t["status"] in FAILED]
        by_kind = {trial["kind"]: trial for trial in reversed(failed)}  # of the battery, the first of each kind
        newest = [by_kind.pop(kind) for kind in ("search",) if kind in by_kind]
        still = [trial for trial in failed if trial["kind"] == "stored"]
        by_kind.pop("stored", None)
        passed = {_identity(t["trial"]) for t in trials if t["status"] in _DECIDED}
        before = self.of(way)
        kept: dict[str, Stored] = {}
        for trial in [*newest, *by_kind.values(), *still, *before]:
            if _identity(trial) not in passed:
                kept.setdefault(_identity(trial), {k: v for k, v in trial.items() if k != "label"})
        wanted = list(kept.values())[:KEPT]
        if wanted != before:
            self._write(way, wanted)

    def _write(self, way: str, trials: list[Stored]) -> None:
        if trials:
            replace_file(self._path(way), json.dumps(trials, indent=1).encode())
        else:
            self._path(way).unlink(missing_ok=True)

    def _path(self, way: str) -> Path:
        key = hashlib.sha256("\0".join((self._file, self._op, way)).encode()).hexdigest()[:12]
        return cache_dir("failures") / f"{file_name(self._op)}-{file_name(way)}-{key}.json"


def _identity(trial: Mapping[str, Any]) -> str:
    return json.dumps({k: v for k, v in trial.items() if k not in ("kind", "label")}, sort_keys=True)
