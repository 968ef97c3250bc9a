"""One table per op and case, fastest first, and a closing line that answers the question in words."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from kernellab.record import verdict
from kernellab.reporting.charts import characters as chart
from kernellab.reporting.charts import files as curves
from kernellab.reporting.charts import series
from kernellab.reporting.charts import table as sweep
from kernellab.reporting.terminal import battery, details, panel
from kernellab.reporting.terminal import sanitizer as sanitized
from kernellab.reporting.text import numbers as words
from kernellab.stats.intervals import FEWEST

_BAD = verdict.BAD | {"unknown"}


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
    return f"({words.ratio(speedup['low'])}–{words.ratio(speedup['high'])})"


def _over_rival(r: Mapping[str, Any]) -> str:
    s = r["derived"]["speedup"]["fastest_other"]
    if s is None:
        return ""
    unresolved = "too few rounds:" if _few(r) else "not resolved:"
    said = {"same": "same as", "not resolved": unresolved}.get(s["verdict"], words.times(s["median"]))
    return f"{said} {s['over']} {_interval(s)}"


def _few(r: Mapping[str, Any]) -> bool:
    """No interval has 99 % confidence with so few rounds."""
    return bool(r["derived"]["time"]["rounds"] < FEWEST)


def _rate(r: Mapping[str, Any]) -> str:
    limit = r["derived"]["limit"]
    if not limit or limit["gbps"] is None:
        return ""
    if limit["tflops"]:
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


def show(record: Mapping[str, Any], out: Console, *, verbose: bool = False) -> None:
    """The whole record, then the answer."""
    for group in _one_by_one(record):
        _show_group(group, record, out, verbose=verbose)
    show_sweeps(record, out, more_than=sweep.COMPACT)
    battery.show(record["batteries"], record["results"], out, verbose=verbose)
    sanitized.show(record["sanitized"], out, verbose=verbose)
    for line in [*closing(record), *battery.closing(record["batteries"]), *sanitized.closing(record["sanitized"])]:
        out.print(Text(line))


def show_sweeps(record: Mapping[str, Any], out: Console, *, more_than: int) -> None:
    """Tables of the sweeps of more sizes than this; charts and growth of all that were timed."""
    for found in series.find(record):
        if len(found.sizes) > more_than:
            sweep.show(found, record, out)
        if found.timed:
            chart.show(found, out)
        for line in sweep.growth(found):
            out.print(Text(line))


def show_files(written: list[Path], folder: str, out: Console) -> None:
    """What was drawn, and what could not be."""
    for name in curves.named(written, folder):
        out.print(Text(f"curves: {name}", style="dim"), soft_wrap=True)
    lacking = curves.missing() if written else None
    if lacking:
        out.print(Text(lacking, style="dim"))


def _one_by_one(record: Mapping[str, Any]) -> list[list[Mapping[str, Any]]]:
    """The groups that are no part of a long sweep."""
    long = [found for found in series.find(record) if len(found.sizes) > sweep.COMPACT]
    swept = {id(group[0]) for found in long for group in found.groups.values()}
    return [group for group in verdict.groups(record) if id(group[0]) not in swept]


def _show_group(group: list[Mapping[str, Any]], record: Mapping[str, Any], out: Console, *, verbose: bool) -> None:
    op, case = group[0]["op"], group[0]["case"]
    device = record["machine"].get("device", case["device"])
    out.print(Text.assemble((op, "bold"), f" · {words.case_label(case)} · {device}"))
    passes = list(group[0]["derived"]["passes"])
    shown = set()
    for of in passes:
        rows = [_of_pass(r, of) for r in group if r["derived"]["status"] == "ok"]
        rows = sorted((r for r in rows if r["derived"]["time"]), key=lambda r: r["derived"]["time"]["median_us"])
        shown |= {r["impl"] for r in rows}
        if rows and passes != ["forward"]:
            out.print(Text(f" {of}", style="italic"))
        if rows:
            out.print(_fitting(_table_columns(rows, record), rows, out.width))
        for line in _doubts(rows):
            _print_line(out, " ", Text(line, style="yellow"))
    panel.show(group, out)
    widest = max(len(r["impl"]) for r in group)
    for result in group:
        head = f" {result['impl']:<{widest}}  "
        if result["impl"] not in shown:
            _print_line(out, head, _said(result, record))
        failed = [f"{e['timer']} timer: {e['status']}: {e['reason']}" for e in verdict.faults(result)]
        notes = failed if result["derived"]["status"] == "ok" else []
        gradients = result.get("gradients") or {}
        if gradients.get("status") == "skipped":
            notes.append(f"no backward: {gradients['reason']}")
        for note in [*notes, *(g["detail"] for g in result["guards"]), *((result["check"] or {}).get("notes") or [])]:
            _print_line(out, head, Text(f"note: {note}", style="yellow"))
        for line in details.of(result) if verbose else ():
            _print_line(out, head, Text(line, style="dim"))
    out.print()


def _of_pass(result: Mapping[str, Any], of: str) -> Mapping[str, Any]:
    """The result with what is derived of one pass in the place of the main one's."""
    return {**result, "derived": {**result["derived"], **result["derived"]["passes"][of]}}


