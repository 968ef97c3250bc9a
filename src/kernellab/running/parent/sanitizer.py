"""Runs implementations under the tools of compute-sanitizer: one process for each tool, whose output is kept.

It does not use workers: a tool must start the process itself, and no profiler may run in that process.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
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
from kernellab.running.processes.startup import environment, program
from kernellab.running.protocol.events import ImplDescription
from kernellab.sanitizer.command import command
from kernellab.sanitizer.report import MARK, Report, read_report

_KINDS = ("triton", "cuda", "python", "compile")  # implementations with kernels of their own
_START_S = 180.0  # for importing torch under a tool, and for the tool's own analysis at the end
_TIMEOUTS = 3  # per trial: kernels are much slower under a tool, but a small trial spends most of its time elsewhere
_POLL_S = 0.1
_AT_ONCE = max(1, min(4, (os.cpu_count() or 1) // 2))
_COMPLAINTS = 5  # of the tool about its own problems, kept at most


def impls_to_sanitize(impls: Sequence[ImplDescription], *, named: bool) -> list[str]:
    """Implementations with kernels of their own; any implementation that the user has named."""
    possible = [impl for impl in impls if not impl["obstacle"] and not impl["interpreted"]]
    return [impl["name"] for impl in possible if named or impl["kind"] in _KINDS]


@dataclass(frozen=True)
class SanitizerJob:
    """One implementation under one tool."""

    target: Target
    op: str
    impl: str
    tool: str


Listener = Callable[[SanitizerJob, int, int], None]  # which trial of how many


class Sanitizer:
    """Runs implementations under tools and records the outcome. `path`: of the program compute-sanitizer."""

    def __init__(self, path: str, settings: Settings, journal: Journal, device: str) -> None:
        self.path, self.settings, self.journal, self.device = path, settings, journal, device

    def run(self, jobs: Sequence[SanitizerJob], listener: Listener = lambda job, trial, trials: None) -> None:
        """Run the jobs, several at a time: most of the time is spent starting Python and the tool, on the CPU.

        Jobs that are in the record already are left out. The listener receives the current trial of each job.
        """
        waiting = deque(job for job in jobs if not self._is_done(job))
        running: list[_SanitizedProcess] = []
        try:
            while waiting or running:
                while waiting and len(running) < _AT_ONCE:
                    job = waiting.popleft()
                    listener(job, 0, 0)
                    running.append(self._start(job, listener))
                for process in [process for process in running if process.poll()]:
                    running.remove(process)
                    process.end()
                    self.journal.write(process.outcome())
                    self.journal.save()
                time.sleep(_POLL_S)
        finally:
            for process in running:
                process.end()

    def _is_done(self, job: SanitizerJob) -> bool:
        outcomes = self.journal.record["sanitized"]
        return any((o["op"], o["impl"], o["tool"]) == (job.op, job.impl, job.tool) for o in outcomes)

    def _start(self, job: SanitizerJob, listener: Listener) -> _SanitizedProcess:
        name = f"sanitize-{file_name(job.op)}-{file_name(job.impl)}-{job.tool}.txt"
        words = command(job.tool, self.path, self._program(job))
        trial_limit_s = _TIMEOUTS * self.settings.timeout_s
        return _SanitizedProcess(job, words, self.journal.folder / "artifacts" / name, trial_limit_s, listener)

    def _program(self, job: SanitizerJob) -> list[str]:
        request = {
            "target": asdict(job.target),
            "op": job.op,
            "impl": job.impl,
            "device": self.device,
            "seed": self.settings.seed,
            "dtypes": self.settings.request["dtypes"],
            "quick": self.settings.request["quick"],
        }
        return program("kernellab.running.programs.sanitized_op", json.dumps(request))


class _SanitizedProcess:
    """A running job. It is ended if a trial exceeds its limit."""

    def __init__(
        self, job: SanitizerJob, words: list[str], log: Path, trial_limit_s: float, listener: Listener
    ) -> None:
        self._job, self._log, self._trial_limit_s, self._listener = job, log, trial_limit_s, listener
        log.unlink(missing_ok=True)  # from an interrupted run
        self._began = time.monotonic()
        self._cache_use = compile_cache.CacheUse()
        # Each tensor gets its own allocation: in torch's cache another tensor may begin right after the end of one.
        self._child = Child(words, {**environment(), "PYTORCH_NO_CUDA_MEMORY_CACHING": "1"}, output=log)
        self._output = log.open(errors="replace")
        self._marks = _Marks(self._output)
        self._trial, self._trials = 0, 0
        self._limit_s, self._deadline = _START_S, self._began + _START_S
        self._code: int | None = None
        self._timeout: str | None = None

    def poll(self) -> bool:
        """Read the reported progress; returns whether the job has ended."""
        self._code = self._child.poll()
        for mark in self._marks.new():
            self._trials = int(str(mark.get("trials", self._trials)))
            self._trial += "begin" in mark
            self._limit_s = _START_S if "end" in mark else self._trial_limit_s
            self._deadline = time.monotonic() + self._limit_s
            self._listener(self._job, self._trial, self._trials)
        if self._code is None and time.monotonic() > self._deadline:
            self._timeout = f"did not finish within {self._limit_s:g} s (--timeout)"
        return self._code is not None or self._timeout is not None

    def end(self) -> None:
        """Kill the process if it still runs."""
        self._child.end()
        self._output.close()
        self._cache_use.end(interrupted=self._code is None)

    def outcome(self) -> SanitizerFinished:
        report = read_report(self._log.read_text(errors="replace"), self._job.tool)
        unfinished = None if report.finished else self._timeout or _why_unfinished(report, self._code, self._log)
        return SanitizerFinished(
            op=self._job.op,
            impl=self._job.impl,
            tool=self._job.tool,
            planned=report.planned,
            cases=report.returned,
            raised=report.raised,
            findings=[finding.to_json() for finding in report.findings],
            errors=report.error_count,
            complaints=list(dict.fromkeys(report.complaints))[:_COMPLAINTS],
            exit=self._code,
            unfinished=unfinished,
            seconds=round(time.monotonic() - self._began, 1),
            log=f"artifacts/{self._log.name}",
        )


class _Marks:
    """The lines in which the process reports its progress, read while its output grows."""

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
    """Why a process did not finish, according to its output."""
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
