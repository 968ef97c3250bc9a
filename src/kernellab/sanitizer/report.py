"""Reads what compute-sanitizer prints: one text block per report, attributed to a kernel, a source line and a trial.

The process under the tool prints marked lines, so a report can be attributed to the trial that was running.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from kernellab.base.json import JsonObject
from kernellab.record.schema import SanitizerFinding

MARK = "kernellab sanitize: "  # begins the lines by which the process under a tool reports its progress

_PREFIX = re.compile(r"^=========( .*)?$")
_PLACE = re.compile(r"\bat (?P<kernel>.+?)[+:]0x[0-9a-f]+(?: in (?P<file>.+?):(?P<line>\d+))?(?= \[|$)")
_OLD_PLACE = re.compile(r"\bat 0x[0-9a-f]+ in (?:(?P<file>.+?):(?P<line>\d+):)?(?P<kernel>.+)$")
_FRAME = re.compile(r"^Device Frame: ?(?P<kernel>.+?)\+0x[0-9a-f]+(?: in (?P<file>.+?):(?P<line>\d+))?$")
_ACCESS = re.compile(r"(?:potential )?invalid __(\w+)__ (\w+) of size (\d+)", re.IGNORECASE)
_UNINITIALISED = re.compile(r"Uninitialized __(\w+)__ memory read of size (\d+)", re.IGNORECASE)
_RACE = re.compile(r"(error|warning): (?:race reported between|potential (\w+) hazard)", re.IGNORECASE)
_RACING_ACCESS = re.compile(r"\b(Read|Write)(?: access| Thread \([\d,]+\)) at ", re.IGNORECASE)
_HAZARDS = re.compile(r"\[(\d+) hazards?\]")
_BARRIER = re.compile(r"(?:barrier error|warpgroup mma sequence error) detected\.? *(.*)", re.IGNORECASE)
_SUMMARY = re.compile(r"(?:ERROR|RACECHECK) SUMMARY: (\d+)")
_ADDRESS = re.compile(r" (?:to|at) 0x[0-9a-f]+")
# Printed at every start or end, or about API calls: their errors reach the caller as exceptions.
_IGNORED = (
    *("COMPUTE-SANITIZER", "LEAK SUMMARY", "Program hit ", "CUDA API Error", "Target application returned an error"),
    *("Error: process didn't terminate successfully", "Saved host backtrace"),
)

# Kernels that are not the implementation's own. PyTorch's are known by namespace, libraries' by name, unless the report
# has a source line, which only kernels built here have (an author's own kernel may use CUTLASS).
_PYTORCH_KERNELS = re.compile(r"(?:^|[\s<(])(?:at|c10|at_cuda_detail|torch)::|^(?:void )?at_cuda_detail")
_LIBRARY_KERNELS = re.compile(
    r"cublas|cudnn|cusolver|cusparse|cufft|cutlass|nvjet|xmma|\bcub::|\bthrust::|splitKreduce|gemmSN|gemv2|"
    r"^(?:void )?(?:ampere|volta|turing|sm\d\d|hopper|maxwell)_|nccl|curand",
    re.IGNORECASE,
)


def is_own(kernel: str | None, file: str | None) -> bool:
    """Whether a kernel is the implementation's own: not PyTorch's and not a library's."""
    if kernel is None:
        return True
    return not (_PYTORCH_KERNELS.search(kernel) or (file is None and _LIBRARY_KERNELS.search(kernel)))


@dataclass(frozen=True)
class Place:
    """Where a report points to: a kernel, and a source line if the kernel was built with line information."""

    kernel: str | None = None
    file: str | None = None
    line: int | None = None


@dataclass
class Finding:
    """What a tool reports about one line of one kernel."""

    tool: str
    severity: str  # error, or warning if the tool is not certain
    bytes: int | None
    count: int
    kernel: str | None
    file: str | None
    line: int | None
    kind: str
    detail: str
    own: bool  # whether the kernel is the implementation's own
    trial: str | None = None  # the trial that was running

    def to_json(self) -> SanitizerFinding:
        return {
            "kind": self.kind,
            "severity": self.severity,
            "kernel": self.kernel,
            "file": self.file,
            "line": self.line,
            "bytes": self.bytes,
            "detail": self.detail,
            "count": self.count,
            "trial": self.trial,
            "own": self.own,
        }


@dataclass
class Report:
    """The output of a process under a tool."""

    findings: list[Finding] = field(default_factory=list)
    current_trial: str | None = None  # the trial that was begun last
    planned: int = 0  # trials
    returned: int = 0  # trials whose call returned
    raised: dict[str, int] = field(default_factory=dict)  # how many calls did not return, by reason
    finished: bool = False  # whether the process finished and the tool printed its summary
    error_count: int | None = None  # by the tool's own count
    complaints: list[str] = field(default_factory=list)  # of the tool about its own problems


