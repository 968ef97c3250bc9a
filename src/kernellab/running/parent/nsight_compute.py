"""Runs Nsight Compute: the command that counts, the report it leaves, and why there is no report."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from kernellab.base.errors import UserError
from kernellab.counters import ncu_pages as pages
from kernellab.counters.tables import METRICS
from kernellab.machine import tools
from kernellab.profiler.protocol import CountAnswer, ImplListing, OpRequest
from kernellab.running.parent.profiling import Program
from kernellab.running.processes.child import Child
from kernellab.running.processes.startup import environment

SUFFIX = ".ncu-rep"
_MAIN = "kernellab.running.programs.counted_op"
_TIMEOUT_S, _POLL_S = 600.0, 0.1
# The sections whose rules estimate gains. The full set would also count what no table here shows.
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
# By default ncu lowers the GPU to its base clock. `klab bench` times at the ordinary clock, and on a shared machine the
# change would affect everyone.
_CLOCKS = ("--clock-control", "none")
_PROGRAM_FAILED = "The application returned an error code"  # the program's failure, not ncu's
_NOT_PERMITTED = (
    "  To allow it: run as root; or put `options nvidia NVreg_RestrictProfilingToAdminUsers=0` into a file in\n"
    "  /etc/modprobe.d and restart; a container also needs --cap-add=SYS_ADMIN. Rented machines may not allow it.\n"
    "  Without counters these work: klab profile OP (times and gaps), klab explain OP (the roofline from declared\n"
    "  bytes), klab inspect OP (registers, occupancy, memory access patterns), klab bench OP."
)


class NothingCounted(UserError):
    """Nothing was counted of one implementation; others may succeed."""


@dataclass(frozen=True)
class CounterReport:
    """Launches and rules of a report. `answers`: what the counted process wrote about its calls; `report`: its file."""

    launches: list[pages.Launch]
    rules: list[pages.Rule]
    answers: list[CountAnswer] = field(default_factory=list)
    report: str = ""


def tool_path() -> str | None:
    """The path of ncu: the CUDA toolkit's, or the newest that is installed apart from it."""
    installed = sorted(Path("/opt/nvidia/nsight-compute").glob("*/ncu"), key=lambda path: _version(path.parent.name))
    return tools.toolkit_program("ncu") or next(
        (str(path) for path in reversed(installed) if os.access(path, os.X_OK)), None
    )


def command(program: Program, report: Path, ncu: str | None = None) -> list[str]:
    """The command that counts exactly the launches that a program marks; for another machine if `ncu` is None."""
    sections = [word for name in _SECTIONS for word in ("--section", name)]
    words = [ncu or "ncu", "--profile-from-start", "off", *_CLOCKS, *sections, "--metrics", ",".join(METRICS)]
    words += ["--force-overwrite", "--export", str(report.with_suffix(""))]
    return [*words, *(program.command() if ncu else program.command("python", elsewhere=True))]


def require_tool(request: OpRequest, name: str) -> str:
    """The path of ncu. If it is not installed, the error shows the command to run elsewhere."""
    path = tool_path()
    if path is None:
        program = Program(_MAIN, {**request, "answer": ""})
        raise UserError(
            "--with ncu: Nsight Compute was not found on the PATH, in the CUDA toolkit or in /opt/nvidia. On a machine "
            f"that has it and kernellab, run this; then klab profile --open {name}{SUFFIX}:",
            f"  {shlex.join(command(program, Path(name + SUFFIX)))}",
        )
    return path


def list_impls(request: OpRequest, answer: Path) -> list[ImplListing]:
    """The implementations that a request names, listed by a process without ncu: the parent executes no op files."""
    program = Program(_MAIN, {**request, "do": "list", "answer": str(answer)})
    done = subprocess.run(program.command(), env=environment(), capture_output=True, text=True)
    if done.returncode or not answer.exists():
        message, _, detail = done.stderr.strip().partition("\n")
        reason = f"listing implementations failed with exit code {done.returncode}"
        raise UserError(message.removeprefix("klab: ") or reason, detail)
    listing: list[ImplListing] = json.loads(answer.read_text())
    answer.unlink()
    return listing


