"""The GPU that implementations see in Triton's interpreter: torch and Triton answer as on a GPU, tensors are the CPU's.

Wrappers ask whether there is a GPU, how many SMs it has and whether their tensors are on it, some while they are
imported. Reference and peer do not see it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from kernellab.activity.untuned import run_without_tuning
from kernellab.capture.standin_gpu import standin_gpu
from kernellab.interpreter.emulation import is_interpreting
from kernellab.interpreter.fault import is_static_assert
from kernellab.machine.chips import DEFAULT_ARCH


@contextlib.contextmanager
def pretended_gpu() -> Iterator[None]:
    """In the body there is a GPU, if this process interprets kernels."""
    if not is_interpreting():
        yield
        return
    import torch
    from triton.runtime import driver
    from triton.runtime.autotuner import Autotuner

    from kernellab.capture.standin_driver import StandinDriver
    from kernellab.capture.standin_torch import torch_lock, use_standin

    # A library that was imported meanwhile may have derived a class from it.
    run_without_tuning(Autotuner, is_static_assert)
    gpu = standin_gpu(DEFAULT_ARCH)
    with torch_lock, use_standin(gpu, torch.device("cpu")):
        before = driver._active  # the public property would look for a GPU
        driver.set_active(StandinDriver(gpu))
        try:
            yield
        finally:
            driver._active = before
