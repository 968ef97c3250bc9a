"""Tunes one op: measures its implementations, decides, and verifies every implementation that a rule would name.

An implementation that fails its verification is taken out, and the choices are made again without it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

from kernellab.base.errors import UserError
from kernellab.declaration.documents import RequestJson
from kernellab.library.rules import (
    PYTORCH,
    Table,
    available,
    first_rule,
    shipped_table,
    usable,
)
from kernellab.record import statuses, verdict
from kernellab.record.derived import DerivedRecord, DerivedResult
from kernellab.record.journal import Journal
from kernellab.record.settings import Settings
from kernellab.running.parent.progress import Progress
from kernellab.running.parent.runner import Runner
from kernellab.running.parent.worker_pool import WorkerPool
from kernellab.running.protocol.events import DeviceChosen, OpLoaded
from kernellab.tuning.ladder import first_input_size, shapes_to_measure
from kernellab.tuning.regions import Cell, Options, TunedRule, derive_rules
from kernellab.tuning.table_text import Section, Stamp
from kernellab.tuning.winners import PASSES, Measured, Pair

SECONDS = {"cpu": 0.5, "cuda": 0.2}  # of timing for each implementation and pass
_OVERHEAD_S = {"cpu": 3.0, "cuda": 1.5}  # of building, checking and warming up, for each of these

NewJournal = Callable[[Settings, Path | None], Journal]  # in a folder of its own, or inside that of another run
NewProgress = Callable[[], AbstractContextManager[Progress]]


@dataclass(frozen=True)
class Plan:
    """What will be measured. `baseline` is the implementation that stands for PyTorch's own op."""

    op: OpLoaded
    architecture: str
    baseline: str
    candidates: list[str]
    settings: Settings

    @property
    def dtypes(self) -> list[str]:
        return self.settings.request["dtypes"] or list(dict.fromkeys(case["dtype"] for case in self.op.cases))

    @property
    def minutes(self) -> float:
        """About how long it takes."""
        sizes = len(self.settings.request["shapes"]) or 1
        series = sizes * len(self.dtypes) * len(self.candidates) * len(PASSES)
        kind = "cpu" if self.architecture == "cpu" else "cuda"
        return series * ((self.settings.seconds or SECONDS[kind]) + _OVERHEAD_S[kind]) / 60


@dataclass(frozen=True)
class Tuned:
    """What tuning an op gave. `refused`: implementations that are wrong or failed, each with the reason."""

    plan: Plan
    run: Path
    record: DerivedRecord
    cells: list[Cell]
    rules: list[TunedRule]
    verified: list[str]
    refused: dict[str, str]

    @property
    def is_measured(self) -> bool:
        return any(cell.decision.over_shipped for cell in self.cells)

    @property
    def doubts(self) -> dict[str, int]:
        """Why times cannot be trusted, and how many of them."""
        passes = [found for result in self.record["results"] for found in result["derived"]["passes"].values()]
        reasons = [reason["name"] for found in passes if found["trust"] for reason in found["trust"]["reasons"]]
        return dict(Counter(reasons))

    def section(self, stamp: Stamp) -> Section:
        dtypes = list(dict.fromkeys(cell.dtype for cell in self.cells))
        sizes = len({(cell.columns, cell.elements) for cell in self.cells})
        return Section(self.plan.op.name, stamp, sizes, dtypes, self.rules, self.refused)


def make_plan(settings: Settings) -> Plan:
    """Load the op of the settings in a worker, and complete the settings: sizes, implementations, seconds.

    Sizes and dtypes that the settings name are kept.
    """
    op, device = _load(settings)
    kind = device.device.split(":")[0]
    baseline = PYTORCH if PYTORCH in op.known_impls else "manual"
    possible = [impl["name"] for impl in op.impls if impl["apart"] and not impl["obstacle"] and not impl["interpreted"]]
    candidates = [name for name in possible if available(name)]
    if not candidates:
        missing = f"{', '.join(possible)} cannot be built" if possible else "no implementation is for this device"
        raise UserError(f"nothing to choose from for {op.name} on {device.device}: {missing}. klab doctor says why")
    request = _complete(settings.request, op, kind)
    return Plan(
        op,
        device.gpu["arch"] if device.gpu else "cpu",
        baseline,
        [baseline, *candidates],
        replace(
            settings,
            request=request,
            impls=[baseline, *candidates],
            seconds=SECONDS[kind] if settings.seconds is None else settings.seconds,
        ),
    )


