"""The verdict table: every implementation at every case and pass, to sort and filter."""

from __future__ import annotations

import math
from collections.abc import Sequence

from kernellab.record import verdict
from kernellab.record.derived import DerivedRecord, DerivedResult, Speedup
from kernellab.record.statuses import OK, UNKNOWN
from kernellab.record.verdict import own_doubts
from kernellab.reporting.report.parts.section import Run, Section
from kernellab.reporting.report.parts.table import Cell, Column, Table, Tone, status_tone
from kernellab.reporting.sentences import times
from kernellab.reporting.sentences.statuses import notes, status_text
from kernellab.reporting.text import numbers

_NO_PASS = "–"  # of a result that was not timed
_SHORT = ("op", "dtype", "pass")  # columns that are left out where they say the same in every row
_MOST_NAMES, _MOST_REASONS = 8, 500
_TITLES = {"ok": "right", UNKNOWN: "cannot tell"}
_COLUMNS = (
    Column("impl", filter="impl"),
    Column("op", filter="op"),
    Column("case", filter="case"),
    Column("dtype", filter="dtype"),
    Column("pass", filter="pass"),
    Column("status", filter="status"),
    Column("time", numeric=True),
    Column("99 %", numeric=True),
    Column("over the baseline", numeric=True),
    Column("over the fastest other", numeric=True),
    Column("energy", numeric=True),
    Column("rate", numeric=True),
    Column("of the limit", numeric=True),
    Column("trust", filter="trust"),
    Column("error", numeric=True),
    Column("build", numeric=True),
)
_TIME = 6  # the column of the time


def section(run: Run) -> Section | None:
    record = run.record
    if not record["results"]:
        return None
    rows = [row for group in verdict.groups(record["results"]) for row in _group_rows(group)]
    values = {"table": _table(rows), "reasons": _reasons(record)}
    return Section("verdicts", "Verdicts", "verdicts.html", values)


def _table(rows: Sequence[Sequence[Cell]]) -> Table:
    """The table without columns of few choices that say the same in every row: the caption says it once."""
    texts = [{row[at].text for row in rows if row[at].text != _NO_PASS} for at in range(len(_COLUMNS))]
    same = [at for at, column in enumerate(_COLUMNS) if column.title in _SHORT and len(texts[at]) < 2]
    everywhere = ", ".join(text for at in same for text in texts[at])
    timed = any(row[_TIME].text for row in rows)
    caption = f"Every implementation at every case{everywhere and f' ({everywhere})'}"
    caption += ", with 99 % intervals" if timed else ""
    kept = [at for at in range(len(_COLUMNS)) if at not in same]
    shown = [[row[at] for at in kept] for row in rows]
    return Table(caption, [_COLUMNS[at] for at in kept], shown, sortable=True).without_empty_columns()


def _group_rows(group: Sequence[DerivedResult]) -> list[list[Cell]]:
    """The rows of one op and case: pass by pass the fastest first, then the results that were not timed."""
    rows = []
    untimed = {id(result): result for result in group}
    for pass_name in group[0]["derived"]["passes"]:
        timed = [row for r in group if (row := times.timed(r, r["derived"]["passes"][pass_name])) is not None]
        for row in sorted(timed, key=lambda row: row.time["median_us"]):
            untimed.pop(id(row.result), None)
            head, status = _head(row.result)
            rows.append([*head, Cell(pass_name), status, *_times(row)])
    for result in untimed.values():
        head, status = _head(result)
        rows.append([*head, Cell(_NO_PASS, "faint"), status, *[Cell("")] * 8, _error(result), Cell("")])
    return rows


def _head(result: DerivedResult) -> tuple[list[Cell], Cell]:
    """The cells before the pass, and the status."""
    case = numbers.case_label(result["case"]).replace(f" · {result['case']['dtype']}", "", 1)
    dtype, status = result["case"]["dtype"], result["derived"]["status"]
    head = [Cell(result["impl"], "strong"), Cell(result["op"]), Cell(case, sort=_elements(result)), Cell(dtype)]
    return head, Cell(_TITLES.get(status, status), status_tone(status))


