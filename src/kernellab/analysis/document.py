"""A trace's analyses together, as one document."""

from __future__ import annotations

from typing import Any

from kernellab.analysis import causes, findings, fusion, memory, tables, waits
from kernellab.analysis import cpu_time as processor
from kernellab.analysis import range_tree as ranges
from kernellab.analysis.causes import Analysis
from kernellab.analysis.idle import Idle
from kernellab.analysis.replay import Replay
from kernellab.analysis.waits import Waits
from kernellab.traces.trace import Trace
from kernellab.traceview import profiler_overhead as watched
from kernellab.traceview.places import Places
from kernellab.traceview.view import View

SCHEMA = 1
_EMPTY = "The trace holds no events."
_OUTSIDE = 0.01  # of the GPU's time: less of it outside the steps is not said
_OFF = 0.1  # a replay further from what was seen is not believed in silence


def analyse(trace: Trace, *, plain_step_us: float | None = None, gbps: float | None = None) -> dict[str, Any]:
    """Every question's answer. `plain_step_us` is a step's time without a profiler, `gbps` the memory's bandwidth."""
    view = View(trace)
    plain_step_us = plain_step_us or watched.plain_step_us(trace)
    places = Places(view)
    blocking = Waits(view, places)
    idle = Idle(view, places, blocking.rows)
    chains = fusion.chains(view, places, gbps)
    replay = Replay(view, blocking.rows, plain_step_us=plain_step_us)
    analysis = Analysis(view, places, blocking, idle, chains, replay)
    cpu = None if len(view.gpu) else processor.spent(view, places)
    return {
        "schema": SCHEMA,
        "summary": _summary(analysis, plain_step_us),
        "findings": findings.ranked(analysis, [] if view.missing_work.substantial else causes.found(analysis), cpu),
        "cpu": cpu.document() if cpu else None,
        "operators": tables.operators(view),
        "kernels": tables.kernels(view),
        "modules": tables.modules(view),
        "ranges": ranges.tree(view),
        "sync_points": waits.points(blocking.sites, idle.after_wait_ns, blocking.rows),
        "idle": idle.document(),
        "fusion": fusion.document(chains, view.steps.count),
        "memory": memory.document(view, places),
        "calls": tables.calls(view),
        "notes": _notes(analysis, plain_step_us),
    }


def _summary(analysis: Analysis, plain_step_us: float | None) -> dict[str, Any]:
    view, steps = analysis.view, analysis.view.steps
    replays = not view.missing_work.substantial
    busy_us = sum(analysis.idle.busy_ns.values()) / 1e3
    per_step_us = busy_us / max(len(analysis.idle.devices), 1) / steps.count
    return {
        "source": view.trace.source,
        "rows": len(view.trace),
        "span_us": round(view.trace.span_ns / 1e3, 3),
        "gpu_busy_us": round(busy_us, 3),
        "gpu_us": round(int(view.gpu_ns.sum()) / 1e3, 3),
        "on_gpu": bool(len(view.gpu)),
        "gpu_rows_missing": view.missing_work.substantial,
        "devices": view.devices,
        "steps": steps.count,
        "steps_marked": steps.marked,
        "tables_of": "steps" if view.of_steps else "all",
        "step_us": round(steps.duration_ns / steps.count / 1e3, 3),
        "plain_step_us": plain_step_us,
        "plain_busy_fraction": round(min(per_step_us / plain_step_us, 1.0), 4) if plain_step_us and replays else None,
        "replayed_step_us": round(analysis.replay.step_ns / 1e3, 3) if replays else None,
        "replayed_profiled_us": round(analysis.replay.watched_step_ns / 1e3, 3) if replays else None,
        "profiler_operator_ns": round(analysis.replay.watch.row_ns, 1),
    }


def _notes(analysis: Analysis, plain_step_us: float | None) -> list[str]:
    view, replay, notes = analysis.view, analysis.replay, list(analysis.view.trace.notes)
    if not len(view.trace):
        return notes if _EMPTY in notes else [*notes, _EMPTY]  # a reader may have said so
    if view.steps.calls_of:
        notes.append(f"No steps are marked: a call of {view.steps.calls_of} is taken for one, its first left out.")
    elif not view.steps.marked:
        notes.append(
            "No steps are marked: the whole trace is taken as one. kl.step() or ranges named step_<i> mark them."
        )
    unseen = view.missing_work
    if unseen.substantial:
        return notes
    if unseen.missing:
        notes.append(f"{unseen.missing} of {unseen.launches} launches have no row on the GPU.")
    if not len(view.gpu):
        notes.append("No GPU activity was recorded: times are the CPU's.")
        return notes
    if not len(view.pythons):
        notes.append("No Python calls were recorded (with_stack): waits are named by operator, not by line.")
    outside_ns, whole_ns = int(view.gpu_ns[~view.gpu_counted].sum()), int(view.gpu_ns.sum())
    if outside_ns > _OUTSIDE * whole_ns:
        notes.append(
            f"Tables are of the steps; {outside_ns / whole_ns:.0%} of the GPU's time came before or after them."
        )
    unstarted = int((view.calls < 0).sum())
    if unstarted:
        notes.append(f"{unstarted} of {len(view.gpu)} rows of the GPU have no call that started them.")
    if unstarted == len(view.gpu):
        notes.append("So steps cannot be replayed, and nothing is known of what could be gained.")
        return notes
    return notes + _doubts(replay, plain_step_us)


def _doubts(replay: Replay, plain_step_us: float | None) -> list[str]:
    """What is not known of the program as it runs unwatched."""
    watch, notes = replay.watch, list[str]()
    seen_us, step_us = replay.seen_step_ns / 1e3, replay.step_ns / 1e3
    if plain_step_us is None and watch.row_ns:
        notes.append(
            "A step's time without the profiler is not known. Rows are charged what they usually cost, "
            f"{watch.row_ns / 1e3:.1f} µs an operator, which makes a step of {seen_us:.0f} µs one of {step_us:.0f} µs: "
            "what is said of launches and waits is in doubt."
        )
    elif plain_step_us is None:
        notes.append(
            "A step's time without the profiler is not known: the profiler slows the CPU, so that waits and launches "
            "look dearer than they are."
        )
    if watch.longer > 1 + _OFF:
        notes.append(
            f"A step takes {plain_step_us:.0f} µs without the profiler, and took {seen_us:.0f} µs with it: long "
            "stretches of the CPU and copies of pageable memory, which it does not slow, are taken to last "
            f"{watch.longer:.1f} times as long as was seen."
        )
    replayed, wanted = (step_us, plain_step_us) if plain_step_us else (replay.watched_step_ns / 1e3, seen_us)
    if abs(replayed / max(wanted, 1e-3) - 1) > _OFF:
        notes.append(f"The replay gives {replayed:.0f} µs for a step of {wanted:.0f} µs: gains are as much in doubt.")
    return notes
