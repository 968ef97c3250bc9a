"""Profiling, as the parent sees it: the process to start, the traces it leaves, what is read from them. No torch."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kernellab.blame import PACKAGE
from kernellab.errors import UserError
from kernellab.machine import tools

_PATIENCE_S = 60.0  # of the first rank with the others
_LOOK_S = 0.2
_QUIET = {"KINETO_LOG_LEVEL": "6", "TORCH_CPP_LOG_LEVEL": "ERROR"}  # of torch's own remarks on profiling


@dataclass(frozen=True)
class Program:
    """What is profiled: a `main` of ours with what it is asked, and the words of a script's own command line."""

    main: str
    asked: Mapping[str, Any]
    words: Sequence[str] = ()
    ranks: int = 1
    as_script: bool = False  # Python's own path and environment, as the script would find them

    def command(self) -> list[str]:
        begin = "import sys\n"
        if self.as_script:
            begin += "if not sys.flags.safe_path: del sys.path[0]\n"
        code = f"{begin}sys.path.append({str(PACKAGE.parent)!r})\nfrom {self.main} import main; main()"
        flags = [] if self.as_script else ["-P"]
        return [*flags, "-c", code, json.dumps(self.asked), *self.words]


@dataclass
class Collected:
    """What a profiled process left. `sessions` are described in collecting/session.py."""

    code: int
    sessions: list[dict[str, Any]] = field(default_factory=list)

    @property
    def traces(self) -> list[str]:
        return [name for session in self.sessions for name in session["traces"]]


def run(program: Program, folder: Path, *, quiet_stdout: bool) -> Collected:
    """Carry it out on the user's terminal; its standard output moves to standard error where ours is spoken for."""
    launcher, folder_of_stub = [sys.executable], None
    words = program.command()
    if program.ranks > 1:
        # torchrun starts files, not code.
        folder_of_stub = folder / "rank.py"
        folder_of_stub.write_text(words[words.index("-c") + 1])
        launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={program.ranks}"]
        words = [str(folder_of_stub), *words[words.index("-c") + 2 :]]
    code = _carried_out([*launcher, *words], _environment(program), quiet_stdout=quiet_stdout)
    if folder_of_stub is not None:
        folder_of_stub.unlink()
    return Collected(code, _sessions(folder, program.ranks))


def _environment(program: Program) -> dict[str, str]:
    env = {**os.environ, "KINETO_LOG_LEVEL": os.environ.get("KINETO_LOG_LEVEL", "6")}
    if not program.as_script:
        env = {**_QUIET, **env}
        env.pop("TRITON_INTERPRET", None)
    if program.ranks > 1:
        env.setdefault("OMP_NUM_THREADS", str(max(1, (os.cpu_count() or 1) // program.ranks)))
    return env


def _carried_out(command: Sequence[str], env: Mapping[str, str], *, quiet_stdout: bool) -> int:
    """The exit code; a signal's as a shell gives it. Ctrl-C is the program's to deal with; ours too only after it."""
    process = subprocess.Popen(command, env=env, stdout=sys.stderr.fileno() if quiet_stdout else None)
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        code = process.wait()
    except KeyboardInterrupt:  # SIGTERM: it is for us alone
        process.terminate()
        code = process.wait()
    finally:
        signal.signal(signal.SIGINT, before)
    return code if code >= 0 else 128 - code


def _sessions(folder: Path, ranks: int) -> list[dict[str, Any]]:
    """What the process, or each rank's, has said; traces nobody spoke of are there all the same."""
    deadline = time.monotonic() + (_PATIENCE_S if ranks < int(os.environ.get("WORLD_SIZE", "1")) else 0)
    expected = max(ranks, int(os.environ.get("WORLD_SIZE", "1")))
    while len(list(folder.glob("collected-*.json"))) < expected and time.monotonic() < deadline:
        time.sleep(_LOOK_S)
    found: list[dict[str, Any]] = []
    for path in sorted(folder.glob("collected-*.json")):
        found += json.loads(path.read_text())
        path.unlink()
    known = {name for session in found for name in session["traces"]}
    strays = sorted(path.name for path in folder.glob("*.json") if path.name not in known)
    if strays:
        found.append({"name": "program", "traces": strays, "steps": [], "notes": ["the program ended without a word"]})
    return found


# Nsight Systems ----------------------------------------------------------------------------------------


def nsys() -> str | None:
    return tools.of_the_toolkit("nsys") or shutil.which("nsys", path="/opt/nvidia/nsight-systems/bin")


def nsys_commands(program: Program, report: Path, nsys_path: str = "nsys") -> list[list[str]]:
    """The commands that record a program and export what was recorded."""
    stem = str(report.with_suffix(""))
    record = [nsys_path, "profile", "--trace=cuda,nvtx,osrt", "--sample=none", "--force-overwrite=true"]
    if not program.as_script:
        record += ["--capture-range=cudaProfilerApi", "--capture-range-end=stop"]
    record += [f"--output={stem}", sys.executable, *program.command()]
    export = [nsys_path, "export", "--type=sqlite", "--force-overwrite=true", f"--output={stem}.sqlite"]
    return [record, [*export, f"{stem}.nsys-rep"]]


def run_nsys(program: Program, report: Path, *, quiet_stdout: bool) -> int:
    """Record and export; the exit code of the program."""
    path = nsys()
    if path is None:
        lines = "\n".join(shlex.join(line) for line in nsys_commands(program, Path(report.name)))
        raise UserError(
            "--with nsys: Nsight Systems was not found on the PATH or in the CUDA toolkit. Where it is, run this, then "
            f"klab profile --open {report.name}",
            lines,
        )
    record, export = nsys_commands(program, report, path)
    code = _carried_out(record, _environment(program), quiet_stdout=quiet_stdout)
    done = subprocess.run(export, capture_output=True, text=True)
    if done.returncode or not report.exists():
        raise UserError(f"--with nsys: its export failed: {(done.stderr or done.stdout).strip()[-300:]}")
    return code