def _error(result: DerivedResult) -> Cell:
    errors = result["check"].get("errors") if result["check"] else None
    error = errors["max"] if errors else None
    return Cell("" if error is None else f"{error:.2g}", sort=error)


def _times(row: times.TimedResult) -> list[Cell]:
    speedup = row.speedup
    time, limit, trust = row.time, row.limit, row.trust
    half = (time["high_us"] - time["low_us"]) / 2 / time["median_us"] if time["median_us"] else 0.0
    rate = (limit["tflops"] or limit["gbps"] or 0.0) if limit else None
    fraction = limit["fraction"] if limit else None
    bound = {"memory": "copy", "matmul": "matmul"}.get(str(limit["bound"])) if limit else None
    check, build_s = row.result["check"], row.result["derived"]["build_s"]
    errors = check.get("errors") if check else None
    return [
        Cell(times.time_text(row), sort=time["median_us"]),
        Cell(times.spread_text(row), sort=half),
        _speedup(row, speedup["baseline"]),
        _speedup(row, speedup["fastest_other"]),
        _energy(row),
        Cell(times.rate_text(row), sort=rate),
        Cell(times.fraction_text(row), sort=fraction, remark=f"of {bound}" if fraction and bound else ""),
        Cell(trust["verdict"], "" if trust["verdict"] == "trusted" else "warn"),
        Cell(times.error_text(row), sort=errors["max"] if errors else None),
        Cell(times.build_text(row), sort=build_s),
    ]


def _speedup(row: times.TimedResult, speedup: Speedup | None) -> Cell:
    """`4.74×`, or `same` or `not resolved`; below it the other implementation, the interval, and doubts."""
    if speedup is None:
        return Cell("")
    interval = f"{numbers.ratio(speedup['low'])}–{numbers.ratio(speedup['high'])}"
    tones: dict[str, Tone] = {"faster": "good", "slower": "bad"}
    tone = tones.get(speedup["verdict"], "faint")
    text = numbers.times(speedup["median"]) if speedup["verdict"] in tones else speedup["verdict"]
    doubts = ", ".join(reason["name"] for reason in own_doubts(row.verdict, speedup))
    remark = f"{speedup['over']}, {interval}"
    return Cell(text, "warn" if doubts else tone, speedup["median"], f"{remark}, {doubts}" if doubts else remark)


def _energy(row: times.TimedResult) -> Cell:
    """`412 mJ ±0.4 %`; below it the difference to the fastest other implementation, where it is resolved."""
    energy, ratio = row.verdict["energy"], row.verdict["energy_ratio"]["fastest_other"]
    difference = times.energy_difference(ratio)
    remark = f"{difference} than {ratio['over']}" if ratio and difference else ""
    return Cell(times.energy_text(row), sort=energy["median_j"] if energy else None, remark=remark)


def _elements(result: DerivedResult) -> float:
    """The product of the sizes of a case, by which cases are sorted."""
    sizes = [n for size in result["case"]["dims"].values() for n in (size if isinstance(size, list) else [size])]
    return float(math.prod(min(max(n, 0), 1 << 40) for n in sizes[:16]))


def _reasons(record: DerivedRecord) -> Sequence[tuple[str, str, Tone]]:
    """Why results are not right or not timed, and notes: each once, with its implementations."""
    places: dict[tuple[str, Tone], dict[str, None]] = {}
    for result in record["results"]:
        derived, name = result["derived"], f"{result['op']} {result['impl']}"
        status = derived["status"]
        sentences: list[tuple[str, Tone]] = []
        untimed = "time" in record["stages"] and derived["timing"] is not None
        if status != OK.name or untimed:
            sentences.append((status_text(result, record).plain, "faint" if status == OK.name else status_tone(status)))
        sentences += [(f"note: {note}", "warn") for note in notes(result)]
        for sentence in sentences:
            places.setdefault(sentence, {})[name] = None
    return [(", ".join(list(names)[:8]) + (" …" if len(names) > 8 else ""), *key) for key, names in places.items()][
        :500
    ]
