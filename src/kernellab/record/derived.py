"""The JSON of verdicts: what `verdict` adds to a record. Computed, never stored."""

from __future__ import annotations

from typing import Annotated, NotRequired, TypedDict

from kernellab.energy.documents import EnergyRatios, EnergyVerdict
from kernellab.findings.document import ExplainFinding
from kernellab.record.batteries import BatterySummary
from kernellab.record.schema import Record, Result


class TimeVerdict(TypedDict):
    """The median of a series with its 99 % interval."""

    timer: Annotated[str | None, ""]
    cache: Annotated[str | None, ""]
    median_us: Annotated[float, "over rounds"]
    low_us: Annotated[float, ""]
    high_us: Annotated[float, ""]
    rounds: Annotated[int, ""]
    decided: Annotated[bool | None, "whether the series ended because all was decided"]


class ReasonJson(TypedDict):
    """A reason not to trust a time or a comparison."""

    name: Annotated[
        str,
        "of a time `throttled`, `clock-moved`, `contended`, `noisy`, `unsteady`; of a comparison also `uneven-clock`, "
        "`order-dependent`, `drifting`, `clock-dependent`",
    ]
    detail: Annotated[str, "a sentence with its numbers"]


class TrustVerdict(TypedDict):
    """Whether a time or a comparison can be trusted."""

    verdict: Annotated[str, "`trusted`, or the reasons' names"]
    reasons: Annotated[list[ReasonJson], ""]


class PowerJson(TypedDict):
    """The power state of a GPU while something was timed: medians over the readings."""

    at_limit: Annotated[bool, "whether the power limit held the clock back"]
    limit_w: Annotated[float | None, ""]
    power_w: Annotated[float | None, ""]
    clock_mhz: Annotated[float | None, "of the SMs"]


class Speedup(TypedDict):
    """How many times as fast as another implementation, from paired rounds."""

    over: Annotated[str, "the other implementation"]
    median: Annotated[float, ""]
    low: Annotated[float, "of the 99 % interval, with what the reasons of `trust` explain"]
    high: Annotated[float, ""]
    verdict: Annotated[str, "`faster`, `slower`, `same` or `not resolved`"]
    trust: Annotated[TrustVerdict, "of the comparison, [apart from](verdicts.md#can-a-comparison-be-trusted) the times"]


class Speedups(TypedDict):
    """Speed-ups over the baseline and over the fastest other implementation."""

    baseline: Annotated[Speedup | None, "over `manual`, or `torch` where that is missing"]
    fastest_other: Annotated[Speedup | None, "over the fastest other implementation"]


class LimitJson(TypedDict):
    """The roofline."""

    bytes: Annotated[int, "the fewest that the pass must move"]
    flops: Annotated[dict[str, float], "by unit"]
    intensity: Annotated[float | None, "flops per byte"]
    ridge: Annotated[float | None, "the intensity at which memory and arithmetic take equally long"]
    bound: Annotated[str | None, "`memory` or `matmul`"]
    roof_us: Annotated[float | None, "the time at the limit"]
    fraction: Annotated[float | None, "the share of the limit that was reached"]
    gbps: Annotated[float | None, ""]
    tflops: Annotated[float | None, ""]
    matmul_tflops: Annotated[float | None, "the measured matmul rate that it is compared with"]
    clock_mhz: Annotated[float | None, "of the GPU while it was timed, where that is the rate at this clock"]


class PassVerdict(TypedDict):
    """The verdicts on one pass."""

    time: Annotated[TimeVerdict | None, "of the main series"]
    trust: Annotated[TrustVerdict | None, "of the time"]
    power: Annotated[PowerJson | None, "on a GPU"]
    speedup: Annotated[Speedups, ""]
    energy: Annotated[EnergyVerdict | None, "after `--energy`"]
    energy_ratio: Annotated[EnergyRatios, "relative to the same implementations as `speedup`"]
    limit: Annotated[LimitJson | None, "the [roofline](roofline.md)"]


class TimingSkipped(TypedDict):
    """Why an implementation that is right was not timed."""

    status: Annotated[str, "`skipped`"]
    reason: Annotated[str, ""]


class RegimeJson(TypedDict):
    """What governs the time."""

    name: Annotated[str, "`launch-bound`, `L2-resident`, `cache-resident`, `memory-bound`, `compute-bound`"]
    evidence: Annotated[str, ""]


class StatusJson(TypedDict):
    """A status and its reason."""

    status: Annotated[str, ""]
    reason: Annotated[str | None, ""]


class Derived(PassVerdict):
    """The verdicts on one result. Time, trust, speed-up and limit are those of the first pass."""

    status: Annotated[str, "the worst of all that was examined: [the statuses](verdicts.md)"]
    reason: Annotated[str | None, "why, for everything but `ok`"]
    at_case: Annotated[StatusJson, "the status at this case alone, without the battery and the sanitizer"]
    timing: Annotated[TimingSkipped | None, "for an implementation that is right and was not timed"]
    build_s: Annotated[float | None, "seconds of the first call beyond an ordinary one, for kinds that are compiled"]
    passes: Annotated[dict[str, PassVerdict], "by pass"]
    regime: Annotated[list[RegimeJson], "what governs the time, as far as the series show"]
    rules: Annotated[int, "the version of the rules"]
    findings: NotRequired[
        Annotated[list[ExplainFinding], "[why](explain.md), the largest gain first; only in `--json`"]
    ]


class DerivedResult(Result):
    """A result with its verdict."""

    derived: Derived


class DerivedRecord(Record):
    """A record with its verdicts."""

    results: list[DerivedResult]  # type: ignore[misc]
    batteries: Annotated[list[BatterySummary], "one for each op and implementation that was tried"]
