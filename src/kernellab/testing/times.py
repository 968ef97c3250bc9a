"""The table of times at the end of a test run: what each test timed, and what it was compared with."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypedDict

from kernellab.record.derived import DerivedResult
from kernellab.reporting.sentences.times import timed
from kernellab.reporting.text import numbers
from kernellab.reporting.text.table import Column, Row, Table


class TimeRow(TypedDict):
    """One time of a test. Plain JSON: it travels from other processes."""

    op: str
    case: str
    impl: str
    time: str
    spread: str
    trust: str
    compared: str  # with what, and the verdict; empty where it was only timed


def time_row(result: DerivedResult, pass_name: str, compared: str = "") -> TimeRow | None:
    """The row of a result; None where the pass was not timed."""
    verdict = result["derived"]["passes"].get(pass_name)
    row = timed(result, verdict) if verdict is not None else None
    if row is None:
        return None
    case = numbers.case_label(result["case"])
    return {
        "op": result["op"],
        "case": case if pass_name == "forward" else f"{case} · {pass_name}",
        "impl": result["impl"],
        "time": numbers.duration(row.time["median_us"]),
        "spread": numbers.spread(row.time["median_us"], row.time["low_us"], row.time["high_us"]),
        "trust": row.trust["verdict"],
        "compared": compared,
    }


def lines(rows: Sequence[tuple[str, TimeRow]], width: int | None) -> list[str]:
    """The table, with the name of the test that each row is from."""
    columns = [
        Column("test", "left", cut_to=24),
        Column("op", "left", cut_to=12),
        Column("case", "left", cut_to=12),
        Column("impl", "left", cut_to=12),
        Column("time"),
        Column("99 %", drop=1),
        Column("trust", "left", drop=2),
        Column("compared", "left", wrap_to=24),
    ]
    cells = [
        [test, r["op"], r["case"], r["impl"], r["time"], r["spread"], r["trust"], r["compared"]] for test, r in rows
    ]
    return [line.plain for line in Table(columns, [Row(row) for row in cells], indent=0).lines(width)]
