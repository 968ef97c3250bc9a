"""The command that runs the `main` of one of kernellab's modules in a separate process."""

from __future__ import annotations

import sys

from kernellab.base.user_code import PACKAGE


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
