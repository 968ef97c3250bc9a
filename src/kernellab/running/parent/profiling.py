"""Runs profiled programs: the process to start, and the reports and traces it leaves. No torch."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from kernellab.base.errors import UserError
from kernellab.base.user_code import PACKAGE
from kernellab.profiler.protocol import REPORTS_SUFFIX, SessionReport, SizeCurve, SizePoint, SizeTimes
from kernellab.profiler.schedule import Schedule
from kernellab.running.processes import startup
from kernellab.running.processes.child import Child
from kernellab.running.processes.startup import environment
from kernellab.stats.intervals import median_interval
from kernellab.workloads.mlp_setup import MlpSetup

_RANKS_TIMEOUT_S = 60.0  # how long the first rank waits for the reports of the others
_POLL_S = 0.2
_SIGTERM_TIMEOUT_S = 120.0  # for a program to write its trace and end
_QUIET = {"KINETO_LOG_LEVEL": "6", "TORCH_CPP_LOG_LEVEL": "ERROR"}  # silences torch's messages about profiling
OP_SCHEDULE = Schedule(5, 2, 10)  # of an op's calls, unless --schedule gives another


@dataclass(frozen=True)
class Program:
    """A process to start: the `main` of one of our modules, its request, and a script's own command line."""

    main: str
    request: Mapping[str, object]
    words: Sequence[str] = ()
    ranks: int = 1
    as_script: bool = False  # with the path and environment that the script has without kernellab
    module: bool = False  # the first word is a module's name

    def command(self, python: str = sys.executable, *, elsewhere: bool = False) -> list[str]:
        """`elsewhere`: for another machine, where kernellab is installed."""
        words = [json.dumps(self.request), *self.words]
        return startup.program(self.main, *words, python=python, as_script=self.as_script, installed=elsewhere)

    def unrecorded_command(self, python: str = sys.executable, *, elsewhere: bool = False) -> list[str]:
        """For a tool that records by itself: a script without our profiler, our own programs as requested."""
        if self.as_script:
            return [python, *(["-m"] if self.module else []), *self.words]
        return self.command(python, elsewhere=elsewhere)


@dataclass
class ProgramOutcome:
    """The exit code of a profiled program, and the report of each session."""

    exit_code: int
    sessions: list[SessionReport] = field(default_factory=list)

    @property
    def traces(self) -> list[str]:
        return [name for session in self.sessions for name in session["traces"]]


def validate_mlp(setup: MlpSetup, schedule: Schedule | None, *, tracing: bool) -> None:
    """Refuse an MLP that cannot be profiled, before a process is started."""
    setup.validate(capturing=tracing and schedule is None)
    if schedule is not None and setup.steps < schedule.steps:
        raise UserError(
            f"{setup.steps} steps are too few: the schedule takes {schedule.steps}, "
            f"{schedule.wait} + {schedule.warmup} + {schedule.active} in each of {schedule.repeat or 1} cycles"
        )


def own_rank() -> int:
    """The rank of this process under torchrun, else 0."""
    return int(os.environ.get("RANK", "0"))


def shared_folder(name: str) -> Path | None:
    """The run folder under torchrun: the same in all its processes, named after the start time of their parent."""
    if "TORCHELASTIC_RUN_ID" not in os.environ:
        return None
    began = time.localtime(psutil.Process(os.getppid()).create_time())
    return Path("runs") / f"{time.strftime('%Y%m%d-%H%M%S', began)}-profile-{name}"


def run(program: Program, folder: Path, *, quiet_stdout: bool, reads_reports: bool = True) -> ProgramOutcome:
    """Run a program on the user's terminal; `quiet_stdout` sends its standard output to standard error.

    `reads_reports` is False if another process reads them.
    """
    command = program.command()
    if program.ranks > 1:
        torchrun = ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={program.ranks}"]
        command = [sys.executable, *torchrun, "-m", program.main, json.dumps(program.request), *program.words]
    exit_code = run_on_terminal(command, program_environment(program), quiet_stdout=quiet_stdout)
    return ProgramOutcome(exit_code, _read_reports(folder, program.ranks) if reads_reports else [])


def time_sizes(program: Program, folder: Path, by: str, *, quiet_stdout: bool) -> SizeCurve:
    """Run a program that times the MLP at several sizes."""
    exit_code = run_on_terminal(program.command(), program_environment(program), quiet_stdout=quiet_stdout)
    path = folder / f"0{REPORTS_SUFFIX}"
    if exit_code or not path.exists():
        raise UserError(f"timing the MLP over {by} failed with exit code {exit_code}")
    times: list[SizeTimes] = json.loads(path.read_text())
    path.unlink()
    return {"by": by, "points": [_with_interval(point) for point in times]}


def _with_interval(times: SizeTimes) -> SizePoint:
    low, high = median_interval(times["samples_us"])
    return {**times, "median_us": statistics.median(times["samples_us"]), "low_us": low, "high_us": high}


def program_environment(program: Program) -> dict[str, str]:
    env = {**_QUIET, **(os.environ if program.as_script else environment())}
    if program.ranks > 1:
        path = [str(PACKAGE.parent), *filter(None, [env.get("PYTHONPATH")])]
        env["PYTHONPATH"] = os.pathsep.join(path)  # torchrun starts modules and must find them
        env.setdefault("OMP_NUM_THREADS", str(max(1, (os.cpu_count() or 1) // program.ranks)))
    return env


def run_on_terminal(command: Sequence[str], env: Mapping[str, str], *, quiet_stdout: bool) -> int:
    """Run a command and return its exit code, 128 + n for signal n. While it runs, Ctrl-C goes to the program only."""
    child = Child(command, env, on_terminal=True, stdout=sys.stderr.fileno() if quiet_stdout else None)
    handler = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        _wait(child)
    finally:
        signal.signal(signal.SIGINT, handler)
        child.end()
    code = child.poll()
    code = -signal.SIGKILL if code is None else code
    return code if code >= 0 else 128 - code


def _wait(child: Child) -> None:
    """Wait for its end. SIGTERM arrives here as KeyboardInterrupt and is passed on; after it the wait has a timeout."""
    timeout_s = None
    while True:
        with contextlib.suppress(subprocess.TimeoutExpired):
            try:
                child.wait(timeout_s)
            except KeyboardInterrupt:
                timeout_s = _SIGTERM_TIMEOUT_S
                child.terminate()
                continue
        return


def _read_reports(folder: Path, ranks: int) -> list[SessionReport]:
    """The reports of the process or of every rank, and one more for traces that no report mentions."""
    world = int(os.environ.get("WORLD_SIZE", "1"))
    deadline = time.monotonic() + (_RANKS_TIMEOUT_S if ranks < world else 0)
    while len(list(folder.glob(f"*{REPORTS_SUFFIX}"))) < max(ranks, world) and time.monotonic() < deadline:
        time.sleep(_POLL_S)
    reports: list[SessionReport] = []
    for path in sorted(folder.glob(f"*{REPORTS_SUFFIX}")):
        reports += json.loads(path.read_text())
        path.unlink()
    reported_traces = {name for report in reports for name in report["traces"]}
    strays = sorted(path.name for path in folder.glob("*.json") if path.name not in reported_traces)
    if strays:
        notes = ["the program ended without a report"]
        reports.append({"name": "program", "traces": strays, "steps": [], "notes": notes})
    return reports
