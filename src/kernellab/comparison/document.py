"""A comparison as one JSON document."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypedDict

from kernellab.comparison.compare import Comparison
from kernellab.comparison.differences import VersionChange, version_changes
from kernellab.comparison.pairs import ERROR, Pair, ResultKey
from kernellab.comparison.rerun import Rerun
from kernellab.comparison.side import Side
from kernellab.comparison.statuses import SideStatus, StatusChange
from kernellab.declaration.documents import CaseJson

SCHEMA = 1  # the version of this format


class SideJson(TypedDict):
    """One side: the runs before or after."""

    name: str
    runs: int
    devices: list[str]
    commits: list[str]


class ResultKeyJson(TypedDict):
    op: str
    impl: str
    case: CaseJson


class VariationJson(TypedDict):
    """The standard deviation from run to run that was used. `source`: `measured`, `assumed` or `runs`."""

    relative: float
    source: str


_Pass = TypedDict("_Pass", {"pass": str})


class PairJson(_Pass, ResultKeyJson):
    """One time on both sides. `ratio` is after / before; `low` and `high` are the interval its verdict rests on."""

    timer: str | None
    cache: str | None
    before_us: float
    after_us: float
    ratio: float
    low: float | None
    high: float | None
    verdict: str
    reason: str
    variation: VariationJson | None
    blocks: int
    trust_before: str
    trust_after: str
    clock_before_mhz: float | None
    clock_after_mhz: float | None
    tuned_differently: bool


class StatusJson(TypedDict):
    status: str
    reason: str | None


class ChangeJson(ResultKeyJson):
    before: StatusJson
    after: StatusJson
    verdict: str


class VersionChangeJson(TypedDict):
    name: str
    before: str
    after: str


class RerunJson(TypedDict):
    """How the unresolved pairs were measured again."""

    seed: int
    blocks: int
    pairs: int
    before: list[str]
    after: list[str]
    devices: list[str]
    interrupted: bool


class ComparisonJson(TypedDict):
    """The whole comparison. `error`: how often a comparison of equal code calls anything faster or slower."""

    schema: int
    before: SideJson
    after: SideJson
    exit_code: int
    precision: float
    error: float
    pairs: list[PairJson]
    changes: list[ChangeJson]
    untimed: list[ResultKeyJson]
    only_before: list[ResultKeyJson]
    only_after: list[ResultKeyJson]
    versions: list[VersionChangeJson]
    warnings: list[str]
    rerun: RerunJson | None


def to_json(comparison: Comparison) -> ComparisonJson:
    return {
        "schema": SCHEMA,
        "before": _side(comparison.before),
        "after": _side(comparison.after),
        "exit_code": comparison.exit_code,
        "precision": comparison.precision,
        "error": ERROR,
        "pairs": [_pair(pair) for pair in comparison.pairs],
        "changes": [_change(change) for change in comparison.changes],
        "untimed": _keys(comparison.untimed),
        "only_before": _keys(comparison.only_before),
        "only_after": _keys(comparison.only_after),
        "versions": [_version(change) for change in version_changes(comparison.before, comparison.after)],
        "warnings": list(comparison.warnings),
        "rerun": None if comparison.rerun is None else _rerun(comparison.rerun),
    }


def _side(side: Side) -> SideJson:
    return {"name": side.name, "runs": len(side.records), "devices": side.devices, "commits": side.commits}


def _key(key: ResultKey) -> ResultKeyJson:
    return {"op": key.op, "impl": key.impl, "case": key.case}


def _keys(keys: Sequence[ResultKey]) -> list[ResultKeyJson]:
    return [_key(key) for key in keys]


def _pair(pair: Pair) -> PairJson:
    variation = pair.variation
    return {
        **_key(pair.key.result),
        "pass": pair.key.pass_name,
        "timer": pair.key.timer,
        "cache": pair.key.cache,
        "before_us": pair.before_us,
        "after_us": pair.after_us,
        "ratio": pair.ratio,
        "low": pair.low,
        "high": pair.high,
        "verdict": pair.verdict,
        "reason": pair.reason,
        "variation": None if variation is None else {"relative": variation.relative, "source": variation.source},
        "blocks": pair.blocks,
        "trust_before": pair.trust_before,
        "trust_after": pair.trust_after,
        "clock_before_mhz": pair.clock_before_mhz,
        "clock_after_mhz": pair.clock_after_mhz,
        "tuned_differently": pair.tuned_differently,
    }


def _rerun(rerun: Rerun) -> RerunJson:
    return {
        "seed": rerun.seed,
        "blocks": rerun.blocks,
        "pairs": rerun.pairs,
        "before": list(rerun.before),
        "after": list(rerun.after),
        "devices": list(rerun.devices),
        "interrupted": rerun.interrupted,
    }


def _status(status: SideStatus) -> StatusJson:
    return {"status": status.status, "reason": status.reason}


def _change(change: StatusChange) -> ChangeJson:
    before, after = _status(change.before), _status(change.after)
    return {**_key(change.key), "before": before, "after": after, "verdict": change.verdict}


def _version(change: VersionChange) -> VersionChangeJson:
    return {"name": change.name, "before": change.before, "after": change.after}
