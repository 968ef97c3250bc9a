"""One implementation's samples in one series as verdicts read them: its time, its trust, its ratio to another one."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import TypeVar, cast

from kernellab.energy.documents import EnergyJson
from kernellab.record.derived import PowerJson, Speedup, TimeVerdict, TrustVerdict
from kernellab.record.result_events import is_series
from kernellab.record.schema import Result, SeriesJson, TimeSeries
from kernellab.stats import trust
from kernellab.stats.intervals import FEWEST, PRECISION, by_round, compare_ratio, level, median_interval, paired_ratios
from kernellab.stats.ratio_trust import RatioTrust, Side, judge_ratio

_Value = TypeVar("_Value")


@dataclass(frozen=True)
class TimedSeries:
    """`energy`: that of the same pass, which may have been measured beside another series."""

    impl: str
    device: str
    entry: TimeSeries
    energy: EnergyJson | None = None

    @cached_property
    def rounds_us(self) -> dict[int, float]:
        return by_round(self.entry["samples_us"], self.entry["rounds"])

    @cached_property
    def time(self) -> TimeVerdict:
        return time_of(self.entry)

    @cached_property
    def reasons(self) -> list[trust.Reason]:
        """Why its time is not trusted."""
        return trust.find_reasons(
            self.entry.get("telemetry"),
            list(self.rounds_us.values()),
            device=self.device,
            steady=self.entry.get("steady"),
            interval=(self.time["low_us"], self.time["high_us"]),
        )

    @property
    def trust(self) -> TrustVerdict:
        return {"verdict": trust.summarise(self.reasons), "reasons": self.reasons}

    @property
    def power(self) -> PowerJson | None:
        state = trust.power_state(self.entry.get("telemetry")) if self.device == "cuda" else None
        return None if state is None else cast(PowerJson, asdict(state))

    @cached_property
    def clock_mhz(self) -> float | None:
        """The GPU's clock while it ran: the median over rounds, or over all readings where rounds do not have it."""
        readings: Sequence[object] = list(self._clocks_mhz.values())
        readings = readings or (self.entry.get("telemetry") or {}).get("sm_mhz") or ()
        clocks = [float(mhz) for mhz in readings if isinstance(mhz, (int, float)) and mhz > 0]
        return statistics.median(clocks) if clocks else None

    def over(self, other: TimedSeries) -> Speedup | None:
        """How many times as fast it is as another, from the rounds both were in; None where there are none.

        What the state of the machine may explain is part of the interval.
        """
        ratios = paired_ratios(self.rounds_us, other.rounds_us)
        if not ratios:
            return None
        judged = self._judge_ratio(other)
        low, high = judged.widen(*median_interval(ratios, _error_level(self.entry)))
        verdict = compare_ratio(low, high, self.entry.get("precision") or PRECISION)
        return {
            "over": other.impl,
            "median": statistics.median(ratios),
            "low": low,
            "high": high,
            "verdict": verdict if len(ratios) >= FEWEST else "not resolved",
            "trust": {"verdict": trust.summarise(judged.reasons), "reasons": judged.reasons},
        }

    def saved_us(self, other: TimedSeries) -> tuple[float, float] | None:
        """The interval of the time that it saves over another, from the rounds both were in; None with too few of them.

        It is above 0 exactly where `over` says `faster`, and intervals of several passes can be added.
        """
        mine, theirs = self.rounds_us, other.rounds_us
        shared = [number for number in mine if number in theirs]
        if len(shared) < FEWEST:
            return None
        ends: list[float] = []
        for factor in self._judge_ratio(other).widen(1.0, 1.0):
            ends += median_interval([factor * theirs[n] - mine[n] for n in shared], _error_level(self.entry))
        return min(ends), max(ends)

    def _judge_ratio(self, other: TimedSeries) -> RatioTrust:
        return judge_ratio(self._side, other._side, device=self.device)

    @cached_property
    def _side(self) -> Side:
        before = self._in_rounds(self.entry.get("before"))
        return Side(self.impl, self.rounds_us, before, self._clocks_mhz, self.reasons)

    @cached_property
    def _clocks_mhz(self) -> dict[int, float]:
        clocks = self._in_rounds(self.entry.get("clocks_mhz"))
        return {number: mhz for number, mhz in clocks.items() if mhz}

    def _in_rounds(self, values: Sequence[_Value] | None) -> Mapping[int, _Value]:
        """Values of which there is one for each round."""
        return dict(zip(self.rounds_us, values, strict=True)) if values else {}


def timed_series(result: Result, series: SeriesJson) -> TimedSeries | None:
    """An implementation's samples in a series, if it has any."""
    entry = next((entry for entry in result["times"] if entry["samples_us"] and is_series(entry, series)), None)
    if entry is None:
        return None
    energies = (other.get("energy") for other in result["times"] if other["pass"] == series["pass"])
    energy = next((energy for energy in energies if energy is not None), None)
    return TimedSeries(result["impl"], result["case"]["device"], entry, energy)


def time_of(entry: TimeSeries) -> TimeVerdict:
    """The median over rounds of a series that has samples, with its interval."""
    values = list(by_round(entry["samples_us"], entry["rounds"]).values())
    low, high = median_interval(values, _error_level(entry))
    return {
        "timer": entry["timer"],
        "cache": entry["cache"],
        "median_us": statistics.median(values),
        "low_us": low,
        "high_us": high,
        "rounds": len(values),
        "decided": entry.get("decided"),
    }


def _error_level(entry: TimeSeries) -> float:
    """The error level of a series' intervals: what its interim looks have left."""
    return level(len(entry.get("looks") or ()), decided=bool(entry.get("decided")))
