"""What the batteries of a record come to: per op and way, how much was tried, what passed, what did not. No torch."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

# The worst first: a way is called by the worst thing that happened to it.
_BY_GRAVITY = ("crashed", "timeout", "oom", "error", "wrong")
_FAILED = frozenset(_BY_GRAVITY)

Trial = Mapping[str, Any]


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
    failures = [t for t in tried if t["status"] in _FAILED]
    statuses = {t["status"] for t in failures}
    kinds: dict[str, dict[str, int]] = {}
    for t in tried:
        count = kinds.setdefault(t["trial"]["kind"], {"tried": 0, "passed": 0})
        count["tried"] += 1
        count["passed"] += t["status"] == "ok"
    return {
        "status": next((s for s in _BY_GRAVITY if s in statuses), "ok" if tried else "skipped"),
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
    """A way's battery in words: how much was tried, then what failed."""
    failures = one["failures"]
    lines = [f"{one['op']} {one['impl']}: {len(failures)} of {one['tried']} trials failed"]
    lines += [f"  {f['status']}: {f['kind']}: {f['label']}: {f['reason']}" for f in failures[:most]]
    if len(failures) > most:
        lines.append(f"  and {len(failures) - most} more")
    return lines
