"""Runs `klab` in a separate process, as a user does. Also the folders of the tests' files."""

from __future__ import annotations

import functools
import json
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from support.klab_server import KlabServer

HERE = Path(__file__).parent.parent
OPFILES = HERE / "opfiles"
SRC = HERE.parent / "src"


@dataclass
class CommandResult:
    """The exit code and output of a `klab` command."""

    code: int
    out: str
    err: str

    @property
    def record(self) -> dict[str, Any]:
        return json.loads(self.out)

    def result(self, impl: str, op: str | None = None) -> dict[str, Any]:
        matching = [r for r in self.record["results"] if r["impl"] == impl and op in (None, r["op"])]
        assert len(matching) == 1, f"{len(matching)} results of {impl}"
        return matching[0]


def klab_command(*args: str | Path) -> list[str]:
    return [sys.executable, "-m", "kernellab", *map(str, args)]


def klab_env(**extra: str) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(SRC), **extra}


def run_klab(*args: str | Path, cwd: Path, timeout: float = 300, **env: str) -> CommandResult:
    """Run klab in a fork of the server; in a new process if `env` has variables that Python reads when it starts."""
    if any(name.startswith("PYTHON") for name in env):
        done = subprocess.run(
            klab_command(*args), cwd=cwd, env=klab_env(**env), capture_output=True, text=True, timeout=timeout
        )
        return CommandResult(done.returncode, done.stdout, done.stderr)
    with tempfile.NamedTemporaryFile("r") as out, tempfile.NamedTemporaryFile("r") as err:
        code = _server().run([*map(str, args)], cwd, klab_env(**env), Path(out.name), Path(err.name), timeout)
        return CommandResult(code, out.read(), err.read())


@functools.cache
def _server() -> KlabServer:
    return KlabServer(klab_env())
