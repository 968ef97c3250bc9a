"""Runs Nsight Systems: the commands that record a program and export the recording. No torch."""

from __future__ import annotations

import shlex
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

from kernellab.base.errors import UserError
from kernellab.machine import tools
from kernellab.profiler.protocol import REPORTS_SUFFIX
from kernellab.running.parent.profiling import Program, ProgramOutcome, program_environment, run_on_terminal


def tool_path() -> str | None:
    return tools.toolkit_program("nsys") or shutil.which("nsys", path="/opt/nvidia/nsight-systems/bin")


def commands(program: Program, report: Path, nsys: str | None = None) -> tuple[list[str], list[str]]:
    """The commands that record and export; for another machine if `nsys` is None."""
    stem = str(report.with_suffix(""))
    executable, python = nsys or "nsys", sys.executable if nsys else "python"
    record = [executable, "profile", "--trace=cuda,nvtx,osrt", "--sample=none", "--force-overwrite=true"]
    if not program.as_script and (nsys is None or tools.has_gpu()):  # without CUDA the capture would never start
        record += ["--capture-range=cudaProfilerApi", "--capture-range-end=stop"]
    record += [f"--output={stem}", *program.unrecorded_command(python, elsewhere=nsys is None)]
    export = [executable, "export", "--type=sqlite", "--force-overwrite=true", f"--output={stem}.sqlite"]
    return record, [*export, f"{stem}.nsys-rep"]


def run(program: Program, report: Path, *, quiet_stdout: bool) -> ProgramOutcome:
    """Record a program and export the report as SQLite."""
    nsys = tool_path()
    if nsys is None:
        elsewhere = replace(program, request={**program.request, "folder": "."})
        lines = "\n".join(f"  {shlex.join(line)}" for line in commands(elsewhere, Path(report.name)))
        raise UserError(
            "--with nsys: Nsight Systems was not found on the PATH or in the CUDA toolkit. On a machine that has it, "
            f"run these two commands; then klab profile --open {report.name}:",
            lines,
        )
    record, export = commands(program, report, nsys)
    exit_code = run_on_terminal(record, program_environment(program), quiet_stdout=quiet_stdout)
    done = subprocess.run(export, capture_output=True, text=True)
    if done.returncode or not report.exists():
        message = (done.stderr or done.stdout).strip()[-300:]
        raise UserError(f"--with nsys: nothing was recorded, or the export failed: {message}")
    for path in report.parent.glob(f"*{REPORTS_SUFFIX}"):
        path.unlink()
    return ProgramOutcome(exit_code, [{"name": report.stem, "traces": [report.name], "steps": [], "notes": []}])
