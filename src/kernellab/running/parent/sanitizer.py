"""Implementations under the tools of compute-sanitizer: one process for each tool, its output kept.

Not in a worker, which would have to be started under the tool, and without a profiler in the same process.
"""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TextIO

from kernellab.base.json import JsonObject
from kernellab.base.paths import file_name
from kernellab.declaration.targets import Target
from kernellab.record.battery_events import SanitizerFinished
from kernellab.record.journal import Journal
from kernellab.record.settings import Settings
from kernellab.running.processes import compile_cache
from kernellab.running.processes.child import Child
from kernellab.running.processes.startup import program
from kernellab.running.processes.worker_process import environment
from kernellab.running.protocol.events import ImplDescription
from kernellab.sanitizer.command import command
from kernellab.sanitizer.report import MARK, Report, read_report

_KINDS = ("triton", "cuda", "python", "compile")  # implementations with kernels of their own
_START_S = 180.0  # importing torch under a tool, and the tool's own analysis at the end
_TIMEOUTS = 3  # for one trial: kernels are much slower under a tool, but most of a small trial is not kernels
_POLL_S = 0.1
_COMPLAINTS = 5  # kept of what the tool says about itself

Listener = Callable[[int, int], None]  # which trial of how many


def impls_to_sanitize(impls: Sequence[ImplDescription], *, named: bool) -> list[str]:
    """Implementations with kernels of their own; any implementation that the user has named."""
    possible = [impl for impl in impls if not impl["obstacle"] and not impl["interpreted"]]
    return [impl["name"] for impl in possible if named or impl["kind"] in _KINDS]


class Sanitizer:
    """Runs implementations under tools and records what came of it. `path`: the program compute-sanitizer."""

    def __init__(self, path: str, settings: Settings, journal: Journal, device: str) -> None:
        self.path, self.settings, self.journal, self.device = path, settings, journal, device

    def is_done(self, op: str, impl: str, tool: str) -> bool:
        outcomes = self.journal.record["sanitized"]
        return any((outcome["op"], outcome["impl"], outcome["tool"]) == (op, impl, tool) for outcome in outcomes)

    def run(
        self, target: Target, op: str, impl: str, tool: str, listener: Listener = lambda trial, trials: None
    ) -> None:
        log = self.journal.folder / "artifacts" / f"sanitize-{file_name(op)}-{file_name(impl)}-{tool}.txt"
        log.unlink(missing_ok=True)  # of a run that was interrupted
        began = time.monotonic()
        code, timeout = self._supervise(command(tool, self.path, self._program(target, op, impl)), log, listener)
        report = read_report(log.read_text(errors="replace"), tool)
        self.journal.write(
            SanitizerFinished(
                op=op,
                impl=impl,
                tool=tool,
                planned=report.planned,
                cases=report.returned,
                raised=report.raised,
                findings=[finding.to_json() for finding in report.findings],
                errors=report.error_count,
                complaints=list(dict.fromkeys(report.complaints))[:_COMPLAINTS],
                exit=code,
                unfinished=None if report.finished else timeout or _why_unfinished(report, code, log),
                seconds=round(time.monotonic() - began, 1),
                log=f"artifacts/{log.name}",
            )
        )

    def _program(self, target: Target, op: str, impl: str) -> list[str]:
        request = {
            "target": asdict(target),
            "op": op,
            "impl": impl,
            "device": self.device,
            "seed": self.settings.seed,
            "dtypes": self.settings.request["dtypes"],
            "quick": self.settings.request["quick"],
        }
        return program("kernellab.running.programs.sanitized_op", json.dumps(request))

    def _supervise(self, words: list[str], log: Path, listener: Listener) -> tuple[int | None, str | None]:
        """The exit code; or None and why the process was ended: no trial may take longer than its timeout."""
        use = compile_cache.Use()
        # Each tensor gets an allocation of its own: in torch's cache another tensor lies beyond the end of one.
        child = Child(words, {**environment(), "PYTORCH_NO_CUDA_MEMORY_CACHING": "1"}, output=log)
        code, trial, trials = None, 0, 0
        try:
            with log.open(errors="replace") as output:
                marks = _Marks(output)
                limit, deadline = _START_S, time.monotonic() + _START_S
                while code is None:
                    code = child.poll()
                    for mark in marks.new():
                        trials = int(str(mark.get("trials", trials)))
                        trial += "begin" in mark
                        limit = _START_S if "end" in mark else _TIMEOUTS * self.settings.timeout_s
                        deadline = time.monotonic() + limit
                        listener(trial, trials)
                    if code is None and time.monotonic() > deadline:
                        return None, f"no end within {limit:g} s (--timeout)"
                    time.sleep(_POLL_S if code is None else 0)
        finally:
            child.end()
            use.end(interrupted=code is None)
        return code, None


class _Marks:
    """The lines in which the process reports its progress, read from its output as that grows."""

    def __init__(self, output: TextIO) -> None:
        self._output, self._rest = output, ""

    def new(self) -> list[JsonObject]:
        *lines, self._rest = (self._rest + self._output.read()).split("\n")
        marks = []
        for line in lines:
            if line.startswith(MARK):
                with contextlib.suppress(ValueError):
                    marks.append(json.loads(line[len(MARK) :]))
        return marks


def _why_unfinished(report: Report, code: int | None, log: Path) -> str:
    """Why a process did not reach its end, as far as its output tells."""
    where = f" at trial {report.current_trial}" if report.current_trial else ""
    if report.complaints:
        return f"compute-sanitizer: {report.complaints[-1]}"
    if report.error_count is not None and report.raised:
        return f"ended{where}: {list(report.raised)[-1]}"
    last = next((line for line in reversed(_lines(log)) if not line.startswith("=====")), "")
    return f"ended{where} with exit code {code}" + (f": {last.strip()[:200]}" if last else "")


def _lines(log: Path) -> list[str]:
    text = log.read_text(errors="replace")
    return [line for line in text.splitlines() if line.strip() and not line.startswith(MARK)]
