"""Explanations in the terminal: each way's answer first, then what it rests on; then which way to choose."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from kernellab.explaining.advice import WHO_DOES_WHAT, Choice, advice, choices, untimed_choices
from kernellab.explaining.explanation import explained
from kernellab.gpumodel.subject import refusals
from kernellab.record import verdict
from kernellab.reporting.terminal import inspection as inspected
from kernellab.reporting.text import numbers as words

_ITEMS = {
    "memory": "the bytes it must move",
    "flight": "how many loads are under way",
    "issue": "its instructions",
    "special": "its special functions",
    "fp64": "its fp64 arithmetic",
    "fp32": "its fp32 arithmetic",
    "matmul": "its products",
    "local": "its local memory",
}

Explained = Mapping[str, Any]
_SURE = {
    "measured": "measured",
    "computed": "counted, not timed",
    "likely": "by a model of the machine",
    "possible": "nothing else explains it",
}


def document(record: Mapping[str, Any], gpu_name: str | None = None) -> dict[str, Any]:
    """Explanations of a record with its verdicts, as plain data: `results`, `others` and `choices` per op and case."""
    if record["results"]:
        groups = verdict.groups(record)
        tables = [_table(g[0]["op"], g[0]["case"], choices(g, record["code"])) for g in groups]
    else:
        code = [entry for entry in record["code"] if entry["case"] and entry["case"]["device"] == "cuda"]
        tables = [_table(code[0]["op"], code[0]["case"], untimed_choices(code))] if code else []
    head = {key: record[key] for key in ("schema", "command", "machine")}
    results = explained(record, gpu_name)
    found = {"results": results, "others": _others(record, results)}
    return {**head, **found, "choices": [table for table in tables if table["ways"]]}


def _others(record: Mapping[str, Any], results: Sequence[Explained]) -> list[dict[str, Any]]:
    """Ways that failed, and those of which there is nothing to explain, each with its reason."""
    timed = [(r["op"], r["impl"], r["case"]) for r in results if r["measured"]]
    failed = [
        {"arch": r["case"]["device"], "pass": "forward", **{name: r[name] for name in ("op", "impl", "case")}}
        | {name: r["derived"][name] for name in ("status", "reason")}
        for r in record["results"]
        if (r["op"], r["impl"], r["case"]) not in timed
    ]
    # A way the CPU skips is explained by its machine code, and one not compiled by its time.
    known = {(r["op"], r["impl"]) for r in results}
    unread = [*failed, *inspected.others(record), *_refused(record)]
    return [one for one in unread if one["status"] in verdict.BAD or (one["op"], one["impl"]) not in known]


def _refused(record: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    names = ("op", "impl", "arch", "case", "pass")
    for entry in record["code"]:
        if why := refusals(entry):
            yield {**{name: entry[name] for name in names}, "status": "refused", "reason": "; ".join(why)}


def _table(op: str, case: Mapping[str, Any], rows: Sequence[Choice]) -> dict[str, Any]:
    return {"op": op, "case": case, "ways": [asdict(row) for row in rows], "advice": advice(rows)}


def show(document: Mapping[str, Any], record: Mapping[str, Any], out: Console, *, verbose: bool = False) -> None:
    groups: dict[tuple[str, str, bool], list[Explained]] = {}
    for one in document["results"]:
        groups.setdefault((one["op"], words.case_label(one["case"]), one["measured"]), []).append(one)
    for (op, case, measured), found in groups.items():
        _heading(op, case, found[0], measured, record, out)
        for one in sorted(found, key=lambda e: e["time_us"] or 0.0):
            _show_one(one, out, verbose=verbose)
        out.print()
    for line in inspected.reasons(document["others"]):
        out.print(line, soft_wrap=not out.is_terminal)
    if document["others"]:
        out.print()
    for table in document["choices"]:
        _show_choices(table, out)
    if verbose:
        _who(out)


def _heading(op: str, case: str, one: Explained, measured: bool, record: Mapping[str, Any], out: Console) -> None:
    if measured:
        where = record["machine"].get("device", one["case"]["device"])
        copy = f"; copies {words.digits(one['copy_gbps'])} GB/s" if one["copy_gbps"] else ""
        out.print(Text.assemble((op, "bold"), f" · {case} · {where}{copy}"))
        return
    said = f" · {case} · not timed: a model of {one['gpu']} ({words.digits(one['copy_gbps'])} GB/s)"
    out.print(Text.assemble((op, "bold"), said))


def _show_one(one: Explained, out: Console, *, verbose: bool) -> None:
    first, *more = one["findings"] or [None]
    out.print(Text.assemble((f" {one['op']} {one['impl']}: ", "bold"), headline(one)), soft_wrap=not out.is_terminal)
    if first:
        _show_finding(first, out, verbose=verbose, head=False)
    for finding in more:
        _show_finding(finding, out, verbose=verbose, head=True)
    for line in _facts(one):
        out.print(Text(f"   {line}", style="dim"), soft_wrap=not out.is_terminal)


def headline(one: Explained) -> str:
    """The answer: the first finding, or how far from the limit without one."""
    if one["findings"]:
        first = one["findings"][0]
        gain = f"; about {first['gain']:.3g}× to gain" if first["gain"] and "gains about" not in first["title"] else ""
        return f"{first['title']}{gain}"
    limit = one["roofline"]
    if limit and limit["fraction"]:
        return f"{words.percent(limit['fraction'])} of measured {_ceiling(limit)}, and no rule says why"
    if one["measured"]:
        return "nothing found, and its limit is not known"
    model = one["predicted"]
    if model is None and one["kernels"]:
        return "what the op has to move is not known, and without that no model says anything"
    if model is None:
        return "nothing found in what it dispatches"
    once = model.get("loops_counted_once")
    caveat = f"; {words.count(once, 'loop')} counted once, as the code does not say how often" if once else ""
    time = f"by the model {words.duration(model['time_us'])}, set by {_ITEMS[model['dearest']]}"
    return f"nothing found in its code: {time}{caveat}"


def _ceiling(limit: Mapping[str, Any]) -> str:
    return "bandwidth" if limit["bound"] == "memory" else "matmul rate"


def _show_finding(finding: Mapping[str, Any], out: Console, *, verbose: bool, head: bool) -> None:
    wrap = not out.is_terminal
    if head:
        gain = f"; about {finding['gain']:.3g}× to gain" if finding["gain"] else ""
        out.print(Text(f"   also: {finding['title']}{gain}"), soft_wrap=wrap)
    said = f"{finding['do'][0].upper()}{finding['do'][1:]} ({_SURE[finding['sure']]})."
    out.print(Text(f"   {said}"), soft_wrap=wrap)
    for one in finding["evidence"] if verbose else ():
        out.print(Text(f"     {one['what']}: {_value(one)} ({one['source']})", style="dim"), soft_wrap=wrap)


def _value(evidence: Mapping[str, Any]) -> str:
    value, unit = evidence["value"], evidence["unit"]
    if isinstance(value, str):
        return value
    if unit == "bytes" and value >= 1e6:
        return f"{value / 1e6:.4g} MB"
    if unit == "µs":
        return words.duration(value)
    return f"{words.digits(value)} {unit}".strip()


def _facts(one: Explained) -> list[str]:
    lines = []
    limit = one["roofline"]
    if limit and limit["roof_us"] is not None:
        bound = "memory" if limit["bound"] == "memory" else "arithmetic"
        said = f"roofline: {limit['bytes'] / 1e6:.4g} MB, bound by {bound}, {words.duration(limit['roof_us'])} at least"
        if limit["intensity"] is not None:
            said += f"; {words.digits(limit['intensity'])} operations per byte, the ridge is at {limit['ridge']:.3g}"
        if one["time_us"]:
            said += f"; took {words.duration(one['time_us'])}"
        lines.append(said)
    if one["became"]:
        parts = [f"{b['kernels']} × {b['family']} ({b['words']})" for b in one["became"]]
        lines.append(f"ran as: {', '.join(parts)}")
    for k in one["kernels"]:
        times = f", {k['times']} times" if k["times"] > 1 else ""
        fits = f", {words.percent(k['occupancy'])} occupancy" if k["occupancy"] else ""
        blocks = f"{words.count(k['blocks'], 'block')} of {words.count(k['threads'], 'thread')}"
        which = _configuration(k, one["measured"])
        lines.append(f"{k['name']}: {blocks}{times}, {words.count(k['registers'], 'register')}{fits}{which}")
    return lines


def _configuration(kernel: Mapping[str, Any], measured: bool) -> str:
    """Of an autotuned kernel: the others were not judged."""
    if not kernel["tuned"]:
        return ""
    number, count = kernel["tuned"]
    why = "" if measured else ", the fastest by the model"
    return f"; configuration {number + 1} of {count}{why}: {inspected.configuration(dict(kernel))}"


# Which to choose ---------------------------------------------------------------------------------------


def _show_choices(table: Mapping[str, Any], out: Console) -> None:
    out.print(Text(f"Which way · {table['op']} · {words.case_label(table['case'])}", style="bold"))
    drawn = Table(box=None, pad_edge=True, padding=(0, 1), header_style="dim")
    for title in ("way", "lines", "build", "time", "of the limit"):
        drawn.add_column(title, justify="left" if title == "way" else "right", no_wrap=True)
    drawn.add_column("when to choose it")
    for row in (Choice(**way) for way in table["ways"]):
        drawn.add_row(*map(Text, _cells(row)))
    out.print(drawn)
    out.print(Text(f" {table['advice']}"), soft_wrap=not out.is_terminal)
    out.print()


def _cells(row: Choice) -> list[str]:
    lines = "" if row.launcher_lines is None else str(row.launcher_lines)
    if row.kernel_lines:
        lines = f"{row.kernel_lines} + {lines or '?'}"
    build = f"{row.build_s:.1f} s" if row.build_s is not None and row.build_s >= 0.05 else ""
    time = words.duration(row.time_us) if row.time_us else "not timed here"
    share = words.percent(row.fraction) if row.fraction else ""
    return [row.impl, lines, build, time, share, row.choose]


def _who(out: Console) -> None:
    table = Table(box=None, pad_edge=True, padding=(0, 1), header_style="dim")
    for title in ("who does what", "CUDA C++", "Triton"):
        table.add_column(title, no_wrap=True)
    for row in WHO_DOES_WHAT:
        table.add_row(*map(Text, row))
    out.print(table)
