"""Profiles implementations of an op, one after the other, each with its own traces.

The request comes as JSON on the command line (`protocol.OpRequest`); reports go into the folder it names.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

from kernellab.base.errors import UserError
from kernellab.base.paths import file_name
from kernellab.machine.gpu_state import gpu_is_dead, synchronise
from kernellab.profiler.protocol import OpRequest, SessionReport, write_reports
from kernellab.profiler.ranges import range as named_range
from kernellab.profiler.recording import RecordingOptions
from kernellab.profiler.schedule import Schedule
from kernellab.profiler.session import Session
from kernellab.profiler.tool_capture import ToolCapture
from kernellab.running.programs.op_calls import ImplCalls, load_request, run_impl


def main() -> None:
    sys.path.append(str(Path.cwd()))
    request: OpRequest = json.loads(sys.argv[1])
    folder = Path(request["folder"])
    reports: list[SessionReport] = []
    try:
        for report in profile_impls(request, folder):
            reports.append(report)
            write_reports(folder, 0, reports)  # at once: the next implementation may end the process
    except UserError as error:
        error.report()
        sys.exit(2)


def profile_impls(request: OpRequest, folder: Path) -> Iterator[SessionReport]:
    device, op, case, impls = load_request(request)
    schedule, options = Schedule(**request["schedule"]), RecordingOptions(**request["how"])
    tool = request["tool"]
    with ToolCapture(enabled=tool is not None and device.type == "cuda") as capture:
        for impl in impls:
            calls = ImplCalls(impl, case, device, request["pass"])
            if tool is None:
                report = _record(calls, schedule, options, folder)
            else:
                report = _run_captured(calls, schedule.active, capture)
            yield {"impl": impl.name, "op": op.name, "case": case.to_json(), **report}
            if gpu_is_dead(device):
                return


def _record(calls: ImplCalls, schedule: Schedule, options: RecordingOptions, folder: Path) -> SessionReport:
    """Record with PyTorch's profiler; each call is a step."""
    name = file_name(f"{calls.op.name}-{calls.impl.name}")
    session = Session(folder, name, schedule, options=options, steps_in_trace=True)

    def run_steps() -> None:
        session.start()
        try:
            for number in range(schedule.steps):
                _run_step(calls, number)
                session.step()
        finally:
            session.stop()

    outcome = run_impl(calls, run_steps)
    report = session.report()
    report |= {"status": outcome["status"], "reason": outcome["reason"]}
    return report


def _run_captured(calls: ImplCalls, steps: int, capture: ToolCapture) -> SessionReport:
    """Run for a tool that records from outside, from the first call of the first implementation to the last call."""

    def run_steps() -> None:
        capture.begin()
        with named_range(calls.impl.name):
            for number in range(steps):
                _run_step(calls, number)
            synchronise(calls.device)

    outcome = run_impl(calls, run_steps)
    return {
        "name": calls.impl.name,
        "traces": [],
        "steps": [],
        "notes": [],
        "status": outcome["status"],
        "reason": outcome["reason"],
    }


def _run_step(calls: ImplCalls, number: int) -> None:
    prepared = calls.prepare()
    with named_range(f"step_{number}"):
        prepared()
