"""All analyses of a trace in one document, which `klab profile --json` prints."""

from __future__ import annotations

from typing import TypedDict

from kernellab.analysis import findings, fusion, memory, range_tree, tables, waits
from kernellab.analysis.causes import Analysis, find_causes
from kernellab.analysis.cpu_time import CpuDocument, measure_cpu_time
from kernellab.analysis.fusion import ChainDocument
from kernellab.analysis.idle import IdleDocument, IdleTime
from kernellab.analysis.memory import MemoryDocument
from kernellab.analysis.range_tree import RangeDocument
from kernellab.analysis.replay import Replay
from kernellab.analysis.tables import CallDocument, KernelDocument, ModuleDocument, OperatorDocument
from kernellab.analysis.waits import WaitDocument, Waits
from kernellab.findings.document import ProfileFinding, profile_document
from kernellab.traces.trace import Trace
from kernellab.traceview.places import Places
from kernellab.traceview.profiler_overhead import read_plain_step_us
from kernellab.traceview.view import View

SCHEMA = 1
_EMPTY = "The trace holds no events."
_OUTSIDE = 0.01  # of the GPU's time: less outside the steps is not reported
_TOLERANCE = 0.1  # relative error of a replay above which a note says so


class SummaryDocument(TypedDict):
    source: str
    rows: int
    span_us: float
    gpu_busy_us: float
    gpu_us: float
    on_gpu: bool
    gpu_rows_missing: bool
    devices: list[str]
    steps: int
    steps_marked: bool
    tables_of: str  # `steps` or `all`
    step_us: float
    plain_step_us: float | None  # without the profiler
    plain_busy_fraction: float | None
    replayed_step_us: float | None
    replayed_profiled_us: float | None
    profiler_operator_ns: float


class ProfileDocument(TypedDict):
    schema: int
    summary: SummaryDocument
    findings: list[ProfileFinding]
    cpu: CpuDocument | None  # only without a GPU
    operators: list[OperatorDocument]
    kernels: list[KernelDocument]
    modules: list[ModuleDocument]
    ranges: list[RangeDocument]
    sync_points: list[WaitDocument]
    idle: IdleDocument
    fusion: list[ChainDocument]
    memory: MemoryDocument
    calls: list[CallDocument]
    notes: list[str]  # what is missing from the trace, and what is uncertain because of it


def analyse(trace: Trace, *, plain_step_us: float | None = None, gbps: float | None = None) -> ProfileDocument:
    """`plain_step_us` is the time of a step without a profiler, `gbps` the memory's bandwidth, if known."""
    view = View(trace)
    plain_step_us = plain_step_us or read_plain_step_us(trace)
    places = Places(view)
    blocking = Waits(view, places)
    idle = IdleTime(view, places, blocking.rows)
    chains = fusion.find_chains(view, places, gbps)
    replay = Replay(view, blocking.rows, plain_step_us=plain_step_us)
    analysis = Analysis(view, places, blocking, idle, chains, replay)
    causes = [] if view.missing_work.substantial else find_causes(analysis)
    cpu = None if len(view.gpu_rows) else measure_cpu_time(view, places)
    return {
        "schema": SCHEMA,
        "summary": _summary(analysis, plain_step_us),
        "findings": [profile_document(finding) for finding in findings.find(analysis, causes, cpu)],
        "cpu": cpu.document() if cpu else None,
        "operators": tables.operators(view),
        "kernels": tables.kernels(view),
        "modules": tables.modules(view),
        "ranges": range_tree.document(view),
        "sync_points": waits.document(blocking.sites, idle.after_wait_ns, blocking.rows),
        "idle": idle.document(),
        "fusion": fusion.document(chains, view.steps.count),
        "memory": memory.document(view, places),
        "calls": tables.calls(view),
        "notes": _notes(analysis, plain_step_us),
    }


