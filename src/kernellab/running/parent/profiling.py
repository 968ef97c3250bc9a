"""Profiling, as the parent sees it: the process to start, the traces it leaves, what is read from them. No torch."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import psutil

from kernellab.base.errors import UserError
from kernellab.base.user_code import PACKAGE
from kernellab.machine import tools
from kernellab.profiler.schedule import COLLECTED, Schedule, parse
from kernellab.running.processes.worker_process import environment
from kernellab.stats.intervals import median_interval
from kernellab.workloads import mlp_setup as mlp

_PATIENCE_S = 60.0  # of the first rank with the others
_LOOK_S = 0.2
_LAST_WORDS_S = 120.0  # for a program to end once SIGTERM has come
_QUIET = {"KINETO_LOG_LEVEL": "6", "TORCH_CPP_LOG_LEVEL": "ERROR"}  # no remarks of torch's own on profiling
DEFAULT = Schedule(5, 2, 10)  # of an op's calls
SIZES, OPTIMIZERS, RATES = mlp.SIZES, mlp.OPTIMIZERS, mlp.RATES


@dataclass(frozen=True)
class Program:
    """What is profiled: a `main` of ours with what it is asked, and the words of a script's own command line."""

    main: str
    asked: Mapping[str, Any]
    words: Sequence[str] = ()
    ranks: int = 1
    as_script: bool = False  # Python's own path and environment, as the script would find them
    module: bool = False  # the first word is a module's name

    def code(self, *, anywhere: bool = False) -> str:
        """`anywhere`: on a machine where kernellab is installed."""
        begin = "import sys\nif not sys.flags.safe_path: del sys.path[0]\n" if self.as_script else "import sys\n"
        begin = "" if anywhere else f"{begin}sys.path.append({str(PACKAGE.parent)!r})\n"
        return f"{begin}from {self.main} import main; main()"

    def command(self, python: str = sys.executable, *, anywhere: bool = False) -> list[str]:
        """The working directory does not come first on the path of what is ours."""
        flags = [] if self.as_script else ["-P"]
        return [python, *flags, "-c", self.code(anywhere=anywhere), json.dumps(self.asked), *self.words]

    def unrecorded(self, python: str = sys.executable, *, anywhere: bool = False) -> list[str]:
        """For a tool that records by itself: a script as it is, ours as it is asked."""
        if self.as_script:
            return [python, *(["-m"] if self.module else []), *self.words]
        return self.command(python, anywhere=anywhere)


@dataclass
class Collected:
    """What a profiled process left. `sessions` are described in profiler/session.py."""

    code: int
    sessions: list[dict[str, Any]] = field(default_factory=list)

    @property
    def traces(self) -> list[str]:
        return [name for session in self.sessions for name in session["traces"]]


def schedule(text: str) -> Schedule:
    """What `--schedule` means."""
    return parse(text)


def refuse(setup: Mapping[str, Any], asked: Schedule | None, *, tracing: bool) -> None:
    """What is wrong with an MLP to be profiled, said before any process is started."""
    made = mlp.Setup(**setup)
    made.refuse(capturing=tracing and asked is None)
    if asked is not None and made.steps < asked.steps:
        raise UserError(
            f"{made.steps} steps are too few: the schedule takes {asked.steps}, "
            f"{asked.wait} + {asked.warmup} + {asked.active}, {asked.repeat or 1} times over"
        )


def rank() -> int:
    """Of this process among those that torchrun has started; 0 where it has not."""
    return int(os.environ.get("RANK", "0"))


def shared_folder(name: str) -> Path | None:
    """The folder of a run that torchrun has started: the same in all its processes, by when their parent began."""
    if "TORCHELASTIC_RUN_ID" not in os.environ:
        return None
    began = time.localtime(psutil.Process(os.getppid()).create_time())
    return Path("runs") / f"{time.strftime('%Y%m%d-%H%M%S', began)}-profile-{name}"


def run(program: Program, folder: Path, *, quiet_stdout: bool, alone: bool = True) -> Collected:
    """Carry it out on the user's terminal; its standard output moves to standard error where ours is spoken for.

    Not `alone`: another process reads what this one leaves.
    """
    command = program.command()
    if program.ranks > 1:
        many = ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={program.ranks}"]
        command = [sys.executable, *many, "-m", program.main, json.dumps(program.asked), *program.words]
    code = _carried_out(command, _environment(program), quiet_stdout=quiet_stdout)
    return Collected(code, _sessions(folder, program.ranks) if alone else [])


def timed(program: Program, folder: Path, by: str, *, quiet_stdout: bool) -> dict[str, Any]:
    """Times against sizes, each with the interval of its median."""
    code = _carried_out(program.command(), _environment(program), quiet_stdout=quiet_stdout)
    path = folder / f"0{COLLECTED}"
    if code or not path.exists():
        raise UserError(f"timing the MLP over {by} failed with exit code {code}")
    points = json.loads(path.read_text())
    path.unlink()
    for point in points:
        point["median_us"] = statistics.median(point["samples_us"])
        point["low_us"], point["high_us"] = median_interval(point["samples_us"])
    return {"by": by, "points": points}


