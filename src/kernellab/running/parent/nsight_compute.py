"""Nsight Compute, as the parent sees it: the command that counts, the report it leaves, and why there is none."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kernellab.analysis.counters import METRICS
from kernellab.base.errors import UserError
from kernellab.machine import tools
from kernellab.running.parent.profiling import Program
from kernellab.running.processes.child import Child
from kernellab.running.processes.worker_process import environment
from kernellab.traces import ncu as pages

SUFFIX = ".ncu-rep"
_MAIN = "kernellab.running.programs.counted_op"
_PATIENCE_S, _LOOK_S = 600.0, 0.1
# What rules with estimates need; the full set would read what no table here shows.
_SECTIONS = (
    "SpeedOfLight",
    "LaunchStats",
    "Occupancy",
    "ComputeWorkloadAnalysis",
    "MemoryWorkloadAnalysis",
    "MemoryWorkloadAnalysis_Tables",
    "SchedulerStats",
    "WarpStateStats",
    "SourceCounters",
)
# Not ncu's default, which slows the GPU to its base clock: what is counted should be what `klab bench` times, and a
# clock changed on a shared machine is others' too.
_CLOCKS = ("--clock-control", "none")
_THE_PROGRAMS = "The application returned an error code"  # not an error of ncu's
_NOT_PERMITTED = (
    "  To allow it: run as root; or put `options nvidia NVreg_RestrictProfilingToAdminUsers=0` into a file in\n"
    "  /etc/modprobe.d and restart; a container needs --cap-add=SYS_ADMIN too. Rented machines may not allow it.\n"
    "  What works without counters: klab profile OP (times and gaps), klab explain OP (the roofline from declared\n"
    "  bytes), klab inspect OP (registers, occupancy, how addresses lie), klab bench OP."
)


class WayFailed(UserError):
    """Nothing was counted of one way; others may do better."""


@dataclass(frozen=True)
class Counted:
    """What ncu saw of a process, and what the process said of itself."""

    launches: list[pages.Launch]
    rules: list[pages.Rule]
    answer: list[dict[str, Any]] = field(default_factory=list)
    report: str = ""


def tool() -> str | None:
    """ncu's path: the toolkit's, or the newest of those installed apart from it."""
    apart = sorted(Path("/opt/nvidia/nsight-compute").glob("*/ncu"), key=lambda path: _version(path.parent.name))
    return tools.toolkit_program("ncu") or next(
        (str(path) for path in reversed(apart) if os.access(path, os.X_OK)), None
    )


def command(program: Program, report: Path, ncu: str | None = None) -> list[str]:
    """What counts exactly the launches a program marks; without a path, for another machine."""
    sections = [word for name in _SECTIONS for word in ("--section", name)]
    words = [ncu or "ncu", "--profile-from-start", "off", *_CLOCKS, *sections, "--metrics", ",".join(METRICS)]
    words += ["--force-overwrite", "--export", str(report.with_suffix(""))]
    return [*words, *(program.command() if ncu else program.command("python", anywhere=True))]


def needed(asked: Mapping[str, Any], name: str) -> str:
    """ncu's path, or the command to run where it is."""
    path = tool()
    if path is None:
        program = Program(_MAIN, {**asked, "answer": ""})
        raise UserError(
            "--with ncu: Nsight Compute was not found on the PATH, in the CUDA toolkit or in /opt/nvidia. Where it is, "
            f"with kernellab, run this, then klab profile --open {name}{SUFFIX}:",
            f"  {shlex.join(command(program, Path(name + SUFFIX)))}",
        )
    return path


def ways(asked: Mapping[str, Any], answer: Path) -> list[dict[str, Any]]:
    """The ways a request means, from a process without ncu: only it may execute an op's code."""
    program = Program(_MAIN, {**asked, "do": "list", "answer": str(answer)})
    done = subprocess.run(program.command(), env=environment(), capture_output=True, text=True)
    if done.returncode or not answer.exists():
        message, _, detail = done.stderr.strip().partition("\n")
        raise UserError(
            message.removeprefix("klab: ") or f"listing ways ended with exit code {done.returncode}", detail
        )
    return _answer(answer)


