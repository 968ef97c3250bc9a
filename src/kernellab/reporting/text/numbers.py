"""Numbers as people read them, and the labels of cases."""

from __future__ import annotations

from kernellab.declaration.case import Case
from kernellab.declaration.documents import CaseJson

DOUBT = " ?"  # behind a number that is not trusted
_ABOVE_CEILING = 1.1  # a measured ceiling that is exceeded by more than this was measured too low


def duration(us: float) -> str:
    """Microseconds with a unit that keeps three or four digits: `812 ns`, `38.2 µs`, `4.27 ms`, `1.31 s`."""
    for limit, factor, unit in ((1, 1e3, "ns"), (1e3, 1, "µs"), (1e6, 1e-3, "ms")):
        if us < limit:
            return f"{digits(us * factor)} {unit}"
    return f"{digits(us * 1e-6)} s"


def energy(joules: float) -> str:
    """Joules with a unit that keeps three or four digits: `812 µJ`, `38.2 mJ`, `1.31 J`."""
    for limit, factor, unit in ((1e-3, 1e6, "µJ"), (1.0, 1e3, "mJ")):
        if joules < limit:
            return f"{digits(joules * factor)} {unit}"
    return f"{digits(joules)} J"


def digits(value: float) -> str:
    """Four significant digits below ten thousand, no exponent."""
    if value >= 1000:
        return f"{value:.0f}"
    return f"{value:.4g}" if value >= 1 else f"{value:.3g}"


def ratio(value: float) -> str:
    """Three digits; four near 1, where a small difference matters."""
    if 0.9 < value < 1.1:
        return f"{value:.3f}"
    return f"{value:.3g}" if value < 100 else f"{value:.0f}"


def times(value: float) -> str:
    return f"{ratio(value)}×"


def percent(fraction: float) -> str:
    """For tables: whole per cent. For sentences: base.text.share_text."""
    return f"{100 * fraction:.0f} %"


def ceiling_doubt(fraction: float) -> str:
    """A remark for a rate far above a ceiling: the ceiling was probably measured on a busy machine."""
    return " (measured too low? --refresh-ceilings measures it again)" if fraction > _ABOVE_CEILING else ""


def spread(median: float, low: float, high: float) -> str:
    """Half the interval's width relative to the median."""
    half = 100 * (high - low) / 2 / median if median else 0.0
    return f"±{half:.0f} %" if half >= 99.5 else f"±{half:.1f} %" if half >= 0.95 else f"±{half:.2f} %"


def memory(count: int) -> str:
    """Bytes with a binary unit: `512 B`, `64 MiB`, `1.5 GiB`."""
    for limit, unit in ((1 << 10, "B"), (1 << 20, "KiB"), (1 << 30, "MiB")):
        if count < limit:
            return f"{digits(count / (limit >> 10))} {unit}"
    return f"{digits(count / (1 << 30))} GiB"


def size(case: CaseJson) -> str:
    return Case.from_json(case).size_label


def case_label(case: CaseJson) -> str:
    return Case.from_json(case).label


def count(n: int, noun: str) -> str:
    return f"{n} {noun}" + ("" if n == 1 else "s")
