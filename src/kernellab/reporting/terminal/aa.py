"""What `klab doctor --aa` found, as tables: one line per case and known difference."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.console import Console
from rich.table import Table

from kernellab.reporting.text import numbers as words


def show(summary: Mapping[str, Any], out: Console) -> None:
    for case in summary["cases"]:
        _case(case, out)
    out.print(f"{words.count(summary['runs'], 'run')} in processes of their own, on {summary['machine']}")


def _case(case: Mapping[str, Any], out: Console) -> None:
    timer = f"{case['timer']}, cache {case['cache']}"
    out.print(f"{words.case_label(case['case'])} · {case['case']['device']} · {timer}", style="bold")
    if case["median_us"] is None:
        out.print("  not timed\n")
        return
    table = Table(box=None, pad_edge=True, padding=(0, 1))
    table.add_column("known")
    for title in ("measured", "called the same", "slower", "faster", "not resolved", "99 % interval"):
        table.add_column(title, justify="right")
    equal = case["equal"]
    table.add_row("equal", *_row(case, "b", equal))
    for more in case["more_work"]:
        table.add_row(f"+{more['percent']} % work", *_row(case, f"plus{more['percent']}", more))
    out.print(table)
    varied = f", from run to run ± {_percent(case['variation'])} (standard deviation)" if case["variation"] else ""
    out.print(f"  time {words.duration(case['median_us'])}{varied}")
    out.print(f"  the interval on two equal ways covers 1 in {equal['covers']} of {equal['of']} runs")
    out.print(f"  trust: {', '.join(f'{word} {count}' for word, count in case['trust'].items())}\n")


def _row(case: Mapping[str, Any], name: str, found: Mapping[str, Any]) -> list[str]:
    said = [pair["verdict"] for run in case["runs"] if (pair := run["against_a"][name]) is not None]
    if not said:
        return ["not timed"]
    counts = [str(said.count(verdict) or "–") for verdict in ("same", "slower", "faster", "not resolved")]
    return [f"{100 * found['measured']:+.2f} %", *counts, f"± {_percent(found['half_width'])}"]


def _percent(share: float) -> str:
    return f"{100 * share:.2g} %" if share < 0.1 else f"{100 * share:.0f} %"
