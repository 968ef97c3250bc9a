"""How the MLP's time grows with dim, layers, batch and steps: the exponents in sentences, then the times."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kernellab.profiler.protocol import SizeCurve
from kernellab.reporting.text import numbers as words
from kernellab.reporting.text.layout import Layout
from kernellab.stats import growth
from kernellab.workloads.mlp_setup import DEFAULT_SIZES, MlpSetup

_NARROW = 0.3  # an exponent whose interval is wider is not called linear


@dataclass(frozen=True)
class FittedCurve:
    """Times over one size, and their growth; None if the sizes are too few or too close together."""

    curve: SizeCurve
    fit: growth.Fit | None


@dataclass(frozen=True)
class ScalingStudy:
    """The MLP's times over one or more of its sizes. `setup`: the sizes while another one varies."""

    setup: MlpSetup
    curves: list[FittedCurve]

    def to_json(self) -> dict[str, object]:
        curves = [{**fitted.curve, "fit": fitted.fit.to_json() if fitted.fit else None} for fitted in self.curves]
        return {"setup": self.setup.to_json(), "scaling": curves}


def fit_curves(setup: MlpSetup, curves: Sequence[SizeCurve]) -> ScalingStudy:
    fitted = []
    for curve in curves:
        points = [(point["size"], point["median_us"], point["low_us"], point["high_us"]) for point in curve["points"]]
        fitted.append(FittedCurve(curve, growth.fit(points)))
    return ScalingStudy(setup, fitted)


def lines(study: ScalingStudy) -> list[str]:
    text = []
    for fitted in study.curves:
        by, points = fitted.curve["by"], fitted.curve["points"]
        text.append(_sentence(by, fitted.fit))
        body = [
            [
                str(point["size"]),
                words.duration(point["median_us"]),
                f"{words.duration(point['low_us'])} – {words.duration(point['high_us'])}",
            ]
            for point in points
        ]
        text += [*Layout().table([by, "time", "99 % interval"], body), ""]
    several = len(study.curves) > 1
    varied = set() if several else {fitted.curve["by"] for fitted in study.curves}
    sizes = ", ".join(f"{name} {study.setup.size(name)}" for name in DEFAULT_SIZES if name not in varied)
    return [*text, f"{'while another varies' if several else 'fixed'}: {sizes}; optimizer {study.setup.optimizer}"]


def _sentence(by: str, fit: growth.Fit | None) -> str:
    time = "the time of all steps" if by == "steps" else "the time of a step"
    if fit is None:
        return (
            f"Over {by}: too few sizes to show how time grows "
            f"(at least {growth.FEWEST}, the largest {growth.SPAN} times the smallest)"
        )
    if fit.below is None or fit.above is None:
        return f"Over {by}: {time} grows as {_power(by, fit.whole)}, {_kind(fit.whole)}"
    return (
        f"Over {by}: {time} grows as {_power(by, fit.below)} up to {fit.below.last:g}, "
        f"then as {_power(by, fit.above)}, {_kind(fit.above)}"
    )


def _power(by: str, fitted: growth.Growth) -> str:
    return f"{by}^{fitted.exponent:.2f} ({fitted.low:.2f} to {fitted.high:.2f})"


def _kind(fitted: growth.Growth) -> str:
    if fitted.low > 1:
        return "faster than linear"
    if fitted.high < 1:
        return "slower than linear"
    return "linear" if fitted.high - fitted.low < _NARROW else "too uncertain to distinguish from linear"
