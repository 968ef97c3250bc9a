"""Whether a time can be trusted: did the machine stay in one state while it was measured? Imports no torch."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypedDict

from kernellab.base.json import JsonValue
from kernellab.stats.intervals import median_interval, quantile


class Reason(TypedDict):
    """Why a time is not trusted: `throttled`, `clock-moved`, `contended`, `noisy` or `unsteady`, and the evidence."""

    name: str
    detail: str


Columns = Mapping[str, Sequence[JsonValue]]  # telemetry: for each quantity one value per reading


@dataclass(frozen=True)
class PowerState:
    """What power and clock a GPU had, medians over the readings. `at_limit`: its power limit held the clock back."""

    at_limit: bool
    limit_w: float | None
    power_w: float | None
    clock_mhz: float | None


_POWER_CAP = "sw-power-cap"

# One throttled reading can be a blip; one in ten means that a tenth of the rounds ran slower.
_THROTTLED_SHARE, _THROTTLED_READINGS = 0.10, 2
# A GPU's clock moves in steps of 15 MHz, below 1 %: two or three steps change a time by less than its noise.
CLOCK_MOVED = 0.03
# A CPU's clock jumps from reading to reading. Only a clear and lasting change counts.
_CPUCLOCK_MOVED = 0.05
# Load of other processes, in cores, beyond the cores left free for them. kernellab's own parent process stays below
# this; a build does not.
_OTHERS_CORES = 0.25
# Even if cores are free, processes on a quarter of the cores compete for memory bandwidth, cache and turbo clocks.
_OTHERS_SHARE = 0.25
# A virtual machine on a shared host always loses one or two per cent.
_STEAL = 0.05
# Half the width of the 99 % interval, relative to the median: above this, the second digit of the time is a guess. A
# CPU, which also runs the operating system, is allowed twice as much.
_INTERVAL = {"cuda": 0.05, "cpu": 0.10}
# The interquartile range of the rounds, relative to the median: above this, the median represents no typical round.
_SPREAD = {"cuda": 0.20, "cpu": 0.30}
# How far the last third of the rounds may be from the first before it is tested whether scatter explains the
# difference. The limit is lower if the warm-up did not become steady.
_DRIFT_UNSTEADY, _DRIFT = 0.02, 0.05
_DRIFT_ROUNDS = 12  # with fewer, a third has too few rounds
_STEADY_CLOCK = 0.01
_STEADY_WINDOW = 3  # rounds whose median is compared with that of the three before


def find_reasons(
    telemetry: Columns | None,
    rounds: Sequence[float],
    *,
    device: str,
    steady: bool | None,
    interval: tuple[float, float] | None,
) -> list[Reason]:
    """The reasons why this time is not trusted; empty if it is.

    `rounds` are the times in the order taken, `steady` says whether the warm-up became steady, `interval` is that of
    the median. Arguments that are None are not examined.
    """
    columns = telemetry or {}
    on_gpu = device == "cuda"
    details = {
        "throttled": _throttled(columns),
        "clock-moved": _clock_moved(columns) if on_gpu else _cpu_clock_moved(columns),
        "contended": _gpu_contended(columns) if on_gpu else _cpu_contended(columns),
        "noisy": _noisy(rounds, interval, "cuda" if on_gpu else "cpu"),
        "unsteady": _unsteady(rounds, steady),
    }
    return [{"name": name, "detail": detail} for name, detail in details.items() if detail]


def summarise(reasons: Iterable[Reason]) -> str:
    """`trusted`, or the names of the reasons."""
    return ", ".join(reason["name"] for reason in reasons) or "trusted"


def is_steady(history: Sequence[float], clocks: Sequence[float | None], tolerance: float = 0.02) -> bool:
    """Whether a warm-up has become steady: the last three rounds take as long as the three before, and the clock is
    constant.

    `clocks` has the clock at each round, None if it was not read.
    """
    last, before = history[-_STEADY_WINDOW:], history[-2 * _STEADY_WINDOW : -_STEADY_WINDOW]
    if len(before) < _STEADY_WINDOW:
        return False
    now, then = statistics.median(last), statistics.median(before)
    if abs(now - then) > tolerance * max(now, then):
        return False
    readings = [clock for clock in clocks[-2 * _STEADY_WINDOW :] if clock]
    return not readings or max(readings) - min(readings) <= _STEADY_CLOCK * max(readings)


def power_state(telemetry: Columns | None) -> PowerState | None:
    """The power state of a GPU; None where it was not read."""
    columns = telemetry or {}
    power_w, clocks, limits_w = (_numbers(columns, key) for key in ("power_w", "sm_mhz", "limit_w"))
    if not power_w and not clocks:
        return None
    readings = _throttle_readings(columns)
    capped = [causes for causes in readings if _POWER_CAP in causes]
    return PowerState(
        _is_throttled(capped, readings),
        *(statistics.median(values) if values else None for values in (limits_w, power_w, clocks)),
    )


def _throttled(columns: Columns) -> str | None:
    readings = _throttle_readings(columns)
    throttled = [causes for causes in readings if causes]
    if not _is_throttled(throttled, readings):
        return None
    causes = sorted({str(cause) for reading in throttled for cause in reading})
    return f"the clock was throttled ({', '.join(causes)}) in {len(throttled)} of {len(readings)} readings"


def _throttle_readings(columns: Columns) -> list[list[JsonValue]]:
    return [value for value in columns.get("throttle") or () if isinstance(value, list)]


def _is_throttled(throttled: Sequence[object], readings: Sequence[object]) -> bool:
    return len(throttled) >= max(_THROTTLED_READINGS, _THROTTLED_SHARE * len(readings))


def _clock_moved(columns: Columns) -> str | None:
    memory = _without_ramp(_numbers(columns, "mem_mhz"))
    if memory and max(memory) > min(memory):
        return f"the memory clock changed between {min(memory):.0f} and {max(memory):.0f} MHz"
    clocks = sorted(_without_ramp(_numbers(columns, "sm_mhz")))
    if not clocks:
        return None
    low, high, middle = quantile(clocks, 0.05), quantile(clocks, 0.95), quantile(clocks, 0.5)
    if high - low <= CLOCK_MOVED * middle:
        return None
    return f"the SM clock moved between {low:.0f} and {high:.0f} MHz, {percent((high - low) / middle)} of {middle:.0f}"


def _without_ramp(clocks: list[float]) -> list[float]:
    """The readings without the first one if the clock was still rising then."""
    rising = len(clocks) > 2 and clocks[0] < clocks[1] * (1 - _STEADY_CLOCK)
    return clocks[1:] if rising else clocks


def _cpu_clock_moved(columns: Columns) -> str | None:
    clocks = _numbers(columns, "mhz")
    third = len(clocks) // 3
    if third < 3:
        return None
    first, last = clocks[:third], clocks[-third:]
    if max(first) >= min(last) and max(last) >= min(first):
        return None  # the two overlap: the clock jumps, but the change does not last
    before, after = statistics.median(first), statistics.median(last)
    if abs(after - before) <= _CPUCLOCK_MOVED * before:
        return None
    return f"the CPU's clock went from {before:.0f} to {after:.0f} MHz"


def _gpu_contended(columns: Columns) -> str | None:
    others = int(max(_numbers(columns, "others"), default=0))
    if not others:
        return None
    return f"{others} other process{'es' if others > 1 else ''} used the GPU"


def _cpu_contended(columns: Columns) -> str | None:
    cores = int(max(_numbers(columns, "cores"), default=1))
    threads = int(max(_numbers(columns, "threads"), default=0))
    others = _mean_over_time(columns, "others_cores")
    free = max(0, cores - threads) if threads else 0
    if others is not None and (others > free + _OTHERS_CORES or others > max(_OTHERS_CORES, _OTHERS_SHARE * cores)):
        return f"other processes used {others:.1f} of {cores} cores"
    steal = _mean_over_time(columns, "steal")
    if steal is not None and steal > _STEAL:
        return f"the hypervisor took {percent(steal)} of the cores' time"
    return None


def _mean_over_time(columns: Columns, key: str) -> float | None:
    """The mean of the readings, each weighted by the time since the reading before it."""
    pairs = zip(columns.get(key) or (), columns.get("span_s") or (), strict=False)
    numbers = (int, float)
    readings = [(value, span) for value, span in pairs if isinstance(value, numbers) and isinstance(span, numbers)]
    total_s = sum(span for _, span in readings)
    return sum(value * span for value, span in readings) / total_s if total_s else None


def _noisy(rounds: Sequence[float], interval: tuple[float, float] | None, device: str) -> str | None:
    middle = statistics.median(rounds) if rounds else 0.0
    if middle <= 0:
        return None
    half_width = (interval[1] - interval[0]) / 2 / middle if interval else 0.0
    if half_width > _INTERVAL[device]:
        return f"the median is known to ± {percent(half_width)} only"
    spread = (quantile(rounds, 0.75) - quantile(rounds, 0.25)) / middle
    if len(rounds) > 2 and spread > _SPREAD[device]:
        return f"the middle half of the rounds spreads over {percent(spread)} of the median"
    return None


def _unsteady(rounds: Sequence[float], steady: bool | None) -> str | None:
    if len(rounds) < _DRIFT_ROUNDS:
        return None
    third = len(rounds) // 3
    first, last = rounds[:third], rounds[-third:]
    before, after = statistics.median(first), statistics.median(last)
    if before <= 0:
        return None
    drift = (after - before) / before
    if abs(drift) <= (_DRIFT_UNSTEADY if steady is False else _DRIFT):
        return None
    (low, high), (later_low, later_high) = median_interval(first), median_interval(last)
    if low <= later_high and later_low <= high:
        return None  # scatter explains the difference
    warmup = ", and the warm-up had not become steady" if steady is False else ""
    change = f"{percent(abs(drift))} {'more' if drift > 0 else 'less'}"
    return f"the last third of the rounds took {change} than the first{warmup}"


def _numbers(columns: Columns, key: str) -> list[float]:
    return [float(value) for value in columns.get(key) or () if isinstance(value, (int, float))]


def percent(share: float) -> str:
    """Per cent, with a decimal below 10."""
    return f"{share:.1%}".replace("%", " %") if share < 0.1 else f"{share:.0%}".replace("%", " %")
