"""The results of a run: one table per op and case, fastest first, and closing lines that answer in words."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from rich.console import Console
from rich.text import Text

from kernellab.base.text import share_text
from kernellab.declaration.documents import CaseJson
from kernellab.record import verdict
from kernellab.record.derived import (
    DerivedRecord,
    DerivedResult,
    LimitJson,
    PassVerdict,
    Ratio,
    Speedups,
    TimeVerdict,
    TrustVerdict,
)
from kernellab.record.schema import CheckOutcome
from kernellab.record.statuses import FAILED, IMPRECISE, OK, RIGHT, UNKNOWN
from kernellab.reporting.charts import characters, files, series
from kernellab.reporting.charts import table as sweep_table
from kernellab.reporting.terminal import battery, details, panel, sanitizer
from kernellab.reporting.text import numbers
from kernellab.reporting.text.table import Cell, Column, Row, Table, print_lines, print_table
from kernellab.stats.intervals import FEWEST
from kernellab.timing.timer import WARM
from kernellab.timing.timers import default_timer

_BAD = FAILED | {UNKNOWN}


def show(record: DerivedRecord, out: Console, *, verbose: bool = False) -> None:
    """The whole record, then the answer."""
    for group in _groups_outside_sweeps(record):
        _show_group(group, record, out, verbose=verbose)
    show_sweeps(record, out, more_than=sweep_table.COMPACT)
    battery.show(record["batteries"], record["results"], out, verbose=verbose)
    sanitizer.show(record["sanitized"], out, verbose=verbose)
    for line in [*closing(record), *battery.closing(record["batteries"]), *sanitizer.closing(record["sanitized"])]:
        out.print(Text(line), soft_wrap=not out.is_terminal)


def show_sweeps(record: DerivedRecord, out: Console, *, more_than: int) -> None:
    """Tables of the sweeps of more sizes than this; charts and growth of every sweep that was timed."""
    for sweep in series.find(record):
        if len(sweep.sizes) > more_than:
            sweep_table.show(sweep, record, out)
        if sweep.timed:
            characters.show(sweep, out)
        for line in sweep_table.growth(sweep):
            out.print(Text(line), soft_wrap=not out.is_terminal)


def show_files(written: list[Path], folder: str, out: Console) -> None:
    """The files that were written, and which packages are missing for others."""
    for name in files.group_names(written, folder):
        out.print(Text(f"curves: {name}", style="dim"), soft_wrap=True)
    missing = files.missing_packages() if written else None
    if missing:
        out.print(Text(missing, style="dim"))


def _groups_outside_sweeps(record: DerivedRecord) -> list[list[DerivedResult]]:
    """The groups that are not part of a long sweep, which has a table of its own."""
    sweeps = [sweep for sweep in series.find(record) if len(sweep.sizes) > sweep_table.COMPACT]
    swept = {id(group[0]) for sweep in sweeps for group in sweep.groups.values()}
    return [list(group) for group in verdict.groups(record["results"]) if id(group[0]) not in swept]


# One op at one case ------------------------------------------------------------------------------------


def _show_group(group: list[DerivedResult], record: DerivedRecord, out: Console, *, verbose: bool) -> None:
    op, case = group[0]["op"], group[0]["case"]
    device = record["machine"].get("device", case["device"])
    out.print(Text.assemble((op, "bold"), f" · {numbers.case_label(case)} · {device}{_timing_label(group)}"))
    passes = list(group[0]["derived"]["passes"])
    in_table: set[str] = set()
    for pass_name in passes:
        verdicts = [(r, r["derived"]["passes"][pass_name]) for r in group if _is_right_here(r)]
        rows = [row for result, pass_verdict in verdicts if (row := _timed(result, pass_verdict))]
        rows.sort(key=lambda row: row.time["median_us"])
        in_table |= {row.impl for row in rows}
        if rows and passes != ["forward"]:
            out.print(Text(f" {pass_name}", style="italic"))
        if rows:
            print_table(_time_table(rows), out)
        for line in _trust_notes(rows):
            _print_wrapped([Text(line, style="yellow")], out)
        for line in _cross_check_notes(rows, pass_name):
            _print_wrapped([Text(line, style="dim")], out)
    panel.show(group, out)
    width = max(len(r["impl"]) for r in group)
    for result in group:
        head = f"{result['impl']:<{width}}"
        if result["impl"] not in in_table or result["derived"]["status"] != OK.name:
            _print_wrapped([head, _status_text(result, record)], out)
        for note in _notes(result):
            _print_wrapped([head, Text(f"note: {note}", style="yellow")], out)
        for line in details.detail_lines(result) if verbose else ():
            _print_wrapped([head, Text(line, style="dim")], out)
    out.print()


def _timing_label(group: list[DerivedResult]) -> str:
    """` · host timer, warm cache`; empty for times of the default timer with a cold cache."""
    time = next((time for result in group if (time := result["derived"]["time"])), None)
    if time is None:
        return ""
    labels = []
    if time["timer"] not in (None, default_timer(group[0]["case"]["device"]).name):
        labels.append(f"{time['timer']} timer")
    if time["cache"] == WARM:
        labels.append("warm cache")
    return f" · {', '.join(labels)}" if labels else ""


@dataclass(frozen=True)
class _TimedResult:
    """A result, and the verdict of one pass in which it was timed."""

    result: DerivedResult
    time: TimeVerdict
    trust: TrustVerdict
    speedup: Speedups
    limit: LimitJson | None

    @property
    def impl(self) -> str:
        return self.result["impl"]


def _timed(result: DerivedResult, pass_verdict: PassVerdict) -> _TimedResult | None:
    """None where the pass was not timed."""
    time, trust = pass_verdict["time"], pass_verdict["trust"]
    if time is None or trust is None:
        return None
    return _TimedResult(result, time, trust, pass_verdict["speedup"], pass_verdict["limit"])


def _trust_notes(rows: list[_TimedResult]) -> list[str]:
    """Why times cannot be trusted, each reason once."""
    return _join_notes(rows, [(row.impl, r["name"], r["detail"]) for row in rows for r in row.trust["reasons"]])


def _cross_check_notes(rows: list[_TimedResult], pass_name: str) -> list[str]:
    """Which times no clock outside the worker has confirmed, and why."""
    notes = []
    for row in rows:
        series = (pass_name, row.time["timer"], row.time["cache"])
        for entry in row.result["times"]:
            check = entry.get("cross_check")
            if check and check["reason"] and (entry["pass"], entry["timer"], entry["cache"]) == series:
                notes.append((row.impl, check["verdict"], check["reason"]))
    return _join_notes(rows, notes)


def _join_notes(rows: list[_TimedResult], notes: list[tuple[str, str, str]]) -> list[str]:
    """Lines from notes of implementation, name and detail: each name and detail once, with its implementations."""
    impls: dict[tuple[str, str], list[str]] = {}
    for impl, name, detail in notes:
        impls.setdefault((name, detail), []).append(impl)
    return [
        f"{name}{'' if len(names) == len(rows) else ' (' + ', '.join(names) + ')'}: {detail}"
        for (name, detail), names in impls.items()
    ]


def _notes(result: DerivedResult) -> list[str]:
    """What has no place in the table: series that failed, a missing backward, what guards and the check noticed."""
    notes = []
    if _is_right_here(result):
        notes += [f"{e['timer']} timer: {e['status']}: {e['reason']}" for e in verdict.faults(result)]
    gradients, check = result.get("gradients"), result["check"]
    if gradients and gradients["status"] == "skipped":
        notes.append(f"no backward: {gradients['reason']}")
    if check and "flaw" in check:
        found = result["derived"]["status"] not in RIGHT
        notes.append(f"wrong on purpose: {check['flaw']}{'' if found else '; nothing that was tried here shows it'}")
    notes += [guard["detail"] for guard in result["guards"]]
    return [*notes, *((check.get("notes") if check else None) or [])]


def _print_wrapped(cells: list[Cell], out: Console) -> None:
    """A line whose last cell is wrapped beside the others on a terminal; elsewhere one line, however long."""
    columns = [*(Column("", "left") for _ in cells[1:]), Column("", "left", wrap_to=20)]
    print_lines(Table(columns, [Row(cells)], header=False).lines(out.width if out.is_terminal else None), out)


# The table of times ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _TimeColumn:
    """A column of the table, and what it shows of a result. `drop`: see Column."""

    title: str
    cell: Callable[[_TimedResult], str]
    drop: int = 0
    align: Literal["left", "right"] = "right"
    cut_to: int | None = None


def _time_table(rows: Sequence[_TimedResult]) -> Table:
    columns = _time_columns(rows)
    return Table(
        [Column(c.title, c.align, c.drop, c.cut_to) for c in columns],
        [Row([c.cell(row) for c in columns], "" if position else "bold") for position, row in enumerate(rows)],
    )


def _time_columns(rows: Sequence[_TimedResult]) -> list[_TimeColumn]:
    baselines = [baseline["over"] for r in rows if (baseline := r.speedup["baseline"])]
    bounds = [r.limit["bound"] for r in rows if r.limit]
    columns = [
        _TimeColumn("impl", lambda r: r.impl, align="left", cut_to=12),
        _TimeColumn("time", _time),
        _TimeColumn("99 %", _spread, drop=4),
        _TimeColumn("trust", lambda r: r.trust["verdict"], align="left"),
    ]
    if baselines:
        columns.append(_TimeColumn(f"over {baselines[0]}", _over_baseline, drop=1, align="left"))
    if len(rows) > 1:
        columns.append(_TimeColumn("over the fastest other", _over_fastest_other, drop=3, align="left"))
    columns.append(_TimeColumn("rate", _rate, drop=2))
    if bounds and bounds[0]:
        columns.append(_TimeColumn("of copy" if bounds[0] == "memory" else "of matmul", _fraction))
    if any(r.result["kernels"] is not None for r in rows):
        columns.append(_TimeColumn("kernels", _kernels, drop=5))
    return [*columns, _TimeColumn("error", _error, drop=7), _TimeColumn("build", _build, drop=6)]


def _time(r: _TimedResult) -> str:
    return numbers.duration(r.time["median_us"])


def _spread(r: _TimedResult) -> str:
    return numbers.spread(r.time["median_us"], r.time["low_us"], r.time["high_us"])


def _over_baseline(r: _TimedResult) -> str:
    speedup = r.speedup["baseline"]
    return f"{numbers.times(speedup['median'])} {_interval(speedup)}" if speedup else ""


def _over_fastest_other(r: _TimedResult) -> str:
    speedup = r.speedup["fastest_other"]
    if speedup is None:
        return ""
    unresolved = "too few rounds:" if _too_few_rounds(r) else "not resolved:"
    phrases = {"same": "same as", "not resolved": unresolved}
    phrase = phrases.get(speedup["verdict"], numbers.times(speedup["median"]))
    return f"{phrase} {speedup['over']} {_interval(speedup)}"


def _interval(speedup: Ratio) -> str:
    return f"({numbers.ratio(speedup['low'])}–{numbers.ratio(speedup['high'])})"


def _too_few_rounds(r: _TimedResult) -> bool:
    """Whether its rounds are too few for an interval of 99 % confidence."""
    return r.time["rounds"] < FEWEST


def _rate(r: _TimedResult) -> str:
    if not r.limit or r.limit["gbps"] is None:
        return ""
    if r.limit["tflops"]:
        return f"{numbers.digits(r.limit['tflops'])} TFLOP/s"
    return f"{numbers.digits(r.limit['gbps'])} GB/s"


def _fraction(r: _TimedResult) -> str:
    return numbers.percent(r.limit["fraction"]) if r.limit and r.limit["fraction"] else ""


def _error(r: _TimedResult) -> str:
    check = r.result["check"]
    if _draws(r.result):
        return f"{_draws(r.result)} draws"
    errors = check.get("errors") if check else None
    return f"{errors['max']:.2g}" if errors and errors["max"] is not None else ""


def _draws(result: DerivedResult) -> int | None:
    """Calls whose distribution was compared; None where values were."""
    return result["check"].get("draws") if result["check"] is not None else None


def _build(r: _TimedResult) -> str:
    seconds = r.result["derived"]["build_s"]
    return f"{seconds:.1f} s" if seconds is not None and seconds >= 0.05 else ""


def _kernels(r: _TimedResult) -> str:
    kernels = r.result["kernels"]
    return "" if kernels is None else str(len(kernels))


# Results without a time --------------------------------------------------------------------------------


def _status_text(result: DerivedResult, record: DerivedRecord) -> Text:
    """The status of an implementation that is not in the table or not right, and why."""
    status, reason, check = result["derived"]["status"], result["derived"]["reason"], result["check"]
    right = ""
    if check is not None and _is_right_here(result):
        timing = "time" in record["stages"]
        tried = battery.tried(record).get(_key(result)) if status == OK.name else None
        right = _describe_check(check, result["case"], result["impl"], timing=timing, tried=tried)
    if status == OK.name:
        return Text(right)
    if status == IMPRECISE.name:
        return Text.assemble((f"{status}: ", "yellow"), str(reason))
    if status in _BAD:
        here = f"{right.replace('right', 'right at the declared case', 1)}; " if right else ""
        return Text.assemble(here, (f"{'cannot tell' if status == UNKNOWN else status}: ", "bold red"), str(reason))
    return Text(f"{status}: {reason}", style="dim")


def _is_right_here(result: DerivedResult) -> bool:
    """Whether it is right at its case, whatever the battery and the sanitizer found elsewhere."""
    return result["derived"]["at_case"]["status"] in RIGHT


def _describe_check(check: CheckOutcome, case: CaseJson, impl: str, *, timing: bool, tried: int | None) -> str:
    """`right in Triton's interpreter at 16×4096, 113 trials, error 1 (torch's 0.98)`, and why it was not timed; or
    `right statistically at 1×4096 (256 draws per trial), 24 trials`.

    `tried`: trials of its battery; None where there was no battery.
    """
    at, peer, errors, draws = check["checked_at"], check.get("peer"), check.get("errors"), check.get("draws")
    text = "right statistically" if draws else "right"
    if at["interpreter"]:
        text += " in Triton's interpreter"
    if at["dims"] != case["dims"]:
        checked: CaseJson = {**case, "dims": at["dims"]}
        text += f" at {numbers.size(checked)}"
    if draws:
        text += f" ({draws} draws per trial)"
    if tried == 0:
        text += " only" if at["dims"] != case["dims"] else " at the declared case only"
    elif tried is not None:
        text += f", {numbers.count(tried, 'trial')}"
    if errors and errors["max"] is not None:
        text += f", error {errors['max']:.2g}"
        if peer and peer["impl"] != impl and peer["max"] is not None:
            text += f" ({peer['impl']}'s {peer['max']:.2g})"
    if check["outside"]:
        text += f"; outside its domain: {numbers.count(len(check['outside']), 'option value')}"
    if at["interpreter"] and timing:
        text += "; not timed: interpreter time is not speed"
    return text


# The answer --------------------------------------------------------------------------------------------


def closing(record: DerivedRecord) -> list[str]:
    """Which implementation is fastest at each case and by how much, then how many are right."""
    lines = [line for group in _groups_outside_sweeps(record) if (line := _fastest_line(group))]
    for sweep in series.find(record):
        if len(sweep.sizes) > sweep_table.COMPACT:
            lines += sweep_table.closing(sweep)
    statuses = [r["derived"]["status"] for r in record["results"]]
    right, skipped = statuses.count(OK.name), statuses.count("skipped")
    tried = battery.tried(record)
    untried = [r for r in record["results"] if r["derived"]["status"] == OK.name and tried.get(_key(r)) == 0]
    imprecise = [r for r in record["results"] if r["derived"]["status"] == IMPRECISE.name]
    not_right = [r for r in record["results"] if r["derived"]["status"] in _BAD]
    here_only = [r for r in not_right if _is_right_here(r) and r["derived"]["status"] != UNKNOWN]
    untold = [r for r in not_right if r["derived"]["status"] == UNKNOWN]
    bad = [r for r in not_right if not _is_right_here(r) and r not in untold]
    summary = f"{numbers.count(right, 'result')} right"
    drawn = [r for r in record["results"] if r["derived"]["status"] == OK.name and _draws(r)]
    if drawn:
        summary += f", of them {len(drawn)} statistically: {_list_impls(drawn)}"
    if untried:
        summary += f", of them {len(untried)} at the declared case only: {_list_impls(untried)}"
    if imprecise:
        summary += f", {len(imprecise)} imprecise: {_list_impls(imprecise)}"
    if skipped:
        summary += f", {skipped} skipped"
    if here_only:
        summary += f", {len(here_only)} not right beyond the declared case: {_list_impls(here_only)}"
    if untold:
        summary += f", {len(untold)} cannot be judged: {_list_impls(untold)}"
    if bad:
        summary += f", {len(bad)} not right: {_list_impls(bad)}"
    if not record["complete"]:
        summary += "; the run did not finish"
    return [*lines, summary + ".", *_missing_peers(record)]


def _missing_peers(record: DerivedRecord) -> list[str]:
    problems = {name: peer["problem"] for name, peer in record["peers"].items()}
    return [f"{name} is left out: {problem}" for name, problem in problems.items() if problem]


def _key(result: DerivedResult) -> tuple[str, str]:
    return result["op"], result["impl"]


def _list_impls(results: list[DerivedResult]) -> str:
    """`gelu triton, cuda; softmax cpp`."""
    by_op: dict[str, dict[str, None]] = {}
    for r in results:
        by_op.setdefault(r["op"], {})[r["impl"]] = None
    return "; ".join(f"{op} {', '.join(impls)}" for op, impls in by_op.items())


def _fastest_line(group: list[DerivedResult]) -> str | None:
    right = [r for r in group if r["derived"]["status"] in RIGHT]
    timed = [row for result in right if (row := _timed(result, result["derived"]))]
    if not timed:
        return None
    best = min(timed, key=lambda row: row.time["median_us"])
    rival, baseline, limit = best.speedup["fastest_other"], best.speedup["baseline"], best.limit
    if rival is None:
        claim = f"{best.impl} takes {_time(best)}"
    elif rival["verdict"] == "faster":
        claim = f"{best.impl} is fastest, {numbers.times(rival['median'])} as fast as {rival['over']}"
    elif rival["verdict"] == "same":
        claim = f"{best.impl} and {rival['over']} are equally fast"
    else:
        rounds = numbers.count(best.time["rounds"], "round")
        problem = f"cannot be resolved with {rounds}" if _too_few_rounds(best) else "is not resolved"
        claim = f"{best.impl} leads, but its lead over {rival['over']} {problem}"
    if baseline and rival and baseline["over"] != rival["over"]:
        claim += f"; {numbers.times(baseline['median'])} as fast as {baseline['over']}"
    if limit and limit["fraction"]:
        ceiling = "copy bandwidth" if limit["bound"] == "memory" else "matmul rate"
        claim += f", at {share_text(limit['fraction'])} of this machine's {ceiling}"
        claim += numbers.ceiling_doubt(limit["fraction"])
    return f"{best.result['op']} {numbers.case_label(best.result['case'])}{_timing_label(group)}: {claim}."
