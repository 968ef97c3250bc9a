"""A way under the tools of compute-sanitizer, as the parent sees it: one process for each tool, its output kept.

Never in a worker, which would have to be started under the tool; and no profiler in the same process.
"""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from kernellab.base.paths import file_name
from kernellab.checking.sanitizer_report import MARK, Read, command, read
from kernellab.declaration.targets import Target
from kernellab.record.journal import Journal
from kernellab.record.settings import Settings
from kernellab.running.processes import compile_cache as compilecache
from kernellab.running.processes.supervised import Leashed, program
from kernellab.running.processes.worker_process import environment

_KINDS = ("triton", "cuda", "python", "compile")  # ways with kernels of their own
_START_S = 180.0  # importing torch under a tool, and the tool's own analysis at the end
_SLOWER = 3  # what a trial may take, in timeouts: kernels are much slower, most of a small trial is not kernels
_LOOK_S = 0.1
_COMPLAINTS = 5  # of the tool about itself, kept

Heard = Callable[[int, int], None]  # which trial of how many


def ways(impls: Sequence[Mapping[str, Any]], *, named: bool) -> list[str]:
    """Which of an op's ways to run: those with kernels of their own, and whichever the user has named."""
    possible = [impl for impl in impls if not impl["obstacle"] and not impl["interpreted"]]
    return [impl["name"] for impl in possible if named or impl["kind"] in _KINDS]


class Sanitizer:
    """Runs ways of ops under tools and writes down what came of it. `path`: the program compute-sanitizer."""

    def __init__(self, path: str, settings: Settings, journal: Journal, device: str) -> None:
        self.path, self.settings, self.journal, self.device = path, settings, journal, device

    def done(self, op: str, impl: str, tool: str) -> bool:
        key = (op, impl, tool)
        return any((one["op"], one["impl"], one["tool"]) == key for one in self.journal.record["sanitized"])

    def run(self, target: Target, op: str, impl: str, tool: str, heard: Heard = lambda number, of: None) -> None:
        log = self.journal.folder / "artifacts" / f"sanitize-{file_name(op)}-{file_name(impl)}-{tool}.txt"
        log.unlink(missing_ok=True)  # of a run that was interrupted
        began = time.monotonic()
        code, over = self._watched(command(tool, self.path, self._program(target, op, impl)), log, heard)
        found = read(log.read_text(errors="replace"), tool)
        self.journal.write(
            "sanitized",
            op=op,
            impl=impl,
            tool=tool,
            planned=found.planned,
            cases=found.called,
            raised=found.raised,
            findings=found.findings,
            errors=found.errors,
            complaints=list(dict.fromkeys(found.complaints))[:_COMPLAINTS],
            exit=code,
            unfinished=None if found.finished else over or _why(found, code, log),
            seconds=round(time.monotonic() - began, 1),
            log=f"artifacts/{log.name}",
        )

    def _program(self, target: Target, op: str, impl: str) -> list[str]:
        asked: dict[str, Any] = {
            "target": vars(target),
            "op": op,
            "impl": impl,
            "device": self.device,
            "seed": self.settings.seed,
            "dtypes": self.settings.request["dtypes"],
            "quick": self.settings.request["quick"],
        }
        return [*program("programs.sanitized_op"), json.dumps(asked)]

    def _watched(self, line: list[str], log: Path, heard: Heard) -> tuple[int | None, str | None]:
        """The exit code, or None and why it was ended: no trial may take longer than its time."""
        mark = compilecache.Mark()
        # Each tensor an allocation of its own: in a cache of torch's, beyond one of them lies another.
        held = Leashed(line, log, {**environment(), "PYTORCH_NO_CUDA_MEMORY_CACHING": "1"})
        code, trial, of = None, 0, 0
        try:
            with log.open(errors="replace") as output:
                marks = _Marks(output)
                limit, deadline = _START_S, time.monotonic() + _START_S
                while code is None:
                    code = held.ended()
                    for said in marks.new():
                        of, trial = said.get("trials", of), trial + ("begin" in said)
                        limit = _START_S if "end" in said else _SLOWER * self.settings.timeout_s
                        deadline = time.monotonic() + limit
                        heard(trial, of)
                    if code is None and time.monotonic() > deadline:
                        return None, f"no end within {limit:g} s (--timeout)"
                    time.sleep(_LOOK_S if code is None else 0)
        finally:
            held.end()
            mark.remove() if code is not None else mark.spoil()
        return code, None


class _Marks:
    """What the process says of itself, read from its output as that grows."""

    def __init__(self, output: Any) -> None:
        self._output, self._rest = output, ""

    def new(self) -> list[dict[str, Any]]:
        *lines, self._rest = (self._rest + self._output.read()).split("\n")
        found = []
        for line in lines:
            if line.startswith(MARK):
                with contextlib.suppress(ValueError):
                    found.append(json.loads(line[len(MARK) :]))
        return found


def _why(found: Read, code: int | None, log: Path) -> str:
    """What can be said of a process that did not come to its end."""
    where = f" at trial {found.begun}" if found.begun else ""
    if found.complaints:
        return f"compute-sanitizer: {found.complaints[-1]}"
    if found.errors is not None and found.raised:
        return f"ended{where}: {list(found.raised)[-1]}"
    last = next((line for line in reversed(_lines(log)) if not line.startswith("=====")), "")
    return f"ended{where} with exit code {code}" + (f": {last.strip()[:200]}" if last else "")


def _lines(log: Path) -> list[str]:
    text = log.read_text(errors="replace")
    return [line for line in text.splitlines() if line.strip() and not line.startswith(MARK)]