def _environment(program: Program) -> dict[str, str]:
    env = {**_QUIET, **(os.environ if program.as_script else environment())}
    if program.ranks > 1:
        path = [str(PACKAGE.parent), *filter(None, [env.get("PYTHONPATH")])]
        env["PYTHONPATH"] = os.pathsep.join(path)  # torchrun starts modules, which it must find
        env.setdefault("OMP_NUM_THREADS", str(max(1, (os.cpu_count() or 1) // program.ranks)))
    return env


def _carried_out(command: Sequence[str], env: Mapping[str, str], *, quiet_stdout: bool) -> int:
    """The exit code; a signal's as a shell gives it. Ctrl-C is the program's to deal with; ours too only after it."""
    process = subprocess.Popen(command, env=env, stdout=sys.stderr.fileno() if quiet_stdout else None)
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        code = _waited_for(process)
    finally:
        signal.signal(signal.SIGINT, before)
    return code if code >= 0 else 128 - code


def _waited_for(process: subprocess.Popen[bytes]) -> int:
    """SIGTERM comes here as an interruption, and is passed on; a program that hangs does not hear it, and is killed."""
    left_s = None
    while True:
        try:
            return process.wait(left_s)
        except KeyboardInterrupt:
            left_s = _LAST_WORDS_S
            process.terminate()
        except subprocess.TimeoutExpired:
            process.kill()


def _sessions(folder: Path, ranks: int) -> list[dict[str, Any]]:
    """What the process, or each rank's, has said; traces nobody spoke of are there all the same."""
    deadline = time.monotonic() + (_PATIENCE_S if ranks < int(os.environ.get("WORLD_SIZE", "1")) else 0)
    expected = max(ranks, int(os.environ.get("WORLD_SIZE", "1")))
    while len(list(folder.glob(f"*{COLLECTED}"))) < expected and time.monotonic() < deadline:
        time.sleep(_LOOK_S)
    found: list[dict[str, Any]] = []
    for path in sorted(folder.glob(f"*{COLLECTED}")):
        found += json.loads(path.read_text())
        path.unlink()
    known = {name for session in found for name in session["traces"]}
    strays = sorted(path.name for path in folder.glob("*.json") if path.name not in known)
    if strays:
        found.append({"name": "program", "traces": strays, "steps": [], "notes": ["the program ended without a word"]})
    return found


# Nsight Systems ----------------------------------------------------------------------------------------


def nsys() -> str | None:
    return tools.toolkit_program("nsys") or shutil.which("nsys", path="/opt/nvidia/nsight-systems/bin")


def nsys_commands(program: Program, report: Path, nsys_path: str | None = None) -> list[list[str]]:
    """The commands that record a program and export what was recorded; without a path, for another machine."""
    stem = str(report.with_suffix(""))
    found, python = nsys_path or "nsys", sys.executable if nsys_path else "python"
    record = [found, "profile", "--trace=cuda,nvtx,osrt", "--sample=none", "--force-overwrite=true"]
    if not program.as_script and (nsys_path is None or tools.has_gpu()):  # without CUDA nobody would begin the capture
        record += ["--capture-range=cudaProfilerApi", "--capture-range-end=stop"]
    record += [f"--output={stem}", *program.unrecorded(python, anywhere=nsys_path is None)]
    export = [found, "export", "--type=sqlite", "--force-overwrite=true", f"--output={stem}.sqlite"]
    return [record, [*export, f"{stem}.nsys-rep"]]


def run_nsys(program: Program, report: Path, *, quiet_stdout: bool) -> Collected:
    """Record by Nsight Systems, and export."""
    path = nsys()
    if path is None:
        program = replace(program, asked={**program.asked, "folder": "."})
        lines = "\n".join(f"  {shlex.join(line)}" for line in nsys_commands(program, Path(report.name)))
        raise UserError(
            "--with nsys: Nsight Systems was not found on the PATH or in the CUDA toolkit. Where it is, run these two, "
            f"then klab profile --open {report.name}:",
            lines,
        )
    record, export = nsys_commands(program, report, path)
    code = _carried_out(record, _environment(program), quiet_stdout=quiet_stdout)
    done = subprocess.run(export, capture_output=True, text=True)
    if done.returncode or not report.exists():
        said = (done.stderr or done.stdout).strip()[-300:]
        raise UserError(f"--with nsys: nothing was recorded, or its export failed: {said}")
    for one in report.parent.glob(f"*{COLLECTED}"):
        one.unlink()
    return Collected(code, [{"name": report.stem, "traces": [report.name], "steps": [], "notes": []}])
