"""Runs scripts without kernellab. It reads JSON lines of {"script": …} and writes them with what each script printed.

Each script runs in a fork of a process that has imported torch.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import runpy
import sys
import tempfile
import traceback
from pathlib import Path

import torch


def run(text: str) -> str:
    """Run a script; returns what it prints and, for an exception, the exception's last line."""
    out = io.StringIO()
    if "# kernellab is needed" not in text:
        sys.modules["kernellab"] = None  # type: ignore[assignment]
    with contextlib.redirect_stdout(out):
        try:
            with tempfile.TemporaryDirectory() as folder:  # Triton's interpreter reads a kernel's source from its file
                file = Path(folder) / "alone.py"
                file.write_text(text)
                runpy.run_path(str(file), run_name="__main__")
        except Exception as error:
            print("raised", "".join(traceback.format_exception_only(error)).strip())
    return out.getvalue()


def main() -> None:
    torch.set_num_threads(1)
    lines = [json.loads(line) for line in sys.stdin]
    if any("TRITON_INTERPRET" in line["script"] for line in lines):
        os.environ["TRITON_INTERPRET"] = "1"
        import triton  # noqa: F401  (once, not in every child)
    torch.use_deterministic_algorithms(True)  # imports a good part of torch: once, not in every child
    torch.use_deterministic_algorithms(False)
    for line in lines:
        read, write = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(read)
            with os.fdopen(write, "w") as answer:
                answer.write(run(line["script"]))
            os._exit(0)
        os.close(write)
        with os.fdopen(read) as answer:
            line["printed"] = answer.read()
        os.waitpid(child, 0)
        print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
