"""Failures of tests in words: what is wrong, a few of the failed trials, and how to reproduce them."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence
from typing import NoReturn

import pytest

from kernellab.api.run import Run
from kernellab.base.text import printable_lines
from kernellab.record import batteries, statuses

_MOST_TRIALS = 5  # that a failure lists of each implementation


def fail(lines: Iterable[str]) -> NoReturn:
    """Fail the test with these lines alone."""
    __tracebackhide__ = True
    pytest.fail(printable_lines("\n".join(lines)), pytrace=False)


def fail_unless_right(run: Run) -> None:
    """Fail where an implementation is not right; skip where none could run."""
    __tracebackhide__ = True
    if run.exit_code == 0:
        return
    reasons = {(r["op"], r["impl"], r["derived"]["status"]): r["derived"]["reason"] for r in run.results}
    if all(status == "skipped" for _, _, status in reasons):
        pytest.skip("; ".join(f"{impl}: {reason}" for (_, impl, _), reason in reasons.items()) or "nothing to check")
    bad = {key: reason for key, reason in reasons.items() if key[2] in statuses.FAILED | {statuses.UNKNOWN}}
    named = [
        f"{op} {impl}: {'cannot tell' if status == statuses.UNKNOWN else status}: {reason}"
        for (op, impl, status), reason in bad.items()
    ]
    failed = [summary for summary in run.record["batteries"] if summary["failures"]]
    trials = [line for summary in failed for line in batteries.sentences(summary, most=_MOST_TRIALS)]
    fail([*named, *trials, *how_to_reproduce(run)])


def how_to_reproduce(run: Run) -> Sequence[str]:
    """The command, without the folder of its record, the scripts of failed trials, and the record."""
    words = [word for word in run.record["command"] if not word.startswith("--out=")]
    scripts = [search["file"] for search in run.record["searches"] if search.get("file")]
    return [
        f"reproduce: {shlex.join(words)}",
        *(f"script: {run.folder / script}" for script in scripts),
        f"record: {run.folder}",
    ]