def count(request: OpRequest, report: Path, ncu: str) -> CounterReport:
    """Run a request under ncu in a process of its own. Its report, pages and log are kept."""
    answer, log = report.with_suffix(".json"), report.with_suffix(".log")
    program = Program(_MAIN, {**request, "answer": str(answer)})
    child = Child(command(program, report, ncu), environment(), output=log)
    deadline = time.monotonic() + _TIMEOUT_S
    try:
        while (exit_code := child.poll()) is None and time.monotonic() < deadline:
            time.sleep(_POLL_S)
    finally:
        child.end()
    output = log.read_text(errors="replace")
    answers = _read_answers(answer)
    failure = next((entry["reason"] for entry in answers if entry["status"] == "error"), "")
    if failure:
        raise NothingCounted(f"it failed under ncu: {failure}")
    if exit_code is None:
        raise UserError(f"ncu did not finish within {_TIMEOUT_S:g} s: try a smaller --shape. Its log: {log}")
    if not report.exists():
        raise diagnose(output, exit_code)
    launches, rules = read_report(report, ncu, keep_pages=True)
    if not launches:
        raise diagnose(output, exit_code)
    return CounterReport(launches, rules, answers, report.name)


def read_report(report: Path, ncu: str, *, keep_pages: bool = False) -> tuple[list[pages.Launch], list[pages.Rule]]:
    """A report's launches and rules. `keep_pages`: write its pages beside it, for machines without ncu."""
    texts = {page: _page(report, ncu, page) for page in ("raw", "details")}
    if keep_pages:
        for page, text in texts.items():
            report.with_suffix(f".{page}.csv").write_text(text)
    return pages.launches(texts["raw"]), pages.rules(texts["details"])


def read_files(files: Sequence[Path]) -> CounterReport:
    """Read reports of ncu, or their pages as CSV, from another machine."""
    launches: list[pages.Launch] = []
    rules: list[pages.Rule] = []
    for number, file in enumerate(files):
        file_launches, file_rules = _read_file(file)
        # Launches are numbered from zero in each report; two pages of one report belong together.
        prefix = f"{number}:" if file.suffix == SUFFIX and len(files) > 1 else ""
        launches += [pages.prefix_id(launch, prefix) for launch in file_launches]
        rules += [pages.prefix_id(rule, prefix) for rule in file_rules]
    if not launches:
        raise UserError("these files hold rules but no launches: open the page --page raw too")
    return CounterReport(launches, rules)


def _read_file(file: Path) -> tuple[list[pages.Launch], list[pages.Rule]]:
    if not file.is_file():
        raise UserError(f"no file {file}")
    if file.suffix == SUFFIX:
        ncu = tool_path()
        if ncu is None:
            exports = [
                f"  {shlex.join(_export_command(file, 'ncu', page))} > {page}.csv" for page in ("raw", "details")
            ]
            raise UserError(
                f"only ncu can read {file}, and it is not installed here. Where it is, export two pages and open both:",
                "\n".join(exports),
            )
        return read_report(file, ncu)
    text = file.read_text(errors="replace")
    if pages.is_details(text):
        return [], pages.rules(text)
    launches = pages.launches(text)
    if not launches:
        raise UserError(f"{file} holds no launch. Expected: a page that ncu exported with --csv --page raw")
    return launches, []


def diagnose(output: str, exit_code: int | None) -> UserError:
    """Why ncu left no report, according to its output."""
    if "ERR_NVGPUCTRPERM" in output:
        return UserError(
            "ncu may not read the GPU's counters: the driver allows only administrators (ERR_NVGPUCTRPERM)",
            _NOT_PERMITTED,
        )
    errors = re.findall(r"^==ERROR== (.+)$", output, re.MULTILINE)
    errors = [line for line in errors if not line.startswith(_PROGRAM_FAILED)]
    if errors:
        return UserError(f"ncu failed: {errors[0].strip()}", "\n".join(f"  {line.strip()}" for line in errors[1:4]))
    if not exit_code:
        return NothingCounted(
            "ncu saw no kernel: the call launches none on this GPU, or launches it in another process"
        )
    printed = [line for line in output.splitlines() if line.strip() and not line.startswith("==")]
    detail = "\n".join(f"  {line}" for line in printed[-5:])
    return UserError(f"the process under ncu ended with exit code {exit_code}", detail)


def _page(report: Path, ncu: str, page: str) -> str:
    env = {**os.environ, "LC_ALL": "C"}
    done = subprocess.run(_export_command(report, ncu, page), capture_output=True, text=True, env=env)
    if done.returncode:
        raise UserError(f"ncu cannot read {report}: {(done.stderr or done.stdout).strip()[-300:]}")
    return done.stdout


def _export_command(report: Path, ncu: str, page: str) -> list[str]:
    return [ncu, "--import", str(report), "--csv", "--page", page, "--print-units", "base"]


def _read_answers(path: Path) -> list[CountAnswer]:
    """What the counted process wrote, if it got that far."""
    try:
        answers: list[CountAnswer] = json.loads(path.read_text())
    except (OSError, ValueError):
        return []
    path.unlink()
    return answers


def _version(name: str) -> list[int]:
    return [int(part) for part in re.findall(r"\d+", name)]
