"""What the batteries of a record come to: per op and way, how much was tried, what passed, what did not.

And what each way did under the tools of compute-sanitizer. No torch."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import PurePath
from typing import Any

# The worst first: a way is called by the worst thing that happened to it.
_BY_GRAVITY = ("crashed", "timeout", "oom", "error", "wrong")
FAILED = frozenset(_BY_GRAVITY)

Trial = Mapping[str, Any]


def gravity(status: str) -> int:
    """Of what happened in a trial: a failure before a success, that before nothing judged."""
    return 2 if status in FAILED else int(status == "ok")


def summaries(trials: Sequence[Trial], searches: Sequence[Mapping[str, Any]] = ()) -> list[dict[str, Any]]:
    """One per op and way, in the order they were tried."""
    searched = {(one["op"], one["impl"]): one for one in searches}
    ways: dict[tuple[str, str], list[Trial]] = {}
    for trial in trials:
        ways.setdefault((trial["op"], trial["impl"]), []).append(trial)
    return [
        {"op": op, "impl": impl, **_summary(found), "search": searched.get((op, impl))}
        for (op, impl), found in ways.items()
    ]


def _summary(trials: Sequence[Trial]) -> dict[str, Any]:
    tried = [t for t in trials if t["status"] not in ("outside", "unknown")]
    failures = [t for t in tried if t["status"] in FAILED]
    statuses = {t["status"] for t in failures}
    kinds: dict[str, dict[str, int]] = {}
    for t in tried:
        count = kinds.setdefault(t["trial"]["kind"], {"tried": 0, "passed": 0})
        count["tried"] += 1
        count["passed"] += t["status"] == "ok"
    # A way that was tried with nothing is not right for want of failures.
    nothing = "unknown" if any(t["status"] == "unknown" for t in trials) else "skipped"
    return {
        "status": next((s for s in _BY_GRAVITY if s in statuses), "ok" if tried else nothing),
        "interpreter": any(t["interpreter"] for t in trials),
        "tried": len(tried),
        "passed": len(tried) - len(failures),
        "kinds": kinds,
        "outside": dict(Counter(t["reason"] for t in trials if t["status"] == "outside").most_common()),
        "unknown": dict(Counter(t["reason"] for t in trials if t["status"] == "unknown").most_common()),
        "worst": _worst(tried),
        "notes": dict(Counter(note for t in tried for note in t.get("notes") or ()).most_common()),
        "mended": [t["trial"]["label"] for t in tried if t["trial"]["kind"] == "stored" and t["status"] == "ok"],
        "failures": [
            {"kind": t["trial"]["kind"], "label": t["trial"]["label"], "status": t["status"], "reason": t["reason"]}
            for t in failures
        ],
    }


def _worst(tried: Sequence[Trial]) -> dict[str, Any] | None:
    """The right result with the largest error, beside the error it is held to."""
    measured = [t for t in tried if t["status"] == "ok" and (t.get("errors") or {}).get("max") is not None]
    if not measured:
        return None
    worst = max(measured, key=lambda t: t["errors"]["max"])
    return {
        "label": worst["trial"]["label"],
        "kind": worst["trial"]["kind"],
        "errors": worst["errors"],
        "peer": worst["peer"],
    }


def sentences(one: Mapping[str, Any], most: int = 12) -> list[str]:
    """A way's battery in words: how much was tried, then what failed; or why nothing was."""
    failures = one["failures"]
    if not one["tried"]:
        reasons = {**one["unknown"], **one["outside"]}
        lines = [f"cannot tell: {one['op']} {one['impl']}: none of {sum(reasons.values())} trials could be judged"]
        return lines + [f"  {count} times: {reason}" for reason, count in list(reasons.items())[:most]]
    lines = [f"{one['op']} {one['impl']}: {len(failures)} of {one['tried']} trials failed"]
    lines += [f"  {f['status']}: {f['kind']}: {f['label']}: {f['reason']}" for f in failures[:most]]
    if len(failures) > most:
        lines.append(f"  and {len(failures) - most} more")
    return lines


# Under compute-sanitizer ----------------------------------------------------------------------------------


def sanitized(entries: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """One per op, way and tool: `wrong` for errors in the way's own kernels, `unknown` where the tool cannot tell."""
    return [{**one, **_under_tool(one)} for one in entries]


def _under_tool(one: Mapping[str, Any]) -> dict[str, Any]:
    errors = [f for f in one["findings"] if f["own"] and f["severity"] == "error"]
    if errors:
        more = f", and {len(errors) - 1} more" if len(errors) > 1 else ""
        status, reason = "wrong", f"{one['tool']}: {finding(errors[0])}{more}"
    elif one["unfinished"]:
        status, reason = "unknown", one["unfinished"]
    elif not one["cases"]:
        status, reason = "unknown", f"no call returned: {next(iter(one['raised']), 'there was nothing to try')}"
    elif one["errors"] and not one["findings"]:
        status, reason = "unknown", f"it counts {one['errors']} errors that cannot be read here: {one['log']}"
    else:
        status, reason = "ok", None
    findings = [{**f, "said": finding(f)} for f in one["findings"]]
    return {"status": status, "reason": reason, "findings": findings}


def finding(one: Mapping[str, Any]) -> str:
    """`invalid read of 16 bytes in oob, san.py:7, at trial 33×129 · float32: out of bounds … (2 times)`."""
    size = f" of {one['bytes']} bytes" if one["bytes"] else ""
    kernel = f" in {short(one['kernel'])}" if one["kernel"] else ""
    place = f", {PurePath(one['file']).name}:{one['line']}" if one["file"] else ""
    trial = f", at trial {one['trial']}" if one["trial"] else ""
    detail = f": {one['detail']}" if one["detail"] else ""
    count = f" ({one['count']} times)" if one["count"] > 1 else ""
    return f"{one['kind']}{size}{kernel}{place}{trial}{detail}{count}"


def short(kernel: str) -> str:
    """A kernel's name without its return type, arguments and what is in its angle brackets."""
    kept, depth = "", 0
    for c in kernel.removeprefix("void "):
        depth += c == "<"
        if not depth:
            if c == "(" and kept:
                break
            kept += c
        depth -= c == ">"
    return kept.strip() or kernel
