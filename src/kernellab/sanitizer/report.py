"""NVIDIA's compute-sanitizer: which trials a way runs under it, and what its reports say.

The trials are `subset`'s: at most forty of the battery. The reports are text, one block each, put down to a
kernel, a source line and the trial that was running. Nothing is started here. No torch.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kernellab.declaration.case import Case
from kernellab.trials.trial import Trial

MARK = "kernellab sanitize: "  # begins the lines by which the process under a tool says what it is at

# The forty ------------------------------------------------------------------------------------------------

MOST = 40
# Kernels run 10 to 100 times slower under a tool. As many multiply-adds as 128 × 128 × 128 take a second or two.
_MOST_WORK = 1 << 22
# How many trials of a kind. Kernels take other paths, and so address other memory, by size, layout and option;
# the values in the inputs decide nothing about that. Far strides and large sizes would take gigabytes.
_SHARES = {"options": 6, "dtypes": 4, "sizes": 11, "ranks": 3, "layouts": 7, "values": 1, "indices": 2, "gradients": 6}


def subset(trials: Sequence[Trial], most: int = MOST) -> list[Trial]:
    """The trials of a battery to run under a tool, in the battery's order.

    Plain calls, forward and backward, that are not empty and not large: of each kind its share, spread evenly from
    its first to its last. Where there may be fewer, the kinds take turns.
    """
    plain = [t for t in trials if t.call == "plainly" and t.loss_on is None]
    fit = [t for t in plain if t.of in ("forward", "backward") and _work(t.case) > 0]
    by_kind = {kind: [t for t in fit if t.kind == kind and _work(t.case) <= _MOST_WORK] for kind in _SHARES}
    shares = {kind: _spread(found, _SHARES[kind]) for kind, found in by_kind.items()}
    chosen: set[str] = set()
    for turn in range(max(_SHARES.values())):
        for found in shares.values():
            if turn < len(found) and len(chosen) < most:
                chosen.add(found[turn].key)
    return [t for t in fit if t.key in chosen]


def _spread(found: Sequence[Trial], share: int) -> list[Trial]:
    if len(found) <= share:
        return list(found)
    if share == 1:
        return [found[len(found) // 2]]
    return [found[round(i * (len(found) - 1) / (share - 1))] for i in range(share)]


def _work(case: Case) -> int:
    """Every size times every other: no fewer than an op's elements, and a matmul's multiply-adds."""
    return math.prod(math.prod(size) if isinstance(size, tuple) else size for size in case.dims.values())


# The command ----------------------------------------------------------------------------------------------

_OPTIONS = (
    *("--target-processes", "application-only"),  # a compiler that the process starts is none of its business
    *("--strip-paths", "no"),
    *("--show-backtrace", "device"),  # how Python came to the launch is forty lines a report, and is known
    *("--print-limit", "4000"),
    *("--launch-timeout", "180"),  # importing torch from a cold disk may take longer than the ten seconds it waits
)
_TOOL_OPTIONS = {
    # Only the kernel ends at a bad address, so that the next trials still run. Padding: buffers may lie side by
    # side, and beyond one begins another. Errors of API calls are the caller's, who has them as exceptions.
    "memcheck": (
        *("--destroy-on-device-error", "kernel"),
        *("--padding", "16384"),
        *("--report-api-errors", "no"),
    ),
}


def command(tool: str, sanitizer: str, program: Sequence[str]) -> list[str]:
    return [sanitizer, "--tool", tool, *_OPTIONS, *_TOOL_OPTIONS.get(tool, ()), *program]


# Reports --------------------------------------------------------------------------------------------------

_PREFIX = re.compile(r"^=========( .*)?$")
_PLACE = re.compile(r"\bat (?P<kernel>.+?)[+:]0x[0-9a-f]+(?: in (?P<file>.+?):(?P<line>\d+))?(?= \[|$)")
_OLD_PLACE = re.compile(r"\bat 0x[0-9a-f]+ in (?:(?P<file>.+?):(?P<line>\d+):)?(?P<kernel>.+)$")
_FRAME = re.compile(r"^Device Frame: ?(?P<kernel>.+?)\+0x[0-9a-f]+(?: in (?P<file>.+?):(?P<line>\d+))?$")
_ACCESS = re.compile(r"(?:potential )?invalid __(\w+)__ (\w+) of size (\d+)", re.IGNORECASE)
_UNINITIALISED = re.compile(r"Uninitialized __(\w+)__ memory read of size (\d+)", re.IGNORECASE)
_RACE = re.compile(r"(error|warning): (?:race reported between|potential (\w+) hazard)", re.IGNORECASE)
_RACING = re.compile(r"\b(Read|Write)(?: access| Thread \([\d,]+\)) at ", re.IGNORECASE)
_HAZARDS = re.compile(r"\[(\d+) hazards?\]")
_BARRIER = re.compile(r"(?:barrier error|warpgroup mma sequence error) detected\.? *(.*)", re.IGNORECASE)
_SUMMARY = re.compile(r"(?:ERROR|RACECHECK) SUMMARY: (\d+)")
_ADDRESS = re.compile(r" (?:to|at) 0x[0-9a-f]+")
# Said at every start or end, or of API calls, whose errors the caller has as exceptions.
_IDLE = (
    *("COMPUTE-SANITIZER", "LEAK SUMMARY", "Program hit ", "CUDA API Error", "Target application returned an error"),
    *("Error: process didn't terminate successfully", "Saved host backtrace"),
)

# Kernels that no way wrote: PyTorch's by their namespace; libraries' by their names, unless they come with source
# lines, which only what is built here has (an author's own kernel may well be made of cutlass).
_TORCHS = re.compile(r"(?:^|[\s<(])(?:at|c10|at_cuda_detail|torch)::|^(?:void )?at_cuda_detail")
_LIBRARIES = re.compile(
    r"cublas|cudnn|cusolver|cusparse|cufft|cutlass|nvjet|xmma|\bcub::|\bthrust::|splitKreduce|gemmSN|gemv2|"
    r"^(?:void )?(?:ampere|volta|turing|sm\d\d|hopper|maxwell)_|nccl|curand",
    re.IGNORECASE,
)


def is_own(kernel: str | None, file: str | None) -> bool:
    """Whether a kernel is the way's: not PyTorch's, and not a library's."""
    if kernel is None:
        return True
    return not (_TORCHS.search(kernel) or (file is None and _LIBRARIES.search(kernel)))


