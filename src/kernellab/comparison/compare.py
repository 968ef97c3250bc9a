"""Compares two sides, before and after: pairs of times with verdicts, changed statuses, and what to be warned of."""

from __future__ import annotations

import json
import statistics
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from kernellab.base.errors import UserError
from kernellab.comparison.differences import find_warnings
from kernellab.comparison.estimate import Estimate, RunTime, estimate, run_time, typical_us
from kernellab.comparison.pairs import Pair, ResultKey, SeriesKey, judge
from kernellab.comparison.rerun import Rerun
from kernellab.comparison.run_variation import (
    RunVariation,
    known_variation,
    larger,
    variation_elsewhere,
    with_own_scatter,
)
from kernellab.comparison.side import Side, refuse_empty
from kernellab.comparison.statuses import SideStatus, StatusChange, status_change, worst_status
from kernellab.machine.variation import Variation, load_variation, published_variation
from kernellab.record.derived import DerivedResult, PassVerdict
from kernellab.record.schema import TimeSeries
from kernellab.record.verdict import main_series
from kernellab.stats.intervals import PRECISION

__all__ = ["PRECISION", "Comparison", "Side", "compare"]

_MOST_OPS = 5  # in a message

LoadVariation = Callable[[str], Variation | None]


@dataclass(frozen=True)
class Comparison:
    """Everything that was compared. Pairs are in the order of the runs after."""

    before: Side
    after: Side
    precision: float
    pairs: Sequence[Pair]
    changes: Sequence[StatusChange]
    untimed: Sequence[ResultKey]  # right on both sides, and timed before alone or in another way
    only_before: Sequence[ResultKey]
    only_after: Sequence[ResultKey]
    warnings: Sequence[str]
    measured: Sequence[Variation]  # how much times vary from run to run, where it is known
    rerun: Rerun | None = None

    def with_verdict(self, verdict: str) -> list[Pair]:
        return [pair for pair in self.pairs if pair.verdict == verdict]

    def changes_with(self, verdict: str) -> list[StatusChange]:
        return [change for change in self.changes if change.verdict == verdict]

    @property
    def exit_code(self) -> int:
        """1 if something is slower or worse, else 3 if something is not resolved or cannot be told, else 0."""
        if self.with_verdict("slower") or self.changes_with("worse"):
            return 1
        return 3 if self.with_verdict("not resolved") or self.changes_with("cannot tell") else 0

    def with_pairs(self, pairs: Sequence[Pair], rerun: Rerun) -> Comparison:
        """The same comparison after pairs were measured again: these replace those of the same time."""
        again = {series_id(pair.key): pair for pair in pairs}
        return replace(self, pairs=[again.get(series_id(pair.key), pair) for pair in self.pairs], rerun=rerun)


def compare(
    before: Side,
    after: Side,
    *,
    precision: float = PRECISION,
    across_machines: bool = False,
    load: LoadVariation = load_variation,
) -> Comparison:
    """Pair the results of two sides and judge each pair.

    `load` tells how much times vary from run to run on a class of machine. Two sides from different machines are
    refused unless `across_machines` allows it: their times say nothing about the code.
    """
    for side in (before, after):
        refuse_empty(side)
    if not across_machines:
        _refuse_different_machines(before, after)
    results_before, results_after = _by_key(before), _by_key(after)
    common = [key for key in results_after if key in results_before]
    if not common:
        ops = " and ".join(f"{_ops(results)}" for results in (results_before, results_after))
        raise UserError(
            f"{before.name} and {after.name} have no result in common, their ops are {ops}: "
            "compare runs of the same op and cases"
        )
    same_checks = before.checks == after.checks
    known = _Known(before, after, load)
    candidates: list[_Candidate] = []
    changes: list[StatusChange] = []
    untimed: list[ResultKey] = []
    for key in common:
        sides = (results_before[key], results_after[key])
        statuses = [_status(results, same_checks=same_checks) for results in sides]
        change = status_change(_key(sides[1][0]), *statuses)
        if change is not None:
            changes.append(change)
        if all(status.is_right for status in statuses):
            of_result = _candidates(*sides, known)
            candidates += of_result
            if not of_result and _times(sides[0]):
                untimed.append(_key(sides[1][0]))
    verdicts = judge([candidate.estimate for candidate in candidates], precision)
    pairs = [
        replace(c.pair, verdict=v.verdict, low=v.low, high=v.high, reason=v.reason)
        for c, v in zip(candidates, verdicts, strict=True)
    ]
    return Comparison(
        before=before,
        after=after,
        precision=precision,
        pairs=pairs,
        changes=changes,
        untimed=untimed,
        only_before=[_key(results[0]) for key, results in results_before.items() if key not in results_after],
        only_after=[_key(results[0]) for key, results in results_after.items() if key not in results_before],
        warnings=find_warnings(before, after, pairs),
        measured=known.measured,
    )


def result_id(key: ResultKey) -> str:
    """An identity that does not depend on the order of dims and options."""
    return json.dumps([key.op, key.impl, key.case], sort_keys=True)


def series_id(key: SeriesKey) -> str:
    return json.dumps([result_id(key.result), key.pass_name, key.timer, key.cache])


def _refuse_different_machines(before: Side, after: Side) -> None:
    devices = list(dict.fromkeys([*before.devices, *after.devices]))
    if len(devices) > 1:
        where = "; ".join(f"{side.name} on {' and '.join(side.devices)}" for side in (before, after))
        raise UserError(
            f"the runs are from different machines ({where}): a difference between them says nothing about the code. "
            "Compare runs of one machine, or add --across-machines"
        )