def count(asked: Mapping[str, Any], report: Path, ncu: str) -> Counted:
    """Run what is asked under ncu, in a process of its own; its report, pages and log are kept."""
    answer, log = report.with_suffix(".json"), report.with_suffix(".log")
    program = Program(_MAIN, {**asked, "answer": str(answer)})
    child = Child(command(program, report, ncu), environment(), output=log)
    deadline = time.monotonic() + _PATIENCE_S
    try:
        while (code := child.poll()) is None and time.monotonic() < deadline:
            time.sleep(_LOOK_S)
    finally:
        child.end()
    said = log.read_text(errors="replace")
    known = _answer(answer)
    wrong = next((one["reason"] for one in known if one.get("status") == "error"), "")
    if wrong:
        raise WayFailed(f"it failed under ncu: {wrong}")
    if code is None:
        raise UserError(f"ncu did not end within {_PATIENCE_S:g} s: a smaller --shape takes less. Its log: {log}")
    if not report.exists():
        raise diagnosis(said, code)
    launches, rules = read(report, ncu, keep=True)
    if not launches:
        raise diagnosis(said, code)
    return Counted(launches, rules, known, report.name)


def read(report: Path, ncu: str, *, keep: bool = False) -> tuple[list[pages.Launch], list[pages.Rule]]:
    """A report's launches and rules; `keep`: its pages too, for machines without ncu."""
    texts = {page: _page(report, ncu, page) for page in ("raw", "details")}
    for page, text in texts.items() if keep else ():
        report.with_suffix(f".{page}.csv").write_text(text)
    return pages.launches(texts["raw"]), pages.rules(texts["details"])


def opened(files: Sequence[Path]) -> Counted:
    """Reports, and pages of them as CSV, that somebody brings."""
    launches: list[pages.Launch] = []
    rules: list[pages.Rule] = []
    for number, file in enumerate(files):
        if not file.is_file():
            raise UserError(f"no file {file}")
        if file.suffix == SUFFIX:
            path = tool()
            if path is None:
                raise UserError(
                    f"{file} is read by ncu itself, which is not here. Where it is, export two pages and open both:",
                    "\n".join(
                        f"  {shlex.join(_export(file, 'ncu', page))} > {page}.csv" for page in ("raw", "details")
                    ),
                )
            new, said = read(file, path)
        else:
            text = file.read_text(errors="replace")
            new, said = ([], pages.rules(text)) if pages.is_details(text) else (pages.launches(text), [])
            if not new and not said and not pages.is_details(text):
                raise UserError(
                    f"{file}: no launch in it. A page of ncu's is expected: ncu --import R --csv --page raw"
                )
        # Launches are numbered from nought in each report; two pages of one report belong together.
        mark = f"{number}:" if file.suffix == SUFFIX and len(files) > 1 else ""
        launches += [pages.prefix_id(one, mark) for one in new]
        rules += [pages.prefix_id(one, mark) for one in said]
    if not launches:
        raise UserError("no launch in what was opened: rules alone are no table. Open the page --page raw too")
    return Counted(launches, rules)


def diagnosis(said: str, code: int | None) -> UserError:
    """Why there is no report, in words that say what to do."""
    if "ERR_NVGPUCTRPERM" in said:
        return UserError(
            "ncu may not read the GPU's counters: its driver lets administrators alone (ERR_NVGPUCTRPERM)",
            _NOT_PERMITTED,
        )
    errors = re.findall(r"^==ERROR== (.+)$", said, re.MULTILINE)
    errors = [line for line in errors if not line.startswith(_THE_PROGRAMS)]
    if errors:
        return UserError(f"ncu failed: {errors[0].strip()}", "\n".join(f"  {line.strip()}" for line in errors[1:4]))
    if not code:
        return WayFailed("ncu saw no kernel: the call launches none on this GPU, or does so from another process")
    last = [line for line in said.splitlines() if line.strip() and not line.startswith("==")]
    return UserError(f"the process under ncu ended with exit code {code}", "\n".join(f"  {line}" for line in last[-5:]))


def _page(report: Path, ncu: str, page: str) -> str:
    done = subprocess.run(_export(report, ncu, page), capture_output=True, text=True, env={**os.environ, "LC_ALL": "C"})
    if done.returncode:
        raise UserError(f"ncu cannot read {report}: {(done.stderr or done.stdout).strip()[-300:]}")
    return done.stdout


def _export(report: Path, ncu: str, page: str) -> list[str]:
    return [ncu, "--import", str(report), "--csv", "--page", page, "--print-units", "base"]


def _answer(path: Path) -> list[dict[str, Any]]:
    try:
        found: list[dict[str, Any]] = json.loads(path.read_text())
    except (OSError, ValueError):
        return []
    path.unlink()
    return found


def _version(name: str) -> list[int]:
    return [int(part) for part in re.findall(r"\d+", name)]
