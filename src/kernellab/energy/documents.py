"""The JSON of an energy measurement as records hold it, and of the verdicts on it."""

from __future__ import annotations

from typing import Annotated, TypedDict


class EnergyJson(TypedDict):
    """Energy per call of an implementation, in blocks of calls in a row. Idle power is not subtracted.

    Lists have one value for each block; `joules` is empty where it was not measured.
    """

    status: Annotated[str, "`ok` or `skipped`"]
    reason: Annotated[str | None, "why it was not measured"]
    counter: Annotated[str | None, "`nvml`, or `rapl` on a CPU"]
    joules: Annotated[list[float], "per call"]
    blocks: Annotated[list[int], "the number of each block: implementations have one each with the same number"]
    us: Annotated[list[float], "microseconds per call"]
    watts: Annotated[list[float], "mean power"]
    clocks_mhz: Annotated[list[float | None], "on a GPU: the SM clock"]
    seconds: Annotated[list[float], "length of the block"]
    resolution: Annotated[list[float], "share of the energy by which the counter's steps make it uncertain"]
    step_s: Annotated[float | None, "seconds between two steps of the counter, measured"]
    lead_s: Annotated[float | None, "seconds of calls before each block, in which the counter follows the power"]
    idle_w: Annotated[float | None, "power of the device without work, before the blocks"]
    sets_bytes: Annotated[int | None, "size of all input sets, of which consecutive calls have different ones"]
    contended: Annotated[str | None, "which other processes used the device meanwhile"]


class EnergyVerdict(TypedDict):
    """The energy of a call, medians over blocks."""

    counter: Annotated[str | None, "`nvml` or `rapl`"]
    median_j: Annotated[float, "joules per call, idle power included"]
    low_j: Annotated[float, "of the 99 % interval"]
    high_j: Annotated[float, ""]
    blocks: Annotated[int, ""]
    us: Annotated[float, "time per call in the blocks: calls in a row, in their own power state"]
    watts: Annotated[float, "mean power in the blocks"]
    clock_mhz: Annotated[float | None, "on a GPU: the SM clock in the blocks"]
    idle_share: Annotated[float | None, "share of the energy that the idle device would have taken"]
    contended: Annotated[str | None, "which other processes used the device meanwhile: then nothing is resolved"]


class EnergyRatio(TypedDict):
    """The energy of a call relative to that of another implementation's, from paired blocks."""

    over: Annotated[str, "the other implementation"]
    median: Annotated[float, "0.8 is 20 % less"]
    low: Annotated[float, "of the 99 % interval"]
    high: Annotated[float, ""]
    verdict: Annotated[str, "`less`, `more`, `same` or `not resolved`"]


class EnergyRatios(TypedDict):
    """Energy relative to the implementations that speed-ups are given over."""

    baseline: Annotated[EnergyRatio | None, ""]
    fastest_other: Annotated[EnergyRatio | None, ""]
