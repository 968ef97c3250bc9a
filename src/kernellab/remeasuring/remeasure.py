"""Measures unresolved pairs again, block by block: one process of each version, in random order."""

from __future__ import annotations

import math
import random
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from kernellab.base.text import plural, printable
from kernellab.comparison.compare import Comparison, series_id
from kernellab.comparison.estimate import Estimate, RunTime, run_time
from kernellab.comparison.pairs import ERROR, Pair, SeriesKey, Verdict, judge
from kernellab.comparison.rerun import Rerun
from kernellab.comparison.side import Side
from kernellab.record import statuses
from kernellab.record.schema import Record
from kernellab.record.verdict import derive
from kernellab.remeasuring.batches import Batch, make_batches
from kernellab.remeasuring.code import Code
from kernellab.remeasuring.looks import estimate_from_blocks, plan_looks
from kernellab.remeasuring.process import MeasurementFailed, measure

_MOST_FAILURES = 2  # of a time, before it is given up
_LONGEST_REASON = 300

Measure = Callable[[Sequence[Code], Batch, Path], Record]  # of the ops of a batch, into a folder


@dataclass(frozen=True)
class Versions:
    """The two versions of an op."""

    before: Code
    after: Code


@dataclass(frozen=True)
class Limits:
    """When to stop: after this many blocks, or before a block that would begin later than this."""

    blocks: int
    seconds: float


@dataclass
class _Progress:
    """What was measured of one pair: the logarithms of its times, one of each side for each block."""

    pair: Pair
    before: list[float] = field(default_factory=list)
    after: list[float] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    verdict: Verdict | None = None

    @property
    def differences(self) -> list[float]:
        return [after - before for before, after in zip(self.before, self.after, strict=True)]

    @property
    def is_open(self) -> bool:
        return self.verdict is None and len(self.failures) < _MOST_FAILURES

    def estimate(self) -> Estimate | None:
        return estimate_from_blocks(self.differences)


def remeasure(
    comparison: Comparison,
    versions: Mapping[str, Versions],
    limits: Limits,
    *,
    seed: int,
    seconds: float,
    folder: Path,
    say: Callable[[str], None],
    measure: Measure | None = None,
) -> Comparison:
    """The comparison with new verdicts on its unresolved pairs. `versions` has the code of every op among them.

    Ctrl-C ends the measurement, and what was measured is judged.
    """
    unresolved = [_Progress(pair) for pair in comparison.with_verdict("not resolved")]
    inputs = comparison.after.records[0]["seed"]
    session = _Session(unresolved, versions, folder, random.Random(seed), measure or _measure_with(inputs, seconds))
    looks = plan_looks(limits.blocks)
    level = ERROR / len(looks)
    deadline = time.monotonic() + limits.seconds
    interrupted = False
    try:
        for block in range(1, limits.blocks + 1):
            if time.monotonic() >= deadline or not session.has_open:
                break
            began = time.monotonic()
            session.measure_block(block)
            if block in looks:
                session.look(comparison.precision, level)
            took = time.monotonic() - began
            undecided = plural(sum(progress.is_open for progress in unresolved), "time")
            say(f"block {block} of at most {limits.blocks}: {took:.0f} s, {undecided} undecided")
    except KeyboardInterrupt:
        interrupted = True
    session.look(comparison.precision, level)
    rerun = Rerun(
        seed=seed,
        blocks=session.blocks,
        pairs=len(unresolved),
        before=[str(code.before) for code in versions.values()],
        after=[str(code.after) for code in versions.values()],
        devices=session.devices,
        interrupted=interrupted,
    )
    return comparison.with_pairs([session.judged(progress) for progress in unresolved], rerun)


def _measure_with(seed: int, seconds: float) -> Measure:
    return lambda codes, batch, folder: measure(codes, batch, folder, seed=seed, seconds=seconds)


