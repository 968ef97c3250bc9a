"""The answer: which implementation is fastest at each case and by how much, and how many results are right."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kernellab.base.text import share_text
from kernellab.record import verdict
from kernellab.record.derived import DerivedRecord, DerivedResult
from kernellab.record.statuses import IMPRECISE, OK, RIGHT, UNKNOWN, worst
from kernellab.record.verdict import comparisons, own_doubts
from kernellab.reporting.charts import series
from kernellab.reporting.charts import table as sweep_table
from kernellab.reporting.sentences import battery, sanitizer
from kernellab.reporting.sentences.statuses import BAD, is_right_here
from kernellab.reporting.sentences.times import (
    TimedResult,
    draws,
    energy_difference,
    time_text,
    timed,
    timing_label,
    too_few_rounds,
)
from kernellab.reporting.text import numbers
from kernellab.stats.trust import percent


@dataclass(frozen=True)
class OpAnswer:
    """The answer for one op: in one sentence, then case by case, and how many of its results are right."""

    op: str
    headline: str  # empty where nothing was timed
    claims: Sequence[str]
    statuses: str
    worst: str  # the worst status of its results


def closing(record: DerivedRecord) -> list[str]:
    """Which implementation is fastest at each case and by how much, then how many are right, and what was tried."""
    claims = [line for _, line in _claims(record)]
    return [*claims, describe_statuses(record["results"], record), *examined(record)]


def examined(record: DerivedRecord) -> list[str]:
    """What was left out, and what the battery and compute-sanitizer found, a sentence each."""
    return [
        *_missing_peers(record),
        *battery.closing(record["batteries"]),
        *sanitizer.closing(record["sanitized"]),
    ]


def answers(record: DerivedRecord) -> list[OpAnswer]:
    """The answer for each op of the record."""
    by_op: dict[str, list[DerivedResult]] = {}
    for result in record["results"]:
        by_op.setdefault(result["op"], []).append(result)
    claims: dict[str, list[str]] = {}
    for op, line in _claims(record):
        claims.setdefault(op, []).append(line)
    return [
        OpAnswer(op, _headline(results), claims.get(op, []), describe_statuses(results, record), _worst(results))
        for op, results in by_op.items()
    ]


def _worst(results: Sequence[DerivedResult]) -> str:
    return worst(result["derived"]["status"] for result in results)


def _claims(record: DerivedRecord) -> list[tuple[str, str]]:
    """An op and what is said of it: a sentence for each case that was timed, and those of long sweeps."""
    lines = [(group[0]["op"], line) for group in groups_outside_sweeps(record) if (line := _fastest_line(group))]
    for sweep in series.find(record):
        if len(sweep.sizes) > sweep_table.COMPACT:
            lines += [(sweep.op, line) for line in sweep_table.closing(sweep)]
    return lines


def _headline(results: Sequence[DerivedResult]) -> str:
    """`triton is fastest at 7 of 10 cases (2.1× to 5.3× as fast as manual), cuda at 2; at 1 no lead is resolved`."""
    best = [row for group in verdict.groups(results) if (row := _fastest(group))]
    leads: dict[str, list[TimedResult]] = {}
    for row in best:
        if _leads(row):
            leads.setdefault(row.impl, []).append(row)
    claims: list[str] = []
    for impl, rows in sorted(leads.items(), key=lambda entry: -len(entry[1])):
        fastest = "" if claims else f" is fastest at {len(rows)} of {len(best)} cases{_gain(rows)}"
        claims.append(f"{impl}{fastest or f' at {len(rows)}'}")
    text = ", ".join(claims)
    unresolved = len(best) - sum(map(len, leads.values()))
    if unresolved:
        text += f"; at {unresolved} no lead is resolved" if text else f"no lead is resolved at {len(best)} cases"
    return text


def _gain(rows: Sequence[TimedResult]) -> str:
    """` (2.1× to 5.3× as fast as manual)`, over the cases that an implementation leads."""
    ratios = [baseline for row in rows if (baseline := row.speedup["baseline"])]
    if not ratios:
        return ""
    low, high = (numbers.times(choose(ratio["median"] for ratio in ratios)) for choose in (min, max))
    return f" ({low if low == high else f'{low} to {high}'} as fast as {ratios[0]['over']})"


def _fastest(group: Sequence[DerivedResult]) -> TimedResult | None:
    right = [result for result in group if result["derived"]["status"] in RIGHT]
    rows = [row for result in right if (row := timed(result, result["derived"]))]
    return min(rows, key=lambda row: row.time["median_us"], default=None)


def _leads(row: TimedResult) -> bool:
    """Whether the fastest implementation of a case is faster than all others there."""
    rival = row.speedup["fastest_other"]
    return rival is None or rival["verdict"] == "faster"


def describe_statuses(results: Sequence[DerivedResult], record: DerivedRecord) -> str:
    """`15 results right, 3 skipped.`"""
    statuses = [r["derived"]["status"] for r in results]
    right, skipped = statuses.count(OK.name), statuses.count("skipped")
    tried = battery.tried(record)
    untried = [r for r in results if r["derived"]["status"] == OK.name and tried.get((r["op"], r["impl"])) == 0]
    imprecise = [r for r in results if r["derived"]["status"] == IMPRECISE.name]
    not_right = [r for r in results if r["derived"]["status"] in BAD]
    here_only = [r for r in not_right if is_right_here(r) and r["derived"]["status"] != UNKNOWN]
    untold = [r for r in not_right if r["derived"]["status"] == UNKNOWN]
    bad = [r for r in not_right if not is_right_here(r) and r["derived"]["status"] != UNKNOWN]
    summary = f"{numbers.count(right, 'result')} right"
    drawn = [r for r in results if r["derived"]["status"] == OK.name and draws(r)]
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
    return f"{summary}."


def _missing_peers(record: DerivedRecord) -> list[str]:
    problems = {name: peer["problem"] for name, peer in record["peers"].items()}
    return [f"{name} is left out: {problem}" for name, problem in problems.items() if problem]


def _list_impls(results: list[DerivedResult]) -> str:
    """`gelu triton, cuda; softmax cpp`."""
    by_op: dict[str, dict[str, None]] = {}
    for r in results:
        by_op.setdefault(r["op"], {})[r["impl"]] = None
    return "; ".join(f"{op} {', '.join(impls)}" for op, impls in by_op.items())


def _fastest_line(group: Sequence[DerivedResult]) -> str | None:
    best = _fastest(group)
    if best is None:
        return None
    rival, baseline, limit = best.speedup["fastest_other"], best.speedup["baseline"], best.limit
    if rival is None:
        claim = f"{best.impl} takes {time_text(best)}"
    elif rival["verdict"] == "faster":
        claim = f"{best.impl} is fastest, {numbers.times(rival['median'])} as fast as {rival['over']}"
    elif rival["verdict"] == "same":
        claim = f"{best.impl} and {rival['over']} are equally fast"
    else:
        rounds = numbers.count(best.time["rounds"], "round")
        problem = f"cannot be resolved with {rounds}" if too_few_rounds(best) else "is not resolved"
        claim = f"{best.impl} leads, but its lead over {rival['over']} {problem}"
    claim += _energy(best)
    if baseline and rival and baseline["over"] != rival["over"]:
        claim += f"; {numbers.times(baseline['median'])} as fast as {baseline['over']}"
    if limit and limit["fraction"]:
        ceiling = "copy bandwidth" if limit["bound"] == "memory" else "matmul rate"
        claim += f", at {share_text(limit['fraction'])} of this machine's {ceiling}"
        if limit["bound"] == "matmul" and limit["clock_mhz"]:
            claim += f" at {limit['clock_mhz']:.0f} MHz"
        claim += numbers.ceiling_doubt(limit["fraction"])
    claim += _state(best)
    return f"{best.result['op']} {numbers.case_label(best.result['case'])}{timing_label(group)}: {claim}."


def _energy(row: TimedResult) -> str:
    """`, with 20 % less energy`, where that is resolved; of an implementation alone its energy."""
    energy, rival = row.verdict["energy"], row.speedup["fastest_other"]
    ratio = row.verdict["energy_ratio"]["fastest_other"]
    if energy is None:
        return ""
    if rival is None:
        return f" and {numbers.energy(energy['median_j'])}"
    difference = energy_difference(ratio)
    if difference is None or ratio is None:
        return ""
    if rival["verdict"] != "same":
        return f", with {difference}"
    if ratio["verdict"] == "less":
        return f", {row.impl} with {difference}"
    return f", {rival['over']} with {percent(1 - 1 / ratio['median'])} less energy"


def _state(row: TimedResult) -> str:
    """`; the GPU was at its power limit of 700 W: times hold for that state, the comparison holds`."""
    speedups = comparisons(row.verdict)
    inherited = any(speedup["trust"]["verdict"] != "trusted" for speedup in speedups)
    doubts = dict.fromkeys(doubt["name"] for speedup in speedups for doubt in own_doubts(row.verdict, speedup))
    doubt = f"the comparison is doubtful: {', '.join(doubts)}" if doubts else ""
    power = row.verdict["power"]
    if power is None or not power["at_limit"] or row.trust["verdict"] == "trusted":
        return f"; {doubt}" if doubt else ""
    limit = f" of {power['limit_w']:.0f} W" if power["limit_w"] else ""
    state = f"; the GPU was at its power limit{limit}: times hold for that state"
    if not speedups:
        return state
    comparison = "it is not known whether the comparison does" if inherited else "the comparison holds"
    return f"{state}, {doubt or comparison}"


def groups_outside_sweeps(record: DerivedRecord) -> list[list[DerivedResult]]:
    """The groups that are not part of a long sweep, which has a table of its own."""
    sweeps = [sweep for sweep in series.find(record) if len(sweep.sizes) > sweep_table.COMPACT]
    swept = {id(group[0]) for sweep in sweeps for group in sweep.groups.values()}
    return [list(group) for group in verdict.groups(record["results"]) if id(group[0]) not in swept]
