"""What was checked of each implementation: the declared cases, the battery, the search, and compute-sanitizer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from kernellab.record.derived import DerivedRecord, DerivedResult
from kernellab.record.schema import CheckOutcome, ErrorsJson
from kernellab.record.statuses import FAILED, RIGHT, UNKNOWN
from kernellab.reporting.report.parts.section import Run, Section
from kernellab.reporting.report.parts.table import Cell, Column, Table, from_terminal, lines
from kernellab.reporting.sentences import battery, sanitizer
from kernellab.reporting.text import numbers

_MOST_LINES = 200
_COLUMNS = (
    Column("op"),
    Column("impl"),
    Column("cases right", numeric=True),
    Column("other statuses"),
    Column("calls compared", numeric=True),
    Column("largest error", numeric=True),
    Column("99.9 %", numeric=True),
    Column("of its peer"),
    Column("where"),
    Column("gradients"),
)
_CAPTION = "Checks at the declared cases. Errors are in roundings of the dtype at the result's scale."


def section(run: Run) -> Section | None:
    record = run.record
    if not any(result["check"] for result in record["results"]) and not record["batteries"]:
        return None
    by_impl: dict[tuple[str, str], list[DerivedResult]] = {}
    for result in record["results"]:
        by_impl.setdefault((result["op"], result["impl"]), []).append(result)
    checks = Table(_CAPTION, _COLUMNS, [_row(results) for results in by_impl.values()]).without_empty_columns()
    values = {"checks": checks, "batteries": _batteries(record), "sanitized": _sanitized(record)}
    return Section("correctness", "Correctness", "correctness.html", values)


def _row(results: Sequence[DerivedResult]) -> list[Cell]:
    """One implementation at all its declared cases."""
    checks = [check for result in results if (check := result["check"]) is not None]
    statuses = Counter(result["derived"]["at_case"]["status"] for result in results)
    right = sum(count for status, count in statuses.items() if status in RIGHT)
    others = {status: count for status, count in statuses.items() if status not in RIGHT or status == "imprecise"}
    judged = sum(count for status, count in statuses.items() if status != "skipped")
    bad, untold = any(status in FAILED for status in others), UNKNOWN in others
    worst = max((check for check in checks if _largest(check) is not None), key=_rank, default=None)
    errors, peer = (worst.get("errors"), worst.get("peer")) if worst else (None, None)
    at = worst["checked_at"] if worst and "checked_at" in worst else None
    interpreter = any(check["checked_at"]["interpreter"] for check in checks if "checked_at" in check)
    gradients = Counter(g["status"] for result in results if (g := result["gradients"]) is not None)
    place = ", ".join(map(str, errors.get("at", ()))) if errors else ""
    case = results[0]["case"]
    size = numbers.size({**case, "dims": at["dims"]}) if at and "dims" in at else ""
    return [
        Cell(results[0]["op"]),
        Cell(results[0]["impl"], remark="in Triton's interpreter" if interpreter else ""),
        Cell(
            f"{right} of {judged}" if judged else "",
            "bad" if bad else "warn" if untold else "good" if right else "faint",
        ),
        Cell(", ".join(f"{status} {count}" for status, count in others.items()), "bad" if bad else ""),
        Cell(str(sum(check.get("trials") or 0 for check in checks) or "")),
        Cell(_error(errors, "max")),
        Cell(_error(errors, "q999")),
        Cell(f"{peer['impl']}'s {_error(peer, 'max')}" if peer and peer["impl"] != results[0]["impl"] else ""),
        Cell(f"{size} {f'at [{place}]' if place else ''}".strip(), "faint"),
        Cell(", ".join(f"{status} {count}" for status, count in gradients.items())),
    ]


def _largest(check: CheckOutcome) -> float | None:
    errors = check.get("errors")
    return errors["max"] if errors else None


def _rank(check: CheckOutcome) -> float:
    return _largest(check) or 0.0


def _error(errors: ErrorsJson | None, measure: str) -> str:
    value = None if errors is None else errors["max"] if measure == "max" else errors["q999"]
    return "" if value is None else f"{value:.2g}"


def _batteries(record: DerivedRecord) -> list[dict[str, object]]:
    """The battery of each op: its table, then failures and the search, then why trials were not made or judged."""
    batteries = []
    for op in dict.fromkeys(summary["op"] for summary in record["batteries"]):
        summaries = [summary for summary in record["batteries"] if summary["op"] == op]
        tried = numbers.count(sum(summary["tried"] for summary in summaries), "trial")
        caption = f"The battery of {op}: {tried} over sizes, dtypes, layouts and values"
        texts = [text for summary in summaries for text in battery.lines(summary, record["results"], verbose=True)]
        texts += battery.shared_reasons(summaries)
        kinds = [text for summary in summaries for text in battery.passed_by_kind(summary)]
        table = from_terminal(battery.table(summaries), caption)
        batteries.append({"op": op, "table": table, "lines": lines(texts[:_MOST_LINES]), "kinds": lines(kinds)})
    return batteries


def _sanitized(record: DerivedRecord) -> list[dict[str, object]]:
    """What compute-sanitizer found in each op."""
    sanitized = []
    for op in dict.fromkeys(entry["op"] for entry in record["sanitized"]):
        entries = [entry for entry in record["sanitized"] if entry["op"] == op]
        texts = [text for entry in entries for text in sanitizer.lines(entry, verbose=True)]
        caption = f"{op} under compute-sanitizer: errors in the implementations' own kernels"
        sanitized.append(
            {"op": op, "table": from_terminal(sanitizer.table(entries), caption), "lines": lines(texts[:_MOST_LINES])}
        )
    return sanitized