@dataclass
class Read:
    """What the output of a process under a tool comes to."""

    findings: list[dict[str, Any]] = field(default_factory=list)
    begun: str | None = None  # the trial that was begun last
    planned: int = 0  # trials
    called: int = 0  # trials whose call returned
    raised: dict[str, int] = field(default_factory=dict)  # why others did not
    finished: bool = False  # the process came to its end, and the tool to its summary
    errors: int | None = None  # as the tool counts them
    complaints: list[str] = field(default_factory=list)  # of the tool, about itself


def read(text: str, tool: str) -> Read:
    """Findings, equal ones joined: those of one kind in one line of one kernel. `count` says how many there were."""
    found = Read()
    ended = False
    known: dict[tuple[Any, ...], dict[str, Any]] = {}
    for block in _blocks(text):
        if isinstance(block, dict):
            ended = ended or "end" in block
            _note(found, block)
            continue
        summary = _SUMMARY.match(block[0])
        if summary:
            found.errors = int(summary[1])
        elif not block[0].startswith(_IDLE):
            one = _finding(block, tool)
            if one is None:
                found.complaints.append(block[0])
                continue
            key = tuple(one[k] for k in ("kind", "kernel", "file", "line"))
            if key in known:
                known[key]["count"] += one["count"]
            else:
                known[key] = {**one, "trial": found.begun}
    found.findings = list(known.values())
    found.finished = ended and found.errors is not None
    return found