def read_report(text: str, tool: str) -> Report:
    """Parse the output. Findings of one kind in one line of one kernel are merged; `count` is how many there were."""
    report, ended = Report(), False
    by_place: dict[tuple[str, str | None, str | None, int | None], Finding] = {}
    for block in _blocks(text):
        if isinstance(block, dict):
            ended = ended or "end" in block
            _read_progress(report, block)
            continue
        summary = _SUMMARY.match(block[0])
        if summary:
            report.error_count = int(summary[1])
        elif not block[0].startswith(_IGNORED):
            finding = _finding(block, tool)
            if finding is None:
                report.complaints.append(block[0])
                continue
            key = finding.kind, finding.kernel, finding.file, finding.line
            if key in by_place:
                by_place[key].count += finding.count
            else:
                finding.trial = report.current_trial
                by_place[key] = finding
    report.findings = list(by_place.values())
    report.finished = ended and report.error_count is not None
    return report


def _read_progress(report: Report, line: JsonObject) -> None:
    """Read a marked line: `trials` (how many are planned), `begin` (a trial), or `status` and `reason` of its call."""
    planned, begun, reason = line.get("trials"), line.get("begin"), line.get("reason")
    if isinstance(planned, int):
        report.planned = planned
    if isinstance(begun, str):
        report.current_trial = begun
    if line.get("status") == "ok":
        report.returned += 1
    elif "status" in line and isinstance(reason, str):
        report.raised[reason] = report.raised.get(reason, 0) + 1


def _blocks(text: str) -> Iterator[list[str] | JsonObject]:
    """The tool's reports, each a line with the lines indented below it, and the marked lines of the process, in order.

    Other lines are printed by the implementation and are ignored.
    """
    block: list[str] = []
    for line in text.splitlines():
        if line.startswith(MARK):
            if block:
                yield block
                block = []
            try:
                yield json.loads(line[len(MARK) :])
            except ValueError:  # cut short: the process was killed
                continue
            continue
        prefixed = _PREFIX.match(line)
        if prefixed is None:
            continue
        content = (prefixed[1] or "")[1:]
        indented = content.startswith(" ")
        if block and not indented:
            yield block
            block = []
        if content.strip() and (block or not indented):
            block.append(content.strip())
    if block:
        yield block


def _finding(block: Sequence[str], tool: str) -> Finding | None:
    head, place = block[0], _place(block)
    details = [_ADDRESS.sub("", line) for line in block[1:] if re.match(r"(Access|Address|and is|Not )", line)]
    detail = ", ".join(re.sub(r"^(Access|Address|and) is ", "", line) for line in details)
    severity, bytes_, count = "error", None, 1
    if access := _ACCESS.match(head):
        kind = f"{'misaligned' if 'misaligned' in detail else 'invalid'} {access[2].lower()}"
        bytes_, detail = int(access[3]), _join(f"{access[1]} memory", detail)
    elif uninitialised := _UNINITIALISED.match(head):
        kind = "uninitialised read"
        bytes_, detail = int(uninitialised[2]), f"{uninitialised[1]} memory that was never written"
    elif race := _RACE.match(head):
        warning = race[1].lower() == "warning"
        kind, severity = ("possible race", "warning") if warning else ("race", "error")
        count = sum(int(n) for n in _HAZARDS.findall(" ".join(block))) or 1
        detail = _racing_accesses(block)
    elif barrier := _BARRIER.match(head):
        kind, detail = "barrier", barrier[1].strip().rstrip(".").lower()
    elif place.kernel is not None or head.startswith("Host API"):
        kind, detail = _first_words(head), _join(head, detail)
    else:
        return None
    # A copy by the host belongs to no kernel, and copying a buffer that is only partly written is not an error.
    own = is_own(place.kernel, place.file) and not (tool == "initcheck" and place.kernel is None)
    return Finding(tool, severity, bytes_, count, place.kernel, place.file, place.line, kind, detail, own)


def _join(*parts: str) -> str:
    return ", ".join(part for part in parts if part)


def _first_words(head: str) -> str:
    """A kind for a report of an unknown kind: `warp illegal instruction`."""
    return re.split(r"[.:,]| at | of size", head)[0].strip().lower()[:60]


def _place(block: Sequence[str]) -> Place:
    """The kernel, and the source line of the access, which may be in a function that the kernel calls."""
    at = next((m for line in block for m in [_PLACE.search(line) or _OLD_PLACE.search(line)] if m), None)
    frames = [m for line in block for m in [_FRAME.match(line)] if m]
    matches = [*([at] if at else []), *frames]
    if not matches:
        return Place()
    kernel = (frames[-1] if frames else matches[0])["kernel"]
    with_source = next((m for m in matches if m["file"]), None)
    if with_source is None:
        return Place(kernel.strip())
    return Place(kernel.strip(), with_source["file"], int(with_source["line"]))


def _racing_accesses(block: Sequence[str]) -> str:
    """`write at kernels.cu:5, read at kernels.cu:6`."""
    accesses = []
    for line in block:
        access, place = _RACING_ACCESS.search(line), _PLACE.search(line)
        if access and place:
            where = f"{Path(place['file']).name}:{place['line']}" if place["file"] else place["kernel"]
            accesses.append(f"{access[1].lower()} at {where}")
    return ", ".join(accesses)