class _Session:
    """All blocks of one measurement."""

    def __init__(
        self,
        unresolved: Sequence[_Progress],
        versions: Mapping[str, Versions],
        folder: Path,
        rng: random.Random,
        measure: Measure,
    ) -> None:
        self._all, self._versions, self._folder = unresolved, versions, folder
        self._rng, self._measure = rng, measure
        self._by_key = {series_id(progress.pair.key): progress for progress in unresolved}
        self._last: dict[str, Verdict] = {}
        self.blocks = 0
        self.devices: list[str] = []

    @property
    def has_open(self) -> bool:
        return any(progress.is_open for progress in self._all)

    def measure_block(self, block: int) -> None:
        """One process of each version for every batch. A time counts if both sides have it."""
        keys = [progress.pair.key for progress in self._all if progress.is_open]
        for number, batch in enumerate(make_batches(keys, self._place)):
            versions = [self._versions[op] for op in batch.ops]
            sides = [("before", [v.before for v in versions]), ("after", [v.after for v in versions])]
            self._rng.shuffle(sides)
            times: dict[str, dict[str, RunTime | str]] = {}
            for name, codes in sides:
                times[name] = self._times(codes, batch, self._folder / f"{block:03}-{number:02}-{name}")
            for key in batch.keys:
                self._note(key, times["before"][series_id(key)], times["after"][series_id(key)])
        self.blocks = block

    def _place(self, op: str) -> str:
        return f"{self._versions[op].before.place} {self._versions[op].after.place}"

    def _times(self, codes: Sequence[Code], batch: Batch, folder: Path) -> dict[str, RunTime | str]:
        """The time of each key, or why there is none."""
        try:
            record = self._measure(codes, batch, folder)
        except MeasurementFailed as failure:
            return {series_id(key): printable(str(failure), _LONGEST_REASON) for key in batch.keys}
        self.devices = list(dict.fromkeys([*self.devices, *Side("", [record]).devices]))
        return {series_id(key): _find_time(record, key) for key in batch.keys}

    def _note(self, key: SeriesKey, before: RunTime | str, after: RunTime | str) -> None:
        progress = self._by_key[series_id(key)]
        if isinstance(before, str) or isinstance(after, str):
            reasons = [
                f"{when}: {time}" for when, time in (("before", before), ("after", after)) if isinstance(time, str)
            ]
            progress.failures.append("; ".join(reasons))
            return
        progress.before.append(before.logarithm)
        progress.after.append(after.logarithm)

    def look(self, precision: float, error: float) -> None:
        """Judge all pairs together. What is resolved is measured no further, and stays as it was resolved."""
        verdicts = judge([progress.estimate() for progress in self._all], precision, error)
        for progress, verdict in zip(self._all, verdicts, strict=True):
            if progress.verdict is None and progress.estimate() is not None:
                self._last[series_id(progress.pair.key)] = verdict
                if verdict.verdict != "not resolved":
                    progress.verdict = verdict

    def judged(self, progress: _Progress) -> Pair:
        """The pair as it was measured here; as it was before where too little was measured."""
        pair = progress.pair
        verdict = progress.verdict or self._last.get(series_id(pair.key))
        if verdict is None:
            failure = progress.failures[-1] if progress.failures else "the time was up before two pairs of processes"
            return pair.unresolved(f"could not be measured again: {failure}")
        before_us, after_us = (math.exp(statistics.fmean(times)) for times in (progress.before, progress.after))
        return pair.measured_again(before_us, after_us, verdict, len(progress.before))


def _find_time(record: Record, key: SeriesKey) -> RunTime | str:
    """The time of a key in the record of a process, or why there is none."""
    wanted = (key.pass_name, key.timer, key.cache)
    for result in derive(record)["results"]:
        names = result["op"], result["impl"], result["case"]
        if names != (key.result.op, key.result.impl, key.result.case):
            continue
        status = result["derived"]["status"]
        if status not in statuses.RIGHT:
            return f"{status}: {result['derived']['reason']}"
        for series in result["times"]:
            if (series["pass"], series["timer"], series["cache"]) == wanted and series["samples_us"]:
                return run_time(series) or "its time is 0"
        return "it was not timed"
    return "this version does not have it"
