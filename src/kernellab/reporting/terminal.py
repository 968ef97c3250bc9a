"""One table per op and case, fastest first, and a closing line that answers the question in words."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from rich.console import Console
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from kernellab.reporting import words

_PIPED_WIDTH = 160
_TOO_FAST = 1.1  # a way this far above a ceiling says that the ceiling was measured on a busy machine
_BAD = {"wrong", "error", "crashed", "timeout", "oom", "unknown"}


def console(*, stderr: bool = False) -> Console:
    """Fits the terminal; when piped, plain text wide enough that nothing is cut."""
    stream = sys.stderr if stderr else sys.stdout
    width = None if stream.isatty() else _PIPED_WIDTH
    return Console(stderr=stderr, width=width, highlight=False, soft_wrap=False)


@dataclass(frozen=True)
class Column:
    """One column: what it shows of a result; a higher `spare` is dropped earlier on a narrow screen."""

    title: str
    show: Callable[[Mapping[str, Any]], str]
    spare: int = 0


def _time(r: Mapping[str, Any]) -> str:
    return words.duration(r["derived"]["time"]["median_us"])


def _spread(r: Mapping[str, Any]) -> str:
    t = r["derived"]["time"]
    return words.spread(t["median_us"], t["low_us"], t["high_us"])


def _over_baseline(r: Mapping[str, Any]) -> str:
    s = r["derived"]["speedup"]["baseline"]
    return f"{words.times(s['median'])} {_interval(s)}" if s else ""


def _interval(speedup: Mapping[str, Any]) -> str:
    return f"({speedup['low']:.3g}–{speedup['high']:.3g})"


def _over_rival(r: Mapping[str, Any]) -> str:
    s = r["derived"]["speedup"]["fastest_other"]
    if s is None:
        return ""
    said = {"same": "same as", "not resolved": "not resolved:"}.get(s["verdict"], words.times(s["median"]))
    return f"{said} {s['over']} {_interval(s)}"


def _rate(r: Mapping[str, Any]) -> str:
    limit = r["derived"]["limit"]
    if not limit:
        return ""
    if limit.get("tflops"):
        return f"{words.digits(limit['tflops'])} TFLOP/s"
    return f"{words.digits(limit['gbps'])} GB/s"


def _share(r: Mapping[str, Any]) -> str:
    limit = r["derived"]["limit"]
    return words.percent(limit["fraction"]) if limit and limit["fraction"] else ""


def _error(r: Mapping[str, Any]) -> str:
    check = r["check"]
    if not check.get("errors") or check["errors"]["max"] is None:
        return ""
    return f"{check['errors']['max']:.2g}"


def _build(r: Mapping[str, Any]) -> str:
    seconds = r["derived"]["build_s"]
    return f"{seconds:.1f} s" if seconds is not None and seconds >= 0.05 else ""


def _kernels(r: Mapping[str, Any]) -> str:
    return "" if r["kernels"] is None else str(len(r["kernels"]))


def groups_of(record: Mapping[str, Any]) -> Iterable[list[Mapping[str, Any]]]:
    groups: dict[str, list[Mapping[str, Any]]] = {}
    for result in record["results"]:
        groups.setdefault(f"{result['op']} {result['case']}", []).append(result)
    return groups.values()


def show(record: Mapping[str, Any], out: Console) -> None:
    """The whole record, then the answer."""
    for group in groups_of(record):
        _show_group(group, record, out)
    for line in closing(record):
        out.print(Text(line))


def _show_group(group: list[Mapping[str, Any]], record: Mapping[str, Any], out: Console) -> None:
    op, case = group[0]["op"], group[0]["case"]
    device = record["machine"].get("device", case["device"])
    out.print(Text.assemble((op, "bold"), f" · {words.case_label(case)} · {device}"))
    timed = [r for r in group if r["derived"]["time"] is not None and r["derived"]["status"] == "ok"]
    timed.sort(key=lambda r: r["derived"]["time"]["median_us"])
    if timed:
        out.print(_fitting(_table_columns(timed, record), timed, out.width))
    widest = max(len(r["impl"]) for r in group)
    for result in group:
        if result not in timed:
            out.print(_line(result, widest, "time" in record["stages"]), soft_wrap=not out.is_terminal)
        for note in [*(g["detail"] for g in result["guards"]), *((result["check"] or {}).get("notes") or [])]:
            out.print(Text(f" {result['impl']}: note: {note}", style="yellow"), soft_wrap=not out.is_terminal)
    out.print()


def _table_columns(timed: list[Mapping[str, Any]], record: Mapping[str, Any]) -> list[Column]:
    baseline = next(
        (r["derived"]["speedup"]["baseline"]["over"] for r in timed if r["derived"]["speedup"]["baseline"]), None
    )
    bound = next((r["derived"]["limit"]["bound"] for r in timed if r["derived"]["limit"]), None)
    columns = [Column("way", lambda r: r["impl"]), Column("time", _time), Column("99 %", _spread, 2)]
    if baseline:
        columns.append(Column(f"over {baseline}", _over_baseline))
    if len(timed) > 1:
        columns.append(Column("over the fastest other", _over_rival, 1))
    columns += [Column("rate", _rate)]
    if bound:
        columns.append(Column("of copy" if bound == "memory" else "of matmul", _share))
    if any(r["kernels"] is not None for r in timed):
        columns.append(Column("kernels", _kernels, 3))
    columns += [Column("error", _error, 4), Column("build", _build, 3)]
    return columns


def _fitting(columns: list[Column], rows: list[Mapping[str, Any]], width: int) -> Table:
    """The table, less the most sparable columns until it fits the screen."""
    while True:
        table = _table(columns, rows)
        wide = Console(width=1000)
        needed = Measurement.get(wide, wide.options, table).maximum
        spare = max(c.spare for c in columns)
        if needed <= width or spare == 0:
            return table
        columns = [c for c in columns if c.spare != spare]


def _table(columns: list[Column], rows: list[Mapping[str, Any]]) -> Table:
    table = Table(box=None, pad_edge=True, padding=(0, 1), header_style="dim")
    for column in columns:
        left = column.title.startswith(("way", "over"))
        table.add_column(column.title, justify="left" if left else "right", no_wrap=True)
    for position, row in enumerate(rows):
        table.add_row(*(column.show(row) for column in columns), style="bold" if position == 0 else None)
    return table


def _line(result: Mapping[str, Any], widest: int, timing: bool) -> Text:
    """A way that has no place in the table, with the reason."""
    derived = result["derived"]
    status, reason = derived["status"], derived["reason"]
    head = f" {result['impl']:<{widest}}  "
    if status == "ok":
        at = result["check"]["checked_at"]
        where = f"right in Triton's interpreter at {words.size(at)}" if at["interpreter"] else "right"
        error, peer = result["check"]["errors"]["max"], result["check"]["peer"]
        against = f", error {error:.2g}" + (
            f" ({peer['impl']}'s {peer['max']:.2g})" if peer["impl"] != result["impl"] else ""
        )
        outside = result["check"]["outside"]
        beyond = f"; outside its domain: {words.count(len(outside), 'option')}" if outside else ""
        tail = "; not timed: interpreter time is not speed" if at["interpreter"] and timing else ""
        return Text(f"{head}{where}{against}{beyond}{tail}")
    if status in _BAD:
        label = {"unknown": "cannot tell"}.get(status, status)
        return Text.assemble(head, (f"{label}: ", "bold red"), str(reason))
    return Text(f"{head}{status}: {reason}", style="dim")


# The answer --------------------------------------------------------------------------------------------


def closing(record: Mapping[str, Any]) -> list[str]:
    """Which way is fastest at each case and by how much, then how many are right."""
    lines = []
    for group in groups_of(record):
        line = _winner(group)
        if line:
            lines.append(line)
    statuses = [r["derived"]["status"] for r in record["results"]]
    right, skipped = statuses.count("ok"), statuses.count("skipped")
    bad = [r for r in record["results"] if r["derived"]["status"] in _BAD]
    summary = f"{words.count(right, 'result')} right"
    if skipped:
        summary += f", {skipped} skipped"
    if bad:
        named = ", ".join(dict.fromkeys(f"{r['op']} {r['impl']}" for r in bad))
        summary += f", {len(bad)} not right: {named}"
    if not record["complete"]:
        summary += "; the run did not finish"
    return [*lines, summary + "."]


def _winner(group: list[Mapping[str, Any]]) -> str | None:
    timed = [r for r in group if r["derived"]["time"] is not None and r["derived"]["status"] == "ok"]
    if not timed:
        return None
    best = min(timed, key=lambda r: r["derived"]["time"]["median_us"])
    where = f"{best['op']} {words.case_label(best['case'])}"
    rival, base = best["derived"]["speedup"]["fastest_other"], best["derived"]["speedup"]["baseline"]
    if rival is None:
        return f"{where}: {best['impl']} takes {_time(best)}."
    if rival["verdict"] == "faster":
        said = f"{best['impl']} is fastest, {words.times(rival['median'])} as fast as {rival['over']}"
    elif rival["verdict"] == "same":
        said = f"{best['impl']} and {rival['over']} are equally fast"
    else:
        said = f"{best['impl']} leads, though its lead over {rival['over']} is not resolved"
    if base and base["over"] != rival["over"]:
        said += f"; {words.times(base['median'])} as fast as {base['over']}"
    limit = best["derived"]["limit"]
    if limit and limit["fraction"]:
        ceiling = "copy bandwidth" if limit["bound"] == "memory" else "matmul rate"
        said += f", at {words.percent(limit['fraction'])} of this machine's {ceiling}"
        if limit["fraction"] > _TOO_FAST:
            said += " (measured too low? --refresh-ceilings measures it again)"
    return f"{where}: {said}."
