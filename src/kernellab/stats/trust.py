"""Can a time be trusted? What speaks against it, in words that stand beside the number. No torch.

Two questions: did the machine hold still while it was measured (`reasons`), and is the time possible at all
(`implausible`).
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from kernellab.stats.intervals import median_interval, quantile

Reason = dict[str, str]

# Held back: a single reading can be a blip; one in ten means that a tenth of the rounds ran slower.
_THROTTLED_SHARE, _THROTTLED_SAMPLES = 0.10, 2
# The steps of a GPU's clock are 15 MHz, below 1 %: two or three steps move a time by less than its noise.
_CLOCK_MOVED = 0.03
# A CPU's clock jumps from reading to reading. Only a lasting change counts, and only a clear one.
_CPU_CLOCK_MOVED = 0.05
# Others on our cores beyond those left free for them: kernellab's own process is below this, a build is not.
_OTHERS_CORES = 0.25
# Even with cores free, others on a quarter of them share the memory's bandwidth, the cache and the turbo.
_OTHERS_SHARE = 0.25
# What a virtual machine that shares its host loses all the time is one or two per cent.
_STEAL = 0.05
# Half the width of the 99 % interval: with more, the second digit of the time is a guess. A CPU that also runs
# a system is allowed twice as much.
_INTERVAL = {"cuda": 0.05, "cpu": 0.10}
# The middle half of the rounds: wider, and the median stands for rounds that have little in common.
_SPREAD = {"cuda": 0.20, "cpu": 0.30}
# How far the last third of the rounds may be from the first (less where the warm-up did not come to rest) before it
# is asked whether scatter explains it.
_DRIFT_UNSETTLED, _DRIFT = 0.02, 0.05
_DRIFT_ROUNDS = 12  # below, a third has too few rounds to speak for itself
_STEADY_CLOCK = 0.01
_STEADY_WINDOW = 3  # rounds whose median is compared with that of as many before


def reasons(
    telemetry: Mapping[str, Sequence[Any]] | None,
    rounds: Sequence[float],
    *,
    device: str,
    steady: bool | None,
    interval: tuple[float, float] | None,
) -> list[Reason]:
    """Why this time is not to be trusted, each with a `name` and a `detail`; empty when nothing speaks against it.

    `telemetry` is columns as `machine.telemetry` gives them; `rounds` the times in the order taken; `steady` what
    the warm-up came to; `interval` that of the median. What is None says nothing.
    """
    columns = telemetry or {}
    on_gpu = device == "cuda"
    found = [
        ("throttled", _throttled(columns)),
        ("clock-moved", _clock_moved(columns) if on_gpu else _cpu_clock_moved(columns)),
        ("contended", _gpu_contended(columns) if on_gpu else _cpu_contended(columns)),
        ("noisy", _noisy(rounds, interval, "cuda" if on_gpu else "cpu")),
        ("unsteady", _unsteady(rounds, steady)),
    ]
    return [{"name": name, "detail": detail} for name, detail in found if detail]


def word(found: Sequence[Mapping[str, str]]) -> str:
    """`trusted`, or the names of the reasons."""
    return ", ".join(reason["name"] for reason in found) or "trusted"


def is_steady(history: Sequence[float], clocks: Sequence[float | None], tolerance: float = 0.02) -> bool:
    """Whether a warm-up has come to rest: the last three rounds take what the three before took, the clock stands.

    `clocks` has the clock at each round, None where it was not read.
    """
    last, before = history[-_STEADY_WINDOW:], history[-2 * _STEADY_WINDOW : -_STEADY_WINDOW]
    if len(before) < _STEADY_WINDOW:
        return False
    now, then = statistics.median(last), statistics.median(before)
    if abs(now - then) > tolerance * max(now, then):
        return False
    known = [clock for clock in clocks[-2 * _STEADY_WINDOW :] if clock]
    return not known or max(known) - min(known) <= _STEADY_CLOCK * max(known)


# Did the machine hold still? ---------------------------------------------------------------------------


def _throttled(columns: Mapping[str, Sequence[Any]]) -> str | None:
    readings = _known(columns, "throttle")
    held = [words for words in readings if words]
    if len(held) < max(_THROTTLED_SAMPLES, _THROTTLED_SHARE * len(readings)):
        return None
    causes = sorted({cause for words in held for cause in words})
    return f"the clock was held back ({', '.join(causes)}) in {len(held)} of {len(readings)} readings"


def _clock_moved(columns: Mapping[str, Sequence[Any]]) -> str | None:
    memory = _settled(_known(columns, "mem_mhz"))
    if memory and max(memory) > min(memory):
        return f"the memory clock changed between {min(memory):.0f} and {max(memory):.0f} MHz"
    clocks = sorted(_settled(_known(columns, "sm_mhz")))
    if not clocks:
        return None
    low, high, middle = quantile(clocks, 0.05), quantile(clocks, 0.95), quantile(clocks, 0.5)
    if high - low <= _CLOCK_MOVED * middle:
        return None
    return f"the SM clock moved between {low:.0f} and {high:.0f} MHz, {_percent((high - low) / middle)} of {middle:.0f}"


def _settled(clocks: list[float]) -> list[float]:
    """Without the first reading where the clock was still on its way up."""
    ramping = len(clocks) > 2 and clocks[0] < clocks[1] * (1 - _STEADY_CLOCK)
    return clocks[1:] if ramping else clocks


def _cpu_clock_moved(columns: Mapping[str, Sequence[Any]]) -> str | None:
    clocks = _known(columns, "mhz")
    third = len(clocks) // 3
    if third < 3:
        return None
    first, last = clocks[:third], clocks[-third:]
    if max(first) >= min(last) and max(last) >= min(first):
        return None  # they overlap: jumping about, not moving
    before, after = statistics.median(first), statistics.median(last)
    if abs(after - before) <= _CPU_CLOCK_MOVED * before:
        return None
    return f"the CPU's clock went from {before:.0f} to {after:.0f} MHz"


def _gpu_contended(columns: Mapping[str, Sequence[Any]]) -> str | None:
    others = max(_known(columns, "others"), default=0)
    if not others:
        return None
    return f"{others} other process{'es' if others > 1 else ''} used the GPU"


def _cpu_contended(columns: Mapping[str, Sequence[Any]]) -> str | None:
    cores, threads = max(_known(columns, "cores"), default=1), max(_known(columns, "threads"), default=None)
    others = _over_time(columns, "others_cores")
    free = max(0, cores - threads) if threads else 0
    if others is not None and (others > free + _OTHERS_CORES or others > max(_OTHERS_CORES, _OTHERS_SHARE * cores)):
        return f"other processes used {others:.1f} of {cores} cores"
    steal = _over_time(columns, "steal")
    if steal is not None and steal > _STEAL:
        return f"the hypervisor took {_percent(steal)} of the cores' time"
    return None


def _over_time(columns: Mapping[str, Sequence[Any]], key: str) -> float | None:
    """The mean over time: each reading is about the span since the one before it."""
    pairs = zip(columns.get(key) or (), columns.get("span_s") or (), strict=False)
    known = [(value, span) for value, span in pairs if value is not None and span]
    total = sum(span for _, span in known)
    return sum(value * span for value, span in known) / total if total else None


def _noisy(rounds: Sequence[float], interval: tuple[float, float] | None, device: str) -> str | None:
    middle = statistics.median(rounds) if rounds else 0.0
    if middle <= 0:
        return None
    half = (interval[1] - interval[0]) / 2 / middle if interval else 0.0
    if half > _INTERVAL[device]:
        return f"the median is known to ± {_percent(half)} only"
    spread = (quantile(rounds, 0.75) - quantile(rounds, 0.25)) / middle
    if len(rounds) > 2 and spread > _SPREAD[device]:
        return f"the middle half of the rounds spreads over {_percent(spread)} of the median"
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
    if abs(drift) <= (_DRIFT_UNSETTLED if steady is False else _DRIFT):
        return None
    (low, high), (later_low, later_high) = median_interval(first), median_interval(last)
    if low <= later_high and later_low <= high:
        return None  # the scatter explains it
    unsettled = ", and the warm-up had not come to rest" if steady is False else ""
    change = f"{_percent(abs(drift))} {'more' if drift > 0 else 'less'}"
    return f"the last third of the rounds took {change} than the first{unsettled}"


# Is it possible? ---------------------------------------------------------------------------------------

# A time this much below the least possible is still the timer's: its resolution, and 2 % of whatever it reads.
_SLACK, _SLACK_US = 0.02, 1.0


def implausible(
    cost: Mapping[str, Any] | None,
    case_dtype: str,
    time_us: float,
    cache: str | None,
    peaks: Mapping[str, Any] | None,
) -> str | None:
    """Why this GPU cannot have done the work in this time, or None. `peaks` as `machine.peaks` gives them."""
    if not cost or not peaks:
        return None
    for what, least_us in _least_times(cost, case_dtype, cache, peaks):
        if time_us < least_us * (1 - _SLACK) - _SLACK_US:
            return f"{time_us:.4g} µs is not possible: {what} take at least {least_us:.4g} µs"
    return None


def _least_times(
    cost: Mapping[str, Any], dtype: str, cache: str | None, peaks: Mapping[str, Any]
) -> list[tuple[str, float]]:
    found = []
    # What is written may stay in the cache at the end. Unless it was emptied, as much may have been there already.
    cached = peaks["l2_bytes"] * (1 if cache == "cold" else 2)
    beyond = cost["bytes_read"] + cost["bytes_written"] - cached
    if beyond > 0 and peaks["pin_gbps"]:
        what = f"{beyond / 1e6:.4g} MB beyond the L2 cache at the {peaks['pin_gbps']:.0f} GB/s of the memory's pins"
        found.append((what, beyond / peaks["pin_gbps"] / 1e3))
    for unit, rate in _rates(dtype, peaks["tflops"] or {}).items():
        flops = cost["flops"].get(unit, 0)
        if flops and rate:
            what = f"{flops / 1e9:.4g} Gflop ({unit}, {dtype}) at the vendor's peak of {rate:.4g} TFLOPS"
            found.append((what, flops / rate / 1e6))
    return found


def _rates(dtype: str, tflops: Mapping[str, Any]) -> dict[str, float | None]:
    # Ordinary arithmetic on 16-bit data can go in pairs, up to four times as fast: only float32 is held to a rate.
    fp32 = tflops.get("fp32") if dtype == "float32" else None
    return {"matmul": (tflops.get("matmul") or {}).get(dtype), "fp32": fp32}


# Small things ------------------------------------------------------------------------------------------


def _known(columns: Mapping[str, Sequence[Any]], key: str) -> list[Any]:
    return [value for value in columns.get(key) or () if value is not None]


def _percent(share: float) -> str:
    return f"{share:.1%}".replace("%", " %") if share < 0.1 else f"{share:.0%}".replace("%", " %")
