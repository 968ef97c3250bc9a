"""The status of a result in words: why it is not right or not timed, and what else was noticed."""

from __future__ import annotations

from rich.text import Text

from kernellab.declaration.documents import CaseJson
from kernellab.record import verdict
from kernellab.record.derived import DerivedRecord, DerivedResult
from kernellab.record.schema import CheckOutcome
from kernellab.record.statuses import FAILED, IMPRECISE, OK, RIGHT, UNKNOWN
from kernellab.reporting.sentences import battery
from kernellab.reporting.text import numbers

BAD = FAILED | {UNKNOWN}


def status_text(result: DerivedResult, record: DerivedRecord) -> Text:
    """The status of an implementation that is not in the table or not right, and why."""
    status, reason, check = result["derived"]["status"], result["derived"]["reason"], result["check"]
    right = ""
    if check is not None and is_right_here(result):
        timing = "time" in record["stages"]
        tried = battery.tried(record).get((result["op"], result["impl"])) if status == OK.name else None
        right = describe_check(check, result["case"], result["impl"], timing=timing, tried=tried)
    if status == OK.name:
        return Text(right)
    if status == IMPRECISE.name:
        return Text.assemble((f"{status}: ", "yellow"), str(reason))
    if status in BAD:
        here = f"{right.replace('right', 'right at the declared case', 1)}; " if right else ""
        return Text.assemble(here, (f"{'cannot tell' if status == UNKNOWN else status}: ", "bold red"), str(reason))
    return Text(f"{status}: {reason}", style="dim")


def is_right_here(result: DerivedResult) -> bool:
    """Whether it is right at its case, whatever the battery and the sanitizer found elsewhere."""
    return result["derived"]["at_case"]["status"] in RIGHT


def describe_check(check: CheckOutcome, case: CaseJson, impl: str, *, timing: bool, tried: int | None) -> str:
    """`right in Triton's interpreter at 16×4096, 113 trials, error 1 (torch's 0.98)`, and why it was not timed; or
    `right statistically at 1×4096 (256 draws per trial), 24 trials`.

    `tried`: trials of its battery; None where there was no battery.
    """
    peer, errors, draws = check.get("peer"), check.get("errors"), check.get("draws")
    at = check.get("checked_at")
    dims, interpreted = (at.get("dims", case["dims"]), at["interpreter"]) if at else (case["dims"], False)
    text = "right statistically" if draws else "right"
    if interpreted:
        text += " in Triton's interpreter"
    if dims != case["dims"]:
        checked: CaseJson = {**case, "dims": dims}
        text += f" at {numbers.size(checked)}"
    if draws:
        text += f" ({draws} draws per trial)"
    if tried == 0:
        text += " only" if dims != case["dims"] else " at the declared case only"
    elif tried is not None:
        text += f", {numbers.count(tried, 'trial')}"
    if errors and errors["max"] is not None:
        text += f", error {errors['max']:.2g}"
        if peer and peer["impl"] != impl and peer["max"] is not None:
            text += f" ({peer['impl']}'s {peer['max']:.2g})"
    if outside := check.get("outside"):
        text += f"; outside its domain: {numbers.count(len(outside), 'option value')}"
    if interpreted and timing:
        text += "; not timed: interpreter time is not speed"
    return text


def notes(result: DerivedResult) -> list[str]:
    """What has no place in the table: series that failed, a missing backward, what guards and the check noticed."""
    lines = []
    if is_right_here(result):
        lines += [f"{e['timer']} timer: {e['status']}: {e['reason']}" for e in verdict.faults(result)]
    gradients, check = result.get("gradients"), result["check"]
    if gradients and gradients["status"] == "skipped":
        lines.append(f"no backward: {gradients['reason']}")
    if check and "flaw" in check:
        found = result["derived"]["status"] not in RIGHT
        lines.append(f"wrong on purpose: {check['flaw']}{'' if found else '; nothing that was tried here shows it'}")
    lines += [guard["detail"] for guard in result["guards"]]
    return [*lines, *((check.get("notes") if check else None) or [])]