def _summary(analysis: Analysis, plain_step_us: float | None) -> SummaryDocument:
    view, steps, replay = analysis.view, analysis.view.steps, analysis.replay
    replayed = not view.missing_work.substantial
    busy_us = sum(analysis.idle.busy_ns.values()) / 1e3
    busy_step_us = busy_us / max(len(analysis.idle.devices), 1) / steps.count
    return {
        "source": view.trace.source,
        "rows": len(view.trace),
        "span_us": round(view.trace.span_ns / 1e3, 3),
        "gpu_busy_us": round(busy_us, 3),
        "gpu_us": round(int(view.gpu_ns.sum()) / 1e3, 3),
        "on_gpu": bool(len(view.gpu_rows)),
        "gpu_rows_missing": view.missing_work.substantial,
        "devices": view.gpu_names,
        "steps": steps.count,
        "steps_marked": steps.marked,
        "tables_of": "steps" if view.counts_steps_only else "all",
        "step_us": round(steps.duration_ns / steps.count / 1e3, 3),
        "plain_step_us": plain_step_us,
        "plain_busy_fraction": round(min(busy_step_us / plain_step_us, 1.0), 4) if plain_step_us and replayed else None,
        "replayed_step_us": round(replay.step_ns / 1e3, 3) if replayed else None,
        "replayed_profiled_us": round(replay.profiled_step_ns / 1e3, 3) if replayed else None,
        "profiler_operator_ns": round(replay.overhead.operator_ns, 1),
    }


def _notes(analysis: Analysis, plain_step_us: float | None) -> list[str]:
    view, notes = analysis.view, list(analysis.view.trace.notes)
    if not len(view.trace):
        return notes if _EMPTY in notes else [*notes, _EMPTY]  # the reader may have noted it
    if view.steps.module:
        notes.append(f"No steps are marked: each call of {view.steps.module} counts as a step, except the first.")
    elif not view.steps.marked:
        notes.append(
            "No steps are marked: the whole trace counts as one. kl.step() or ranges named step_<i> mark them."
        )
    missing = view.missing_work
    if missing.substantial:
        return notes
    if missing.missing:
        notes.append(f"{missing.missing} of {missing.launches} launches have no row on the GPU.")
    if not len(view.gpu_rows):
        notes.append("No GPU activity was recorded: times are CPU times.")
        return notes
    if not len(view.python_calls):
        notes.append("No Python calls were recorded (with_stack): waits are named by operator, not by line.")
    outside_ns, gpu_ns = int(view.gpu_ns[~view.gpu_counted].sum()), int(view.gpu_ns.sum())
    if outside_ns > _OUTSIDE * gpu_ns:
        notes.append(f"Tables cover the steps; {outside_ns / gpu_ns:.0%} of the GPU's time was before or after them.")
    unlinked = int((view.gpu_calls < 0).sum())
    if unlinked:
        notes.append(f"For {unlinked} of {len(view.gpu_rows)} GPU rows the launching call was not recorded.")
    if unlinked == len(view.gpu_rows):
        notes.append("Without launching calls, steps cannot be replayed: possible gains are unknown.")
        return notes
    return notes + _doubts(analysis.replay, plain_step_us)


def _doubts(replay: Replay, plain_step_us: float | None) -> list[str]:
    """Notes on what is uncertain about the program without the profiler."""
    overhead, notes = replay.overhead, list[str]()
    profiled_us, step_us = replay.measured_step_ns / 1e3, replay.step_ns / 1e3
    if plain_step_us is None and overhead.operator_ns:
        notes.append(
            "The time of a step without the profiler is not known. A typical profiler overhead, "
            f"{overhead.operator_ns / 1e3:.1f} µs per operator, is subtracted: a step of {profiled_us:.0f} µs becomes "
            f"{step_us:.0f} µs. Statements about launches and waits are uncertain."
        )
    elif plain_step_us is None:
        notes.append(
            "The time of a step without the profiler is not known. The profiler slows the CPU, so waits and launches "
            "appear more expensive than they are."
        )
    if overhead.stretch > 1 + _TOLERANCE:
        notes.append(
            f"A step takes {plain_step_us:.0f} µs without the profiler and took {profiled_us:.0f} µs with it. Long CPU "
            "spans and copies of pageable memory, which the profiler does not slow, are assumed to last "
            f"{overhead.stretch:.1f} times as long as measured."
        )
    if plain_step_us:
        replayed_us, wanted_us = step_us, plain_step_us
    else:
        replayed_us, wanted_us = replay.profiled_step_ns / 1e3, profiled_us
    if abs(replayed_us / max(wanted_us, 1e-3) - 1) > _TOLERANCE:
        notes.append(
            f"The replay gives {replayed_us:.0f} µs for a step of {wanted_us:.0f} µs: gains are equally uncertain."
        )
    return notes