def _doubts(rows: list[Mapping[str, Any]]) -> list[str]:
    """Why times are not to be trusted, each reason once."""
    found: dict[tuple[str, str], list[str]] = {}
    for r in rows:
        for reason in r["derived"]["trust"]["reasons"]:
            found.setdefault((reason["name"], reason["detail"]), []).append(r["impl"])
    return [
        f"{name}{'' if len(impls) == len(rows) else ' (' + ', '.join(impls) + ')'}: {detail}"
        for (name, detail), impls in found.items()
    ]


def _table_columns(timed: list[Mapping[str, Any]], record: Mapping[str, Any]) -> list[Column]:
    baseline = next(
        (r["derived"]["speedup"]["baseline"]["over"] for r in timed if r["derived"]["speedup"]["baseline"]), None
    )
    bound = next((r["derived"]["limit"]["bound"] for r in timed if r["derived"]["limit"]), None)
    columns = [Column("way", lambda r: r["impl"]), Column("time", _time), Column("99 %", _spread, 2)]
    columns.append(Column("trust", lambda r: r["derived"]["trust"]["verdict"]))
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
    """The table with as many of the sparable columns as the screen has room for, the most useful first."""
    wide = Console(width=1000)
    chosen = [c for c in columns if c.spare == 0]
    for column in sorted((c for c in columns if c.spare), key=lambda c: c.spare):
        more = [c for c in columns if c in chosen or c is column]
        if Measurement.get(wide, wide.options, _table(more, rows)).maximum <= width:
            chosen = more
    return _table(chosen, rows)


def _table(columns: list[Column], rows: list[Mapping[str, Any]]) -> Table:
    table = Table(box=None, pad_edge=True, padding=(0, 1), header_style="dim")
    for column in columns:
        left = column.title.startswith(("way", "over", "trust"))
        table.add_column(column.title, justify="left" if left else "right", no_wrap=True)
    for position, row in enumerate(rows):
        # As Text, or rich would read a name like `python[v2]` as markup.
        table.add_row(*(Text(column.show(row)) for column in columns), style="bold" if position == 0 else None)
    return table


def _print_line(out: Console, head: str, said: Text) -> None:
    """On a terminal, wrapped beside its head; elsewhere one line, however long."""
    if not out.is_terminal:
        out.print(Text(head) + said, soft_wrap=True)
        return
    line = Table.grid()
    line.add_column(no_wrap=True)
    line.add_column()
    line.add_row(Text(head), said)
    out.print(line)


def _said(result: Mapping[str, Any], record: Mapping[str, Any]) -> Text:
    """What there is to say of a way that has no place in the table."""
    status, reason = result["derived"]["status"], result["derived"]["reason"]
    if status == "ok":
        failed = battery.failing(record["batteries"]).get((result["op"], result["impl"]))
        right = _right(result["check"], result["case"], result["impl"], "time" in record["stages"])
        if failed is None:
            return Text(right)
        return Text.assemble(right.replace("right", "right at the declared case", 1), (f"; {failed}", "bold red"))
    if status in _BAD:
        return Text.assemble((f"{'cannot tell' if status == 'unknown' else status}: ", "bold red"), str(reason))
    return Text(f"{status}: {reason}", style="dim")