def _by_key(side: Side) -> dict[str, list[DerivedResult]]:
    """The results of a side: for each the runs that have it."""
    results: dict[str, list[DerivedResult]] = {}
    for record in side.derived:
        for result in record["results"]:
            results.setdefault(result_id(_key(result)), []).append(result)
    return results


def _key(result: DerivedResult) -> ResultKey:
    return ResultKey(result["op"], result["impl"], result["case"])


def _ops(results: dict[str, list[DerivedResult]]) -> str:
    ops = sorted({result["op"] for group in results.values() for result in group})
    return f"{', '.join(ops[:_MOST_OPS]) or 'none'}{', …' if len(ops) > _MOST_OPS else ''}"


def _status(results: Sequence[DerivedResult], *, same_checks: bool) -> SideStatus:
    """The worst status in the runs of a side. Where only one side was tried beyond its cases, those alone count."""
    statuses = []
    for result in results:
        derived = result["derived"]
        source = derived if same_checks else derived["at_case"]
        statuses.append(SideStatus(source["status"], source["reason"]))
    worst = statuses[0]
    for status in statuses[1:]:
        worst = worst_status(worst, status)
    return worst


# Pairs of times ----------------------------------------------------------------------------------------


class _Known:
    """What is known of the variation from run to run, on the machines of both sides."""

    def __init__(self, before: Side, after: Side, load: LoadVariation) -> None:
        by_class = {name: load(name) for name in (*before.machine_classes, *after.machine_classes)}
        self.measured = [variation for variation in by_class.values() if variation is not None]
        # A class includes the driver. After a change of driver, what was measured with the other one is better than
        # an assumption.
        same_device = before.devices == after.devices
        fallback = self.measured[-1] if self.measured and same_device else None
        self._sides = [[by_class[name] or fallback for name in side.machine_classes] for side in (before, after)]
        self._published = published_variation(before.devices[0]) if same_device else None

    def variation(self, times: Sequence[Sequence[RunTime]], timer: str | None, cache: str | None) -> RunVariation:
        """The variation of a time on both sides: the larger one."""
        found = [
            known_variation(measured, timer, cache, typical_us(side_times))
            if measured is not None
            else variation_elsewhere(self._published, timer, cache, typical_us(side_times))
            for measured_of_side, side_times in zip(self._sides, times, strict=True)
            for measured in measured_of_side
        ]
        most = found[0]
        for variation in found[1:]:
            most = larger(most, variation)
        return with_own_scatter(most, [[time.logarithm for time in side_times] for side_times in times])


@dataclass(frozen=True)
class _Candidate:
    """A pair before all pairs are judged together."""

    pair: Pair
    estimate: Estimate | None


def _candidates(before: Sequence[DerivedResult], after: Sequence[DerivedResult], known: _Known) -> list[_Candidate]:
    """One for every time that both sides have."""
    times = [_times(results) for results in (before, after)]
    candidates = []
    for series, times_after in times[1].items():
        times_before = times[0].get(series)
        if times_before is None:
            continue
        pass_name, timer, cache = series
        variation = known.variation((times_before, times_after), timer, cache)
        before_us, after_us = typical_us(times_before), typical_us(times_after)
        pair = Pair(
            key=SeriesKey(_key(after[0]), pass_name, timer, cache),
            before_us=before_us,
            after_us=after_us,
            ratio=after_us / before_us,
            low=None,
            high=None,
            verdict="not resolved",
            reason="",
            variation=variation,
            trust_before=_trust(before, series),
            trust_after=_trust(after, series),
            tuned_differently=_tuned(before) != _tuned(after),
            clock_before_mhz=_clock_mhz(before, series),
            clock_after_mhz=_clock_mhz(after, series),
        )
        candidates.append(_Candidate(pair, estimate(times_before, times_after, variation)))
    return candidates


def _tuned(results: Sequence[DerivedResult]) -> set[str]:
    """What autotuners chose in the runs of a side."""
    choices = [choice for result in results if result["built"] for choice in result["built"]["tuned"]]
    return {json.dumps([choice["kernel"], choice["config"]], sort_keys=True) for choice in choices}


_Series = tuple[str, str | None, str | None]


def _times(results: Sequence[DerivedResult]) -> dict[_Series, list[RunTime]]:
    """The times of one result in the runs of a side, by series."""
    times: dict[_Series, list[RunTime]] = {}
    for result in results:
        for series in result["times"]:
            time = run_time(series) if series["status"] in ("ok", "partial") else None
            if time is not None:
                times.setdefault(_series(series), []).append(time)
    return times


def _series(series: TimeSeries) -> _Series:
    return series["pass"], series["timer"], series["cache"]


def _main_verdicts(results: Sequence[DerivedResult], series: _Series) -> Iterator[PassVerdict]:
    """The verdicts on a series in the runs of a side; none where it is not the main one, which alone is judged."""
    for result in results:
        verdict = result["derived"]["passes"].get(series[0])
        main = main_series([result], series[0])
        if verdict and (main["timer"], main["cache"]) == series[1:]:
            yield verdict


def _clock_mhz(results: Sequence[DerivedResult], series: _Series) -> float | None:
    """The clock of the GPU while a series was timed, the median over the runs of a side."""
    powers = [verdict["power"] for verdict in _main_verdicts(results, series)]
    clocks = [power["clock_mhz"] for power in powers if power is not None and power["clock_mhz"] is not None]
    return statistics.median(clocks) if clocks else None


def _trust(results: Sequence[DerivedResult], series: _Series) -> str:
    """`trusted`, or the reasons against any run; empty where it was not judged."""
    names: list[str] = []
    for verdict in _main_verdicts(results, series):
        if verdict["trust"]:
            names += verdict["trust"]["verdict"].split(", ")
    reasons = [name for name in dict.fromkeys(names) if name != "trusted"]
    return ", ".join(reasons) or ("trusted" if names else "")
