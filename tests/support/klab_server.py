"""Carries out klab commands in forks of one process that has klab's modules imported already.

A process of its own per command, as a user has, without the half second that Python takes to start and import them,
and without the seconds that torch takes: see `template_server`.
Requests and exit codes are JSON lines on standard input and output; the output of a command goes to files.
"""

from __future__ import annotations

import importlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, NoReturn

if __name__ == "__main__":  # by its path: `support` is a package of the tests
    sys.path.insert(0, str(Path(__file__).parent.parent))  # a command replaces it by its working directory
from support.template_server import TemplateServer

_IMPORTED_BY_MOST = (
    "kernellab.running.parent.runner",
    "kernellab.reporting.report.document",
    "plotly.offline",
    "rich.console",
    "rich.table",
)


class KlabServer:
    """The server, seen from the tests."""

    def __init__(self, env: dict[str, str]) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-P", str(Path(__file__))],
            env=env,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def run(self, args: list[str], cwd: Path, env: dict[str, str], out: Path, err: Path, timeout_s: float) -> int:
        """The exit code of a command, negative for a signal."""
        request = {"args": args, "cwd": str(cwd), "env": env, "out": str(out), "err": str(err), "timeout_s": timeout_s}
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(json.dumps(request), file=self._process.stdin, flush=True)
        code = json.loads(self._process.stdout.readline())
        if code is None:
            raise subprocess.TimeoutExpired(["klab", *args], timeout_s)
        return int(code)


def main() -> None:
    from kernellab.cli.discovery import find_verbs

    for module in _IMPORTED_BY_MOST:
        importlib.import_module(module)
    find_verbs()  # imports them
    assert "torch" not in sys.modules
    templates, started_with = TemplateServer(), dict(os.environ)
    for line in sys.stdin:
        request = json.loads(line)
        child = os.fork()
        if child == 0:
            _become_klab(request, templates, started_with)
        print(json.dumps(_exit_code(child, request["timeout_s"])), flush=True)


def _exit_code(child: int, timeout_s: float) -> int | None:
    """How a command ended; None if it had to be killed."""
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.005)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return None


def _become_klab(request: dict[str, Any], templates: TemplateServer, started_with: dict[str, str]) -> NoReturn:
    os.chdir(request["cwd"])
    os.environ.clear()
    os.environ.update(request["env"])
    opened = [os.open(os.devnull, os.O_RDONLY), *(os.open(request[name], os.O_WRONLY) for name in ("out", "err"))]
    for number, fd in enumerate(opened):
        os.dup2(fd, number)
        os.close(fd)
    os.closerange(3, templates.fd)
    os.closerange(templates.fd + 1, 256)
    templates.serve_this_process(started_with)
    sys.stdin, sys.stdout, sys.stderr = (os.fdopen(n, mode, closefd=False) for n, mode in enumerate("rww"))
    sys.argv = ["klab", *request["args"]]
    sys.path[0] = request["cwd"]  # as with `python -m kernellab`
    from kernellab import cli

    sys.exit(cli.run(request["args"]))


if __name__ == "__main__":
    main()
