"""The command that runs the `main` of one of kernellab's modules in a separate process, and its environment."""

from __future__ import annotations

import os
import sys

from kernellab.base.errors import UserError
from kernellab.base.paths import cache_dir
from kernellab.base.user_code import PACKAGE
from kernellab.running.processes import compile_cache

_MARK = "KERNELLAB_EXECUTES_OPS"  # an environment variable of processes that execute op files


def program(
    module: str, *words: str, python: str = sys.executable, as_script: bool = False, installed: bool = False
) -> list[str]:
    """The command that runs `main()` of `module` with `words` as its arguments.

    The working directory is not first on `sys.path`, so no file there hides an installed module. With `as_script` the
    user's script finds the path as Python itself would set it. `installed`: the command is for another machine, where
    kernellab is installed.
    """
    lines = ["import sys"]
    if as_script:
        lines.append("if not sys.flags.safe_path: del sys.path[0]")
    lines += [f"sys.path.append({str(PACKAGE.parent)!r})", f"from {module} import main; main()"]
    code = lines[-1] if installed else "\n".join(lines)
    return [python, *([] if as_script else ["-P"]), "-c", code, *words]


def environment(*, times: bool = True) -> dict[str, str]:
    """For a process that executes op files: without TRITON_INTERPRET, and without compile helpers that could outlive
    it.

    `times`: whether it may time implementations. One that only checks calls them thousands of times on small inputs,
    and OpenMP's threads, which spin while they wait, would keep each other from the cores: where others use the machine
    too, a check took ten times as long.
    """
    env = {k: v for k, v in os.environ.items() if k != "TRITON_INTERPRET"}
    env["TORCHINDUCTOR_COMPILE_THREADS"] = "1"
    env["TORCHINDUCTOR_CACHE_DIR"] = str(compile_cache.folder())
    env["PYTHONUNBUFFERED"] = "1"
    if not times:
        env.setdefault("OMP_WAIT_POLICY", "passive")
    env[_MARK] = "1"
    if env.pop("PYTHONDONTWRITEBYTECODE", None):
        # Container images often set it, and lack torch's bytecode: compiling torch takes seconds in every worker.
        env.setdefault("PYTHONPYCACHEPREFIX", str(cache_dir("bytecode")))  # and nothing is written beside the sources
    return env


def refuse_workers_of_workers() -> None:
    """Raise UserError in a process that executes op files: a file that starts workers would be executed by them again,
    and processes would be started without end."""
    if os.environ.get(_MARK):
        raise UserError(
            "an op file starts a run, as kl.run does, while a worker of a run executes it: put that call under "
            'if __name__ == "__main__":'
        )
