"""The run of a branch or commit that another run is compared with."""

from __future__ import annotations

import re
from pathlib import Path

from kernellab.base.errors import UserError
from kernellab.base.text import plural, printable
from kernellab.history.digest import COMPLETE, DIRTY, RunDigest, digest
from kernellab.history.index import Index
from kernellab.history.queries import IndexedRun, all_runs, timed_in

_SHORTEST_COMMIT = 4  # characters of a commit's name


def baseline_run(name: str, like: Path, runs: Path) -> Path:
    """The folder of the run to compare the run `like` with: one of the branch or commit `name`, below `runs`.

    Candidates are complete runs, made on a clean commit, on the same class of machine as `like`, that timed something
    that `like` timed too: the same implementation of the same op at the same case. `like` itself is none. Of those, the
    run of the newest commit is taken, and of several runs of that commit the last one. `name` is a branch, or the first
    four or more characters of a commit; a branch goes first. A UserError says what there is instead.
    """
    with Index(runs) as index:
        index.refresh()
        entries = [run for run in all_runs(index) if run.folder != _folder(like).resolve()]
        mine = digest(_folder(like))
        if mine.problem:
            raise UserError(mine.problem)
        named = _named(name, entries)
        if not named:
            raise UserError(f"no run of the branch or commit {name!r} in {runs}: {_branches(entries)}")
        usable = [run for run in named if run.state == COMPLETE and not (run.commit or "").endswith(DIRTY)]
        if not usable:
            raise UserError(
                f"{plural(len(named), 'run')} of {name!r} in {runs}, but none is complete and of a clean commit:"
                " commit, and run klab again"
            )
        alike = [run for run in usable if run.machine == mine.machine]
        if not alike:
            machines = ", ".join(sorted({printable(run.machine or "unknown", 80) for run in usable}))
            raise UserError(f"the runs of {name!r} are of other machines than {mine.machine}: {machines}")
        for run in sorted(alike, key=lambda run: (run.position, run.time), reverse=True):
            if _timed(mine) & timed_in(index, run):
                return run.folder
        raise UserError(f"no run of {name!r} timed an implementation, op and case that {like} timed")


def _folder(path: Path) -> Path:
    return path if path.is_dir() else path.parent


def _named(name: str, runs: list[IndexedRun]) -> list[IndexedRun]:
    of_branch = [run for run in runs if run.branch == name]
    if of_branch or not re.fullmatch(rf"[0-9a-f]{{{_SHORTEST_COMMIT},64}}", name):
        return of_branch
    return [run for run in runs if run.commit is not None and run.commit.startswith(name)]


def _branches(runs: list[IndexedRun]) -> str:
    names = sorted({printable(run.branch, 60) for run in runs if run.branch})
    return f"its runs are of {', '.join(names[:10])}" if names else "its runs know no branch"


def _timed(run: RunDigest) -> set[tuple[str, str, str]]:
    return {(line.op, line.impl, line.case) for line in run.measurements if line.median_us is not None}
