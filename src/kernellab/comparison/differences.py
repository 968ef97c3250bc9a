"""What besides the code may explain a difference between two sides: versions, boards, checks, times not trusted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from kernellab.base.text import plural
from kernellab.comparison.pairs import Pair
from kernellab.comparison.side import Side
from kernellab.stats.trust import CLOCK_MOVED


@dataclass(frozen=True)
class VersionChange:
    name: str
    before: str
    after: str


def version_changes(before: Side, after: Side) -> list[VersionChange]:
    names = dict.fromkeys([*before.versions, *after.versions])
    versions = [
        VersionChange(name, before.versions.get(name, "none"), after.versions.get(name, "none")) for name in names
    ]
    return [version for version in versions if version.before != version.after]


def find_warnings(before: Side, after: Side, pairs: Sequence[Pair]) -> list[str]:
    """Sentences; empty where nothing but the code differs."""
    return list(_warnings(before, after, pairs))


def _warnings(before: Side, after: Side, pairs: Sequence[Pair]) -> Iterator[str]:
    if list(before.records) == list(after.records):
        yield "both sides are the same runs"
    if before.devices != after.devices:
        yield f"the machines differ: {' and '.join(before.devices)} before, {' and '.join(after.devices)} after"
    elif before.boards != after.boards:
        yield "the runs were on different boards of one model, and boards differ more than runs on one board do"
    changed = version_changes(before, after)
    if changed:
        yield f"versions differ: {', '.join(f'{v.name} {v.before} before, {v.after} after' for v in changed)}"
    if before.checks != after.checks:
        checks = [", ".join(side.checks) or "none" for side in (before, after)]
        yield f"the checks differ ({checks[0]} before, {checks[1]} after): statuses at the declared cases are compared"
    seeds = [{record["seed"] for record in side.records} for side in (before, after)]
    if seeds[0] != seeds[1]:
        yield "the runs had different seeds, so their inputs differ"
    for when, side in (("before", before), ("after", after)):
        if not all(record["complete"] for record in side.records):
            yield f"a run {when} did not finish: results may be missing"
    for when, trusts in (("before", [p.trust_before for p in pairs]), ("after", [p.trust_after for p in pairs])):
        reasons = Counter(name for trust in trusts for name in trust.split(", ") if name not in ("", "trusted"))
        if reasons:
            doubtful = sum(trust not in ("", "trusted") for trust in trusts)
            listed = ", ".join(f"{name} {count}" for name, count in reasons.most_common())
            yield f"{plural(doubtful, 'time')} {when} cannot be trusted: {listed}"
    moved = [pair for pair in pairs if pair.clock_change > CLOCK_MOVED]
    if moved:
        most = max(moved, key=lambda pair: pair.clock_change)
        yield (
            f"{plural(len(moved), 'time')} at another clock of the GPU, {most.clock_before_mhz:.0f} MHz before and "
            f"{most.clock_after_mhz:.0f} MHz after for {most.key.result.op} {most.key.result.impl}: "
            "times of different power states are compared"
        )
