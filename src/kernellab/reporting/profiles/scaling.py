"""How the MLP's time grows with dim, layers, batch and steps: exponents in words, then the times."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kernellab.reporting.text import numbers as words
from kernellab.stats import growth as scaling

_NARROW = 0.3  # an exponent's interval, for "linear" to mean something


def document(setup: Mapping[str, Any], curves: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The curves with what was fitted to them; None where there are too few sizes, or too near each other."""
    found = []
    for curve in curves:
        points = [(p["size"], p["median_us"], p["low_us"], p["high_us"]) for p in curve["points"]]
        fit = scaling.fit(points)
        found.append({**curve, "fit": fit.to_json() if fit else None})
    return {"setup": dict(setup), "scaling": found}


def lines(document: Mapping[str, Any]) -> list[str]:
    found = []
    for curve in document["scaling"]:
        by = curve["by"]
        what = "all steps together" if by == "steps" else "a step"
        found.append(_words(by, what, curve["fit"]))
        width = max(len(by), *(len(str(point["size"])) for point in curve["points"]))
        found.append(f"  {by:>{width}}  {'time':>9}  99 % interval")
        for point in curve["points"]:
            low, high = (words.duration(point[key]) for key in ("low_us", "high_us"))
            found.append(f"  {point['size']:>{width}}  {words.duration(point['median_us']):>9}  {low} – {high}")
        found.append("")
    setup = document["setup"]
    several = len(document["scaling"]) > 1
    varied = {curve["by"] for curve in document["scaling"]} if not several else set()
    sizes = ", ".join(f"{name} {setup[name]}" for name in ("dim", "layers", "batch", "steps") if name not in varied)
    return [*found, f"{'while another varies' if several else 'besides'}: {sizes}; optimizer {setup['optimizer']}"]


def _words(by: str, what: str, fit: Mapping[str, Any] | None) -> str:
    if fit is None:
        return (
            f"Over {by}: too few sizes to tell how time grows "
            f"({scaling.FEWEST} at least, the largest {scaling.SPAN} times the smallest)"
        )
    if fit["below"] is None:
        return f"Over {by}: the time of {what} grows as {_power(by, fit['whole'])}, {_kind(fit['whole'])}"
    return (
        f"Over {by}: the time of {what} grows as {_power(by, fit['below'])} up to {fit['below']['last']:g}, "
        f"then as {_power(by, fit['above'])}, {_kind(fit['above'])}"
    )


def _power(by: str, growth: Mapping[str, float]) -> str:
    return f"{by}^{growth['exponent']:.2f} ({growth['low']:.2f} to {growth['high']:.2f})"


def _kind(growth: Mapping[str, float]) -> str:
    if growth["low"] > 1:
        return "worse than linear"
    if growth["high"] < 1:
        return "less than linear"
    return "as good as linear" if growth["high"] - growth["low"] < _NARROW else "too uncertain to tell from linear"
