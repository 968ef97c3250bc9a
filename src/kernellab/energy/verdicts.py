"""How much energy a call takes, with its interval, and whether it is less than another implementation's."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from kernellab.energy.documents import EnergyJson, EnergyRatio, EnergyVerdict
from kernellab.stats.intervals import FEWEST, median_interval, paired_ratios

# Smaller differences are never called one: the leakage of a chip grows with its temperature, for which no block waits.
PRECISION = 0.01


def energy_of(energy: EnergyJson | None) -> EnergyVerdict | None:
    """The median over blocks with its 99 % interval; None where it was not measured."""
    if energy is None or not energy["joules"]:
        return None
    joules = energy["joules"]
    low, high = median_interval(joules)
    idle_w, watts = energy["idle_w"], statistics.median(energy["watts"])
    clocks = [clock for clock in energy["clocks_mhz"] if clock]
    return {
        "counter": energy["counter"],
        "median_j": statistics.median(joules),
        "low_j": low,
        "high_j": high,
        "blocks": len(joules),
        "us": statistics.median(energy["us"]),
        "watts": watts,
        "clock_mhz": statistics.median(clocks) if clocks else None,
        "idle_share": idle_w / watts if idle_w is not None and watts > 0 else None,
        "contended": energy["contended"],
    }


def compare_energy(mine: EnergyJson | None, theirs: EnergyJson | None, over: str) -> EnergyRatio | None:
    """The energy of a call relative to that of another implementation's, from the rounds of blocks that both have."""
    if mine is None or theirs is None:
        return None
    other, own = (dict(zip(energy["blocks"], energy["joules"], strict=True)) for energy in (theirs, mine))
    ratios = paired_ratios(other, own)
    if not ratios:
        return None
    low, high = median_interval(ratios)
    resolvable = len(ratios) >= FEWEST and not (mine["contended"] or theirs["contended"])
    return {
        "over": over,
        "median": statistics.median(ratios),
        "low": low,
        "high": high,
        "verdict": _verdict(low, high) if resolvable else "not resolved",
    }


def obstacles(energies: Sequence[EnergyJson | None]) -> list[str]:
    """Why energy was not measured, each reason once."""
    return list(dict.fromkeys(energy["reason"] for energy in energies if energy is not None and energy["reason"]))


def _verdict(low: float, high: float) -> str:
    if high < 1 - PRECISION:
        return "less"
    if low > 1 + PRECISION:
        return "more"
    return "same" if low >= 1 - PRECISION and high <= 1 + PRECISION else "not resolved"
