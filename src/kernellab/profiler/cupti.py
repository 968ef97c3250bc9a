"""CUPTI, NVIDIA's profiling library: detached after the last recording, so that the program runs without it."""

from __future__ import annotations

import atexit
import functools
import gc
import os
import time

import torch

_EXIT_CALLS, _EXIT_PAUSE_S = 3, 0.02


def request_teardown() -> None:
    """Make torch detach CUPTI when the recording ends, if the program can run without it. Call before the end.

    Otherwise CUPTI stays attached and slows every launch, a quarter of a launch-bound step: steps timed after it would
    not show the program's own time. A program with CUDA graphs keeps it: torch warns that they may crash without it.
    The teardown happens in a later CUDA call. Without one it would block at exit, so some calls are made there.
    """
    if not torch.cuda.is_available() or not torch.cuda.is_initialized():
        return
    if any(issubclass(type(thing), torch.cuda.CUDAGraph) for thing in gc.get_objects()):
        return
    if os.environ.setdefault("TEARDOWN_CUPTI", "1") == "1":
        _call_cuda_at_exit(os.getpid())


@functools.cache
def _call_cuda_at_exit(process: int) -> None:
    def call_cuda() -> None:
        for _ in range(_EXIT_CALLS if os.getpid() == process else 0):
            torch.cuda.synchronize()
            time.sleep(_EXIT_PAUSE_S)

    atexit.register(call_cuda)