def _right(check: Mapping[str, Any], case: Mapping[str, Any], impl: str, timing: bool) -> str:
    at, peer, error = check["checked_at"], check["peer"], check["errors"]["max"]
    said = "right in Triton's interpreter" if at["interpreter"] else "right"
    if at["dims"] != case["dims"]:
        said += f" at {words.size(at)}"
    if error is not None:
        said += f", error {error:.2g}"
        if peer["impl"] != impl and peer["max"] is not None:
            said += f" ({peer['impl']}'s {peer['max']:.2g})"
    if check["outside"]:
        said += f"; outside its domain: {words.count(len(check['outside']), 'option value')}"
    if at["interpreter"] and timing:
        said += "; not timed: interpreter time is not speed"
    return said


# The answer --------------------------------------------------------------------------------------------


def closing(record: Mapping[str, Any]) -> list[str]:
    """Which way is fastest at each case and by how much, then how many are right."""
    lines = []
    for group in _one_by_one(record):
        line = _winner(group)
        if line:
            lines.append(line)
    for found in series.find(record):
        if len(found.sizes) > sweep.COMPACT:
            lines += sweep.closing(found)
    statuses = [r["derived"]["status"] for r in record["results"]]
    failing = battery.failing(record["batteries"])
    here_only = [r for r in record["results"] if r["derived"]["status"] == "ok" and (r["op"], r["impl"]) in failing]
    right, skipped = statuses.count("ok") - len(here_only), statuses.count("skipped")
    bad = [r for r in record["results"] if r["derived"]["status"] in _BAD]
    summary = f"{words.count(right, 'result')} right"
    if skipped:
        summary += f", {skipped} skipped"
    if here_only:
        summary += f", {len(here_only)} right at the declared case alone: {_named(here_only)}"
    if bad:
        summary += f", {len(bad)} not right: {_named(bad)}"
    if not record["complete"]:
        summary += "; the run did not finish"
    return [*lines, summary + "."]


def _named(results: list[Mapping[str, Any]]) -> str:
    by_op: dict[str, dict[str, None]] = {}
    for r in results:
        by_op.setdefault(r["op"], {})[r["impl"]] = None
    return "; ".join(f"{op} {', '.join(impls)}" for op, impls in by_op.items())


def _winner(group: list[Mapping[str, Any]]) -> str | None:
    timed = [r for r in group if r["derived"]["time"] is not None and r["derived"]["status"] == "ok"]
    if not timed:
        return None
    best = min(timed, key=lambda r: r["derived"]["time"]["median_us"])
    where = f"{best['op']} {words.case_label(best['case'])}"
    rival, base = best["derived"]["speedup"]["fastest_other"], best["derived"]["speedup"]["baseline"]
    if rival is None:
        said = f"{best['impl']} takes {_time(best)}"
    elif rival["verdict"] == "faster":
        said = f"{best['impl']} is fastest, {words.times(rival['median'])} as fast as {rival['over']}"
    elif rival["verdict"] == "same":
        said = f"{best['impl']} and {rival['over']} are equally fast"
    else:
        count = words.count(best["derived"]["time"]["rounds"], "round")
        why = f"cannot be told from {count}" if _few(best) else "is not resolved"
        said = f"{best['impl']} leads, though its lead over {rival['over']} {why}"
    if base and rival and base["over"] != rival["over"]:
        said += f"; {words.times(base['median'])} as fast as {base['over']}"
    limit = best["derived"]["limit"]
    if limit and limit["fraction"]:
        ceiling = "copy bandwidth" if limit["bound"] == "memory" else "matmul rate"
        said += f", at {words.percent(limit['fraction'])} of this machine's {ceiling}"
        said += words.doubt(limit["fraction"])
    return f"{where}: {said}."