def _note(found: Read, said: dict[str, Any]) -> None:
    found.planned = said.get("trials", found.planned)
    found.begun = said.get("begin", found.begun)
    if said.get("status") == "ok":
        found.called += 1
    elif "status" in said:
        found.raised[said["reason"]] = found.raised.get(said["reason"], 0) + 1


def _blocks(text: str) -> Iterator[list[str] | dict[str, Any]]:
    """Reports, each a line and those indented below it, and what the process said of itself, in order.

    Whatever else is printed belongs to the way.
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
        said = (prefixed[1] or "")[1:]
        indented = said.startswith(" ")
        if block and not indented:
            yield block
            block = []
        if said.strip() and (block or not indented):
            block.append(said.strip())
    if block:
        yield block


def _finding(block: Sequence[str], tool: str) -> dict[str, Any] | None:
    head = block[0]
    place = _place(block)
    named = {"tool": tool, "severity": "error", "bytes": None, "count": 1, **place}
    details = [_ADDRESS.sub("", line) for line in block[1:] if re.match(r"(Access|Address|and is|Not )", line)]
    detail = ", ".join(re.sub(r"^(Access|Address|and) is ", "", line) for line in details)
    if access := _ACCESS.match(head):
        kind = f"{'misaligned' if 'misaligned' in detail else 'invalid'} {access[2].lower()}"
        more = {"kind": kind, "bytes": int(access[3]), "detail": _listed(f"{access[1]} memory", detail)}
    elif uninitialised := _UNINITIALISED.match(head):
        bytes_, where = int(uninitialised[2]), f"{uninitialised[1]} memory that nothing had written"
        more = {"kind": "uninitialised read", "bytes": bytes_, "detail": where}
    elif race := _RACE.match(head):
        warning = race[1].lower() == "warning"
        hazards = sum(int(n) for n in _HAZARDS.findall(" ".join(block))) or 1
        kind = "possible race" if warning else "race"
        more = {"kind": kind, "detail": _racing(block), "count": hazards}
        more["severity"] = "warning" if warning else "error"
    elif barrier := _BARRIER.match(head):
        more = {"kind": "barrier", "detail": barrier[1].strip().rstrip(".").lower()}
    elif place["kernel"] is not None or head.startswith("Host API"):
        more = {"kind": _first_words(head), "detail": _listed(head, detail)}
    else:
        return None
    # What the host copies is no kernel's, and copying a buffer that is not wholly written is no mistake.
    own = is_own(place["kernel"], place["file"]) and not (tool == "initcheck" and place["kernel"] is None)
    return {**named, **more, "own": own}


def _listed(*parts: str) -> str:
    return ", ".join(part for part in parts if part)


def _first_words(head: str) -> str:
    """`Warp Illegal Instruction`, in the manner of the other kinds."""
    return re.split(r"[.:,]| at | of size", head)[0].strip().lower()[:60]


def _place(block: Sequence[str]) -> dict[str, Any]:
    """The kernel, and the line of source: of a function called from it, where that is the one at fault."""
    at = next((m for line in block for m in [_PLACE.search(line) or _OLD_PLACE.search(line)] if m), None)
    frames = [m for line in block for m in [_FRAME.match(line)] if m]
    if at is None and not frames:
        return {"kernel": None, "file": None, "line": None}
    kernel = (frames[-1] if frames else at)["kernel"]  # type: ignore[index]
    sourced = next((m for m in ([at] if at else []) + frames if m["file"]), None)
    line = int(sourced["line"]) if sourced else None
    return {"kernel": kernel.strip(), "file": sourced["file"] if sourced else None, "line": line}


def _racing(block: Sequence[str]) -> str:
    """`write at kernels.cu:5, read at kernels.cu:6`."""
    said = []
    for line in block:
        access, place = _RACING.search(line), _PLACE.search(line)
        if access and place:
            where = f"{Path(place['file']).name}:{place['line']}" if place["file"] else place["kernel"]
            said.append(f"{access[1].lower()} at {where}")
    return ", ".join(said)
