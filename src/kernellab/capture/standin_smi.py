"""A command `nvidia-smi` for the stand-in GPU: some libraries run it when they are imported, to see whose GPU it is."""

from __future__ import annotations

import atexit
import contextlib
import functools
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from kernellab.capture.standin_gpu import StandinGpu

_COMMAND = "nvidia-smi"
# The fields of --query-gpu that are answered; others are [N/A], as nvidia-smi has it.
_SCRIPT = """#!/bin/sh
for argument in "$@"; do
  case "$argument" in
    -L|--list-gpus) echo "GPU 0: {name}"; exit 0;;
    --query-gpu=*)
      line=""
      for field in $(echo "${{argument#*=}}" | tr ',' ' '); do
        case "$field" in
          name|gpu_name) value="{name}";;
          compute_cap) value="{capability}";;
          memory.total) value="{memory_mib} MiB";;
          index) value="0";;
          count) value="1";;
          *) value="[N/A]";;
        esac
        line="$line${{line:+, }}$value"
      done
      echo "$line"; exit 0;;
  esac
done
echo "kernellab's stand-in for {name}"
"""


@contextlib.contextmanager
def use_nvidia_smi(gpu: StandinGpu) -> Iterator[None]:
    """In the body `nvidia-smi` answers for this GPU, where the machine has no such command."""
    path = os.environ.get("PATH", os.defpath)
    if shutil.which(_COMMAND, path=path) is not None:
        yield
        return
    os.environ["PATH"] = os.pathsep.join([path, _write(gpu)])
    try:
        yield
    finally:
        os.environ["PATH"] = path


@functools.cache
def _write(gpu: StandinGpu) -> str:
    """The folder of the command. It is removed when the process ends."""
    folder = Path(tempfile.mkdtemp(prefix="kernellab-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    major, minor = gpu.chip.capability
    text = _SCRIPT.format(name=gpu.name, capability=f"{major}.{minor}", memory_mib=gpu.memory_bytes >> 20)
    (folder / _COMMAND).write_text(text)
    (folder / _COMMAND).chmod(0o755)
    return str(folder)