def _load(settings: Settings) -> tuple[OpLoaded, DeviceChosen]:
    """The op as a worker describes it, at its declared cases."""
    with TemporaryDirectory(prefix="kernellab-tune-") as scratch:
        request: RequestJson = {**settings.request, "shapes": [], "options": {}, "quick": False}
        pool = WorkerPool(replace(settings, request=request, impls=[]), Path(scratch))
        try:
            slot = pool.open(settings.targets[0], "native")
            slot.ready()
            return slot.ops[0], slot.device
        finally:
            pool.close()


def _complete(request: RequestJson, op: OpLoaded, kind: str) -> RequestJson:
    """The request with the sizes to measure. Optional inputs, such as the weight of a norm, are given, as in models."""
    options = {name: ["true"] for name in op.optional_inputs} | request["options"]
    if request["quick"] or request["shapes"]:
        return {**request, "options": options}
    return {**request, "options": options, "shapes": shapes_to_measure(op, kind)}


def tune(plan: Plan, new_journal: NewJournal, new_progress: NewProgress) -> Tuned:
    """Measure, decide, verify."""
    run, record = _run(plan.settings, new_journal, new_progress, None)
    refused = _failures(plan, record)
    verified: list[str] = []
    while True:
        cells = _decide(plan, record, refused)
        rules = derive_rules(cells)
        named = {name for tuned in rules for name in tuned.rule[:2]} - {PYTORCH, *verified}
        if not named:
            return Tuned(plan, run, record, cells, rules, verified, refused)
        failures = _verify(plan, sorted(named), run, new_journal, new_progress)
        refused |= failures
        verified += sorted(named - failures.keys())


def _run(
    settings: Settings, new_journal: NewJournal, new_progress: NewProgress, inside: Path | None
) -> tuple[Path, DerivedRecord]:
    journal = new_journal(settings, inside)
    try:
        with new_progress() as progress:
            Runner(settings, journal, progress).run()
    finally:
        if journal.record["results"]:
            journal.save()
            journal.close()
        else:
            journal.remove()  # refused before anything was measured
    return journal.folder, verdict.derive(journal.record)


def _failures(plan: Plan, record: DerivedRecord) -> dict[str, str]:
    """Implementations that failed at any size: they are wrong, and no rule may name them."""
    failures: dict[str, str] = {}
    for result in record["results"]:
        status, reason = result["derived"]["status"], result["derived"]["reason"]
        if status in statuses.FAILED - {"oom"} and result["impl"] != plan.baseline:
            failures.setdefault(result["impl"], f"{status}: {reason}")
    return failures


def _decide(plan: Plan, record: DerivedRecord, refused: Mapping[str, str]) -> list[Cell]:
    table = shipped_table(plan.architecture)
    cells = []
    for results in verdict.groups(record["results"]):
        case = results[0]["case"]
        columns, elements = first_input_size(plan.op, case)
        options = _mode_options(plan.op, results[0])
        shipped = _shipped_choice(table, plan.op.name, case["dtype"], columns, elements, case["options"])
        decision = Measured(results, plan.baseline, refused).decide(shipped)
        cells.append(Cell(case["dtype"], options, columns if plan.op.reduces else None, elements, decision))
    return cells


def _mode_options(op: OpLoaded, result: DerivedResult) -> Options:
    """The options that select other code, such as `approximate`: a rule is for their measured values alone. Numbers,
    such as `eps`, do not matter for speed."""
    return tuple(
        (name, value)
        for name, value in result["case"]["options"].items()
        if isinstance(value, (str, bool)) and name not in op.optional_inputs
    )


def _shipped_choice(
    table: Table, op: str, dtype: str, columns: int, elements: int, options: Mapping[str, object]
) -> Pair:
    rule = first_rule(usable(table.get((op, dtype), ())), columns, elements, options)
    if rule is None or rule.forward == PYTORCH:
        return Pair(PYTORCH, PYTORCH)
    return Pair(rule.forward, rule.backward)


def _verify(
    plan: Plan, impls: list[str], run: Path, new_journal: NewJournal, new_progress: NewProgress
) -> dict[str, str]:
    """Try implementations with the quick battery of `klab check`; those that do not pass it, with the reason."""
    request: RequestJson = {**plan.settings.request, "shapes": [], "options": {}, "dims": {}, "quick": True}
    settings = replace(plan.settings, stages=["check", "battery"], request=request, impls=impls, passes=list(PASSES))
    _, record = _run(settings, new_journal, new_progress, run)
    failures: dict[str, str] = {}
    for result in record["results"]:
        status, reason = result["derived"]["status"], result["derived"]["reason"]
        if status not in statuses.RIGHT:
            failures.setdefault(result["impl"], f"not verified, {status}: {reason}")
    for name in set(impls) - {result["impl"] for result in record["results"]}:
        failures[name] = "not verified: it was not tried"
    return failures
