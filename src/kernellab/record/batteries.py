"""Summaries of a record's trials, per op and implementation: how many were tried, what passed, what failed.

Also the verdicts on what the tools of compute-sanitizer reported. No torch.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import TypedDict

from kernellab.record.schema import (
    ErrorsJson,
    PeerJson,
    SanitizerFinding,
    SanitizerOutcome,
    SearchOutcome,
    TrialOutcome,
)
from kernellab.record.statuses import FAILED, IMPRECISE, RIGHT, UNKNOWN, worst


class TrialCount(TypedDict):
    """Trials of one kind."""

    tried: int
    passed: int


class WorstTrial(TypedDict):
    """The right result with the largest error, beside the error that set its limit."""

    label: str
    kind: str
    errors: ErrorsJson
    peer: PeerJson | None


class FailedTrial(TypedDict):
    """A trial that failed, or was imprecise."""

    kind: str
    label: str
    status: str
    reason: str | None


class BatterySummary(TypedDict):
    """The trials of one implementation, counted."""

    op: str
    impl: str
    status: str
    interpreter: bool
    tried: int
    passed: int
    imprecise: int
    first_imprecise: FailedTrial | None
    kinds: dict[str, TrialCount]
    outside: dict[str, int]
    unknown: dict[str, int]
    worst: WorstTrial | None
    notes: dict[str, int]
    mended: list[str]
    failures: list[FailedTrial]
    search: SearchOutcome | None


def severity(status: str) -> int:
    """The rank of a trial's status: a failure is above a success, a success above a trial that was not judged."""
    return 2 if status in FAILED else int(status in RIGHT)


def summaries(trials: Sequence[TrialOutcome], searches: Sequence[SearchOutcome] = ()) -> list[BatterySummary]:
    """One summary per op and implementation, in the order they were tried."""
    by_impl: dict[tuple[str, str], list[TrialOutcome]] = {}
    for trial in trials:
        by_impl.setdefault((trial["op"], trial["impl"]), []).append(trial)
    search_of = {(search["op"], search["impl"]): search for search in searches}
    return [_summary(op, impl, group, search_of.get((op, impl))) for (op, impl), group in by_impl.items()]


def _summary(op: str, impl: str, trials: Sequence[TrialOutcome], search: SearchOutcome | None) -> BatterySummary:
    judged = [t for t in trials if t["status"] not in ("outside", "unknown")]
    failures = [t for t in judged if t["status"] in FAILED]
    imprecise = [t for t in judged if t["status"] == IMPRECISE.name]
    kinds: dict[str, TrialCount] = {}
    for t in judged:
        count = kinds.setdefault(t["trial"]["kind"], {"tried": 0, "passed": 0})
        count["tried"] += 1
        count["passed"] += t["status"] in RIGHT
    return {
        "op": op,
        "impl": impl,
        "status": _status(trials),
        "interpreter": any(t["interpreter"] for t in trials),
        "tried": len(judged),
        "passed": len(judged) - len(failures),
        "imprecise": len(imprecise),
        "first_imprecise": _in_short(imprecise[0]) if imprecise else None,
        "kinds": kinds,
        "outside": _reasons(trials, "outside"),
        "unknown": _reasons(trials, "unknown"),
        "worst": _worst(judged),
        "notes": dict(Counter(note for t in judged for note in t.get("notes") or ()).most_common()),
        "mended": [_label(t) for t in judged if t["trial"]["kind"] == "stored" and t["status"] in RIGHT],
        "failures": [_in_short(t) for t in failures],
        "search": search,
    }


def _in_short(t: TrialOutcome) -> FailedTrial:
    return {"kind": t["trial"]["kind"], "label": _label(t), "status": t["status"], "reason": t["reason"]}


def _status(trials: Sequence[TrialOutcome]) -> str:
    """The worst status of any trial; `skipped` if all were outside the domain."""
    statuses = {t["status"] for t in trials}
    judged = statuses & (FAILED | RIGHT)
    return worst(judged or statuses & {UNKNOWN})


def _reasons(trials: Sequence[TrialOutcome], status: str) -> dict[str, int]:
    """How often each reason was given, the most frequent first. Reasons that differ in numbers alone are one."""
    reasons = [t["reason"] or "" for t in trials if t["status"] == status]
    first = {_without_numbers(reason): reason for reason in reversed(reasons)}
    return {first[key]: count for key, count in Counter(map(_without_numbers, reasons)).most_common()}


def _worst(judged: Sequence[TrialOutcome]) -> WorstTrial | None:
    largest: WorstTrial | None = None
    for t in judged:
        errors = t.get("errors")
        if t["status"] not in RIGHT or not errors or errors["max"] is None:
            continue
        if largest is None or errors["max"] > (largest["errors"]["max"] or 0.0):
            largest = {"label": _label(t), "kind": t["trial"]["kind"], "errors": errors, "peer": t.get("peer")}
    return largest


def _label(trial: TrialOutcome) -> str:
    return trial["trial"].get("label", "")


@dataclass(frozen=True)
class RepeatedFailure:
    """Trials that failed for one and the same reason: the first of them, and how many there are of each kind."""

    first: FailedTrial
    kinds: dict[str, int]

    @property
    def count(self) -> int:
        return sum(self.kinds.values())

    @property
    def sentence(self) -> str:
        """`33 · float32: ValueError: … (mine.py:12); at 50 trials in all: sizes 6, values 44`."""
        counts = ", ".join(f"{kind} {count}" for kind, count in self.kinds.items())
        repeated = f"; at {self.count} trials in all: {counts}" if self.count > 1 else ""
        return f"{self.first['label']}: {self.first['reason']}{repeated}"


