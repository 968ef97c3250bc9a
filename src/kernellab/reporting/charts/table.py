"""A long sweep in the terminal: one table of rates, reasons once, and which implementation is fastest where."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping

from rich.console import Console
from rich.text import Text

from kernellab.base.text import share_text
from kernellab.record.derived import DerivedRecord, DerivedResult
from kernellab.record.statuses import OK, RIGHT
from kernellab.record.verdict import HOLD, comparisons_hold
from kernellab.reporting.charts.series import Sweep
from kernellab.reporting.text import numbers
from kernellab.reporting.text.table import Column, Row, Table, print_table, split_columns
from kernellab.stats import growth as growth_fit

COMPACT = 6  # a sweep of more sizes than this is shown as one table
_MOST_STRETCHES = 4  # of sizes with the same fastest implementation; beyond these, sizes are counted
_MOST_SIZES = 3  # that are listed one by one


def show(sweep: Sweep, record: DerivedRecord, out: Console) -> None:
    """The table, then remarks that do not fit in it, each once."""
    device = record["machine"].get("device", sweep.case["device"])
    unit = f", {sweep.unit}" if sweep.timed else ""
    out.print(Text.assemble((sweep.op, "bold"), f" · {sweep.label} · {device}{unit}"))
    if sweep.timed:
        for part in split_columns(table(sweep), out.width):
            print_table(part, out)
    for line in remarks(sweep, timing="time" in record["stages"]):
        out.print(line, soft_wrap=not out.is_terminal)
    out.print()


def table(sweep: Sweep) -> Table:
    impls = [impl for impl in sweep.impls if sweep.curve(impl)]
    columns = [Column(sweep.dim), *map(Column, impls)]
    if len(impls) > 1:
        columns.append(Column("fastest", "left"))
    rows = []
    for size, group in sweep.groups.items():
        best = _fastest(group)
        leaders = [_leaders(best)] if len(impls) > 1 else []
        rows.append(Row([str(size), *(_cell(sweep, size, impl, best) for impl in impls), *leaders]))
    return Table(columns, rows)


def _cell(sweep: Sweep, size: int, impl: str, best: DerivedResult | None) -> Text:
    result, point = sweep.result(size, impl), sweep.curve(impl).get(size)
    if result is None:
        return Text("")
    if point is None:
        return Text(_status(result), style="" if result["derived"]["status"] in RIGHT else "red")
    value = numbers.duration(point.value) if sweep.unit == "µs" else numbers.digits(point.value)
    trusted = point.trust["verdict"] == "trusted"
    return Text(value if trusted else f"{value}{numbers.DOUBT}", style="bold" if result is best else "")


def _status(result: DerivedResult) -> str:
    status = result["derived"]["status"]
    return {"ok": "right", "unknown": "cannot tell"}.get(status, str(status))


def _fastest(group: Iterable[DerivedResult]) -> DerivedResult | None:
    right = (r for r in group if r["derived"]["status"] in RIGHT)
    timed = [(time["median_us"], r) for r in right if (time := r["derived"]["time"])]
    return min(timed, key=lambda pair: pair[0], default=(0.0, None))[1]


def _leaders(best: DerivedResult | None) -> str:
    """The fastest implementation; `a ≈ b` where its lead is not resolved."""
    if best is None:
        return ""
    rival = best["derived"]["speedup"]["fastest_other"]
    if rival is None or rival["verdict"] == "faster":
        return str(best["impl"])
    return f"{best['impl']} ≈ {rival['over']}"


# Remarks below the table --------------------------------------------------------------------------------


def remarks(sweep: Sweep, *, timing: bool) -> list[Text]:
    """One line for each status with its reason, each doubt and each note."""
    width = max(map(len, sweep.impls))
    lines = []
    for impl in sweep.impls:
        head = f" {impl:<{width}}  "
        for status, reasons in _statuses(sweep, impl, timing=timing).items():
            lines.append(Text(f"{head}{status} at {_describe_sizes(sweep, list(reasons))}{_first_reason(reasons)}"))
        for name, details in _doubts(sweep, impl).items():
            where = _describe_sizes(sweep, list(details))
            lines.append(Text(f"{head}? {name} at {where}{_first_reason(details)}", style="yellow"))
        lines += [Text(f"{head}note: {note}", style="yellow") for note in _notes(sweep, impl)]
    if comparisons_hold([result["derived"] for group in sweep.groups.values() for result in group]):
        lines.append(Text(f" {HOLD}", style="yellow"))
    return lines


def _statuses(sweep: Sweep, impl: str, *, timing: bool) -> dict[str, dict[int, str]]:
    """Each status other than "right and timed", with its sizes and the reason at each."""
    reasons: dict[str, dict[int, str]] = {}
    for size in sweep.groups:
        result = sweep.result(size, impl)
        if result is None:
            continue
        derived = result["derived"]
        if derived["status"] != OK.name:
            reasons.setdefault(_status(result), {})[size] = str(derived["reason"])
        elif derived["time"] is None:
            status, reason = _untimed(result)
            reasons.setdefault(status, {})[size] = reason if timing else ""
    return reasons


def _untimed(result: DerivedResult) -> tuple[str, str]:
    """The status of a right implementation without a time, and why it has none."""
    checked_at = result["check"].get("checked_at") if result["check"] else None
    if checked_at and checked_at["interpreter"]:
        return "right in Triton's interpreter", "interpreter time is not speed"
    return "right", "not timed"


def _doubts(sweep: Sweep, impl: str) -> dict[str, dict[int, str]]:
    """Each reason not to trust times, with its sizes and the detail at each."""
    details: dict[str, dict[int, str]] = {}
    for size, point in sweep.curve(impl).items():
        for reason in point.trust["reasons"]:
            details.setdefault(reason["name"], {})[size] = reason["detail"]
    return details


def _notes(sweep: Sweep, impl: str) -> list[str]:
    notes: dict[str, None] = {}
    for size in sweep.groups:
        result = sweep.result(size, impl)
        if result is not None:
            notes |= dict.fromkeys(guard["detail"] for guard in result["guards"])
            if result["check"]:
                notes |= dict.fromkeys(result["check"].get("notes") or ())
    return list(notes)


def _first_reason(reasons: Mapping[int, str]) -> str:
    different = list(dict.fromkeys(reasons.values()))
    if not different[0]:
        return ""
    more = len(different) - 1
    return f": {different[0]}" + (f" (and {numbers.count(more, 'other reason')})" if more else "")


def _describe_sizes(sweep: Sweep, sizes: list[int]) -> str:
    if len(sizes) == len(sweep.groups):
        return "every size"
    if len(sizes) <= _MOST_SIZES:
        return f"{sweep.dim}={', '.join(map(str, sizes))}"
    return f"{len(sizes)} sizes from {sweep.dim}={sizes[0]} to {sizes[-1]}"


# The answer --------------------------------------------------------------------------------------------


def closing(sweep: Sweep) -> list[str]:
    """Which implementation is fastest over which sizes."""
    leaders = {size: _leaders(_fastest(group)) for size, group in sweep.groups.items()}
    # Two implementations whose lead is not resolved are the same pair whichever is ahead.
    leaders = {size: " ≈ ".join(sorted(names.split(" ≈ "))) for size, names in leaders.items() if names}
    if not leaders:
        return []
    stretches = [
        (names, [size for size, _ in run]) for names, run in itertools.groupby(leaders.items(), lambda x: x[1])
    ]
    if len(stretches) <= _MOST_STRETCHES:
        claims = [f"{_claim(names)} {_describe_stretch(sweep, sizes, len(leaders))}" for names, sizes in stretches]
    else:
        claims = _count_leads(leaders)
    return [f"{sweep.op} {sweep.label}: {'; '.join(claims)}.{_closest_to_limit(sweep)}"]


def _count_leads(leaders: Mapping[int, str]) -> list[str]:
    """At how many sizes each is fastest, where the lead changes too often to name every stretch."""
    sizes_by_name: dict[str, list[int]] = {}
    for size, names in leaders.items():
        sizes_by_name.setdefault("" if " ≈ " in names else names, []).append(size)
    claims = []
    for name, sizes in sorted(sizes_by_name.items(), key=lambda item: (not item[0], -len(item[1]))):
        between = f"{sizes[0]}" if len(sizes) == 1 else f"between {sizes[0]} and {sizes[-1]}"
        claim = f"{name} is fastest" if name else "no lead is resolved"
        claims.append(f"{claim} at {len(sizes)} of {len(leaders)} sizes, {between}")
    return claims


def _closest_to_limit(sweep: Sweep) -> str:
    shares = [
        (point.share, impl, size) for impl in sweep.impls for size, point in sweep.curve(impl).items() if point.share
    ]
    if not shares:
        return ""
    share, impl, size = max(shares)
    result = sweep.result(size, impl)
    limit = result["derived"]["limit"] if result else None
    ceiling = "copy bandwidth" if limit and limit["bound"] == "memory" else "matmul rate"
    claim = f"{impl} at {sweep.dim}={size} reaches {share_text(share)} of this machine's {ceiling}"
    return f" At best, {claim}{numbers.ceiling_doubt(share)}."


def _claim(names: str) -> str:
    if " ≈ " in names:
        return f"the lead between {names.replace(' ≈ ', ' and ')} is not resolved"
    return f"{names} is fastest"


def _describe_stretch(sweep: Sweep, sizes: list[int], total: int) -> str:
    if len(sizes) == total:
        return "at every size"
    return f"at {sweep.dim}={sizes[0]}" if len(sizes) == 1 else f"from {sweep.dim}={sizes[0]} to {sizes[-1]}"


# Growth ------------------------------------------------------------------------------------------------


def fit_growth(sweep: Sweep) -> dict[str, growth_fit.Fit]:
    """How the time of each implementation grows, where its sizes are enough to tell."""
    fits = {}
    for impl in sweep.impls:
        times = {size: point.time for size, point in sweep.curve(impl).items()}
        fit = growth_fit.fit((size, t["median_us"], t["low_us"], t["high_us"]) for size, t in times.items())
        if fit is not None:
            fits[impl] = fit
    return fits


def growth(sweep: Sweep) -> list[str]:
    """`torch: time grows as N^0.12 (0.02 to 0.22) up to 512, then as N^2.98 (2.90 to 3.05)`."""
    lines = []
    for impl, fit in fit_growth(sweep).items():
        if fit.below is None or fit.above is None:
            law = _power(sweep.dim, fit.whole)
        else:
            law = f"{_power(sweep.dim, fit.below)} up to {fit.below.last:g}, then as {_power(sweep.dim, fit.above)}"
        lines.append(f"{sweep.op} {impl}: time grows as {law}")
    return lines


def _power(dim: str, growth: growth_fit.Growth) -> str:
    exponent, low, high = (round(value, 2) + 0.0 for value in (growth.exponent, growth.low, growth.high))  # no −0.00
    return f"{dim}^{exponent:.2f} ({low:.2f} to {high:.2f})"
