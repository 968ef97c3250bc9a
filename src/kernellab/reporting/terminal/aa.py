"""The summary of `klab doctor --aa` as tables: one row per known difference."""

from __future__ import annotations

from rich.console import Console

from kernellab.doctor.aa_summary import CaseSummary, Difference, Summary
from kernellab.reporting.text import numbers
from kernellab.reporting.text.table import Column, Row, Table, print_table


def show(summary: Summary, out: Console) -> None:
    for case in summary["cases"]:
        _show_case(case, out)
    out.print(f"{numbers.count(summary['runs'], 'run')}, each a process of its own, on {summary['machine']}")


def _show_case(case: CaseSummary, out: Console) -> None:
    timer = f"{case['timer']}, cache {case['cache']}"
    out.print(f"{numbers.case_label(case['case'])} · {case['case']['device']} · {timer}", style="bold")
    if case["median_us"] is None:
        out.print("  not timed\n")
        return
    equal = case["equal"]
    rows = [Row(["equal", *_cells(case, "b", equal)])]
    rows += [Row([f"+{m['percent']} % work", *_cells(case, f"plus{m['percent']}", m)]) for m in case["more_work"]]
    titles = ("measured", "called the same", "slower", "faster", "not resolved", "99 % interval")
    print_table(Table([Column("difference", "left"), *map(Column, titles)], rows), out)
    variation = f", ± {_percent(case['variation'])} from run to run (standard deviation)" if case["variation"] else ""
    out.print(f"  time {numbers.duration(case['median_us'])}{variation}")
    out.print(f"  the interval on two equal implementations covers 1 in {equal['covers']} of {equal['of']} runs")
    out.print(f"  trust: {', '.join(f'{word} {count}' for word, count in case['trust'].items())}\n")


def _cells(case: CaseSummary, impl: str, difference: Difference) -> list[str]:
    verdicts = [pair["verdict"] for run in case["runs"] if (pair := run["against_a"][impl]) is not None]
    measured, half_width = difference["measured"], difference["half_width"]
    if measured is None or half_width is None:
        return ["not timed", *[""] * 5]
    counts = [str(verdicts.count(verdict) or "–") for verdict in ("same", "slower", "faster", "not resolved")]
    return [f"{100 * measured:+.2f} %", *counts, f"± {_percent(half_width)}"]


def _percent(fraction: float) -> str:
    return f"{100 * fraction:.2g} %" if fraction < 0.1 else f"{100 * fraction:.0f} %"