def repeated_failures(failures: Sequence[FailedTrial]) -> list[RepeatedFailure]:
    """Each reason once, in the order of the trials. Wrong values are a reason of their own at every trial."""
    groups: dict[tuple[str, ...], list[FailedTrial]] = {}
    for number, failure in enumerate(failures):
        reason = failure["reason"] or ""
        values = failure["status"] == "wrong" and "values" in reason
        key = (failure["status"], str(number) if values else _without_numbers(reason))
        groups.setdefault(key, []).append(failure)
    return [RepeatedFailure(group[0], dict(Counter(f["kind"] for f in group))) for group in groups.values()]


def _without_numbers(reason: str) -> str:
    """What reasons have in common that differ in sizes or values alone. For an error with a line of code, this is the
    text up to the first colon, which is the type of the error, and the line."""
    place = re.search(r" \([^()]+:\d+\)$", reason)
    return reason.partition(":")[0] + place.group() if place else re.sub(r"\d[\d.]*", "#", reason)


def sentences(summary: BatterySummary, most: int = 12) -> list[str]:
    """A summary in words: how many trials failed, then each failure; or why no trial could be judged."""
    failures = summary["failures"]
    name = f"{summary['op']} {summary['impl']}"
    if not summary["tried"]:
        reasons = {**summary["unknown"], **summary["outside"]}
        lines = [f"cannot tell: {name}: none of {sum(reasons.values())} trials could be judged"]
        return lines + [f"  {count} times: {reason}" for reason, count in list(reasons.items())[:most]]
    lines = [f"{name}: {len(failures)} of {summary['tried']} trials failed"]
    repeated = repeated_failures(failures)
    lines += [f"  {r.first['status']}: {r.first['kind']}: {r.sentence}" for r in repeated[:most]]
    if len(repeated) > most:
        lines.append(f"  and {sum(r.count for r in repeated[most:])} more")
    return lines


def failure_sentence(summary: BatterySummary) -> str | None:
    """Why a battery's status is not `ok`, in one line: how many trials, and the first of them that has this status."""
    failures = summary["failures"]
    if failures:
        first = next(failure for failure in failures if failure["status"] == summary["status"])
        counted = f"{len(failures)} of {summary['tried']} trials failed"
        return f"{counted}, the first at {first['label']}: {first['reason']}"
    imprecise = summary["first_imprecise"]
    if imprecise:
        counted = f"beyond the limit at {summary['imprecise']} of {summary['tried']} trials"
        return f"{counted}, the first at {imprecise['label']}: {imprecise['reason']}"
    if summary["status"] == UNKNOWN:
        reasons = summary["unknown"]
        return f"none of {sum(reasons.values())} trials could be judged: {next(iter(reasons), '')}"
    return None


# Under compute-sanitizer ----------------------------------------------------------------------------------


def sanitizer_verdicts(outcomes: Sequence[SanitizerOutcome]) -> list[SanitizerOutcome]:
    return [with_verdict(outcome) for outcome in outcomes]


def with_verdict(outcome: SanitizerOutcome) -> SanitizerOutcome:
    """The outcome with its status: `wrong` for errors in the implementation's own kernels, `unknown` where unclear."""
    status, reason = _sanitizer_status(outcome)
    described: list[SanitizerFinding] = [{**f, "said": finding_sentence(f)} for f in outcome["findings"]]
    return {**outcome, "status": status, "reason": reason, "findings": described}


def _sanitizer_status(outcome: SanitizerOutcome) -> tuple[str, str | None]:
    errors = [f for f in outcome["findings"] if f["own"] and f["severity"] == "error"]
    if errors:
        more = f", and {len(errors) - 1} more" if len(errors) > 1 else ""
        return "wrong", f"{outcome['tool']}: {finding_sentence(errors[0])}{more}"
    if outcome["unfinished"]:
        return "unknown", outcome["unfinished"]
    if not outcome["cases"]:
        return "unknown", f"no call returned: {next(iter(outcome['raised']), 'there was nothing to try')}"
    if outcome["errors"] and not outcome["findings"]:
        return "unknown", f"it counted {outcome['errors']} errors that kernellab cannot parse: see {outcome['log']}"
    return "ok", None


def finding_sentence(finding: SanitizerFinding) -> str:
    """`invalid read of 16 bytes in oob, san.py:7, at trial 33×129 · float32: out of bounds … (2 times)`."""
    size = f" of {finding['bytes']} bytes" if finding["bytes"] else ""
    kernel = f" in {short_kernel_name(finding['kernel'])}" if finding["kernel"] else ""
    place = f", {PurePath(finding['file']).name}:{finding['line']}" if finding["file"] else ""
    trial = f", at trial {finding['trial']}" if finding["trial"] else ""
    detail = f": {finding['detail']}" if finding["detail"] else ""
    count = f" ({finding['count']} times)" if finding["count"] > 1 else ""
    return f"{finding['kind']}{size}{kernel}{place}{trial}{detail}{count}"


def short_kernel_name(kernel: str) -> str:
    """A kernel's name without its return type, arguments, template arguments and anonymous namespaces."""
    kept, depth = "", 0
    for c in kernel.removeprefix("void ").replace("(anonymous namespace)::", ""):
        depth += c == "<"
        if not depth:
            if c == "(" and kept:
                break
            kept += c
        depth -= c == ">"
    return kept.strip() or kernel
