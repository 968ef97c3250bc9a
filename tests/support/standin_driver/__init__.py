"""The launcher without a GPU: its extension is built and loaded, and the driver's functions are those of driver.cpp.

Kernels of CUDA C++ run on the CPU as in support.simt. The launcher takes tensors of the CPU for tensors of a GPU.
"""

from __future__ import annotations

import contextlib
import ctypes
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from unittest import mock

import torch

from kernellab.build import cuda
from kernellab.launcher import build
from kernellab.launcher.repetition import LAUNCHER
from kernellab.ops import gpus
from support.serving import OPERATORS, WITH_MATMUL, own_table, rule
from support.simt import Gpu, build_kernels, function_of

NAMES = (
    "cuLaunchKernelEx",
    "cuStreamIsCapturing",
    "cuCtxGetCurrent",
    "cuDevicePrimaryCtxRetain",
    "cuCtxSetCurrent",
    "cuGetErrorName",
)
AMPERE = Gpu((8, 0), sms=1)


class _Kernel(ctypes.Structure):
    _fields_ = (("run", ctypes.c_void_p), ("arguments", ctypes.c_int64))


class _Config(ctypes.Structure):
    _fields_ = (
        ("grid", ctypes.c_uint * 3),
        ("block", ctypes.c_uint * 3),
        ("shared_bytes", ctypes.c_uint),
        ("stream", ctypes.c_void_p),
        ("attributes", ctypes.c_void_p),
        ("attribute_count", ctypes.c_uint),
    )


class StandinDriver:
    """`computes`: whether kernels compute. Without, calls take only the host time of the launcher."""

    def __init__(self, folder: Path, *, computes: bool = True) -> None:
        path = folder / "driver.so"
        source = Path(__file__).parent / "driver.cpp"
        if not path.exists():
            subprocess.run(["c++", "-std=c++17", "-O2", "-shared", "-fPIC", str(source), "-o", str(path)], check=True)
        self.library = ctypes.CDLL(str(path))
        self.library.launch_count.restype = self.library.context_count.restype = ctypes.c_int64
        self._computes = computes
        self._kernels: dict[tuple[Path, str], _Kernel] = {}
        self._building = threading.Lock()

    @property
    def launches(self) -> int:
        return int(self.library.launch_count())

    @property
    def contexts(self) -> int:
        """How often a thread was given the device's context: none has one."""
        return int(self.library.context_count())

    def fail_with(self, status: int) -> None:
        """All launches from now on fail, or succeed with 0."""
        self.library.fail_with(status)

    def set_capturing(self, capturing: bool) -> None:
        self.library.set_capturing(int(capturing))

    def addresses(self) -> dict[str, int]:
        return {name: ctypes.cast(getattr(self.library, name), ctypes.c_void_p).value or 0 for name in NAMES}

    def launch(self, kernel, grid, block, args, shared, cluster) -> int:
        """In the place of `Kernel._launch`: the handle of the kernel."""
        assert cluster is None
        assert all(x.is_cpu for x in args if isinstance(x, torch.Tensor))
        place = (kernel.path, kernel.name)
        with self._building:  # a kernel that another thread replaced would be gone while a plan still has its handle
            if place not in self._kernels:
                run = ctypes.cast(function_of(kernel), ctypes.c_void_p) if self._computes else None
                self._kernels[place] = _Kernel(run, len(args))
        handle = ctypes.addressof(self._kernels[place])
        sizes = [(*(dims if isinstance(dims, tuple) else (dims,)), 1, 1)[:3] for dims in (grid, block)]
        config = _Config((ctypes.c_uint * 3)(*sizes[0]), (ctypes.c_uint * 3)(*sizes[1]), shared, None, None, 0)
        values = [_value(x) for x in args]
        pointers = (ctypes.c_void_p * len(values))(*(ctypes.addressof(value) for value in values))
        status = self.library.cuLaunchKernelEx(ctypes.byref(config), ctypes.c_void_p(handle), pointers, None)
        assert status == 0
        return handle


def _value(x: object) -> ctypes.c_uint64 | ctypes.c_int64 | ctypes.c_double:
    if isinstance(x, torch.Tensor):
        return ctypes.c_uint64(x.data_ptr())
    return ctypes.c_double(x) if isinstance(x, float) else ctypes.c_int64(x)


def load_extension():
    goal = build.target()
    build.build(goal)
    assert goal.library.exists(), goal.failed.read_text()
    return build.load(goal)


@contextlib.contextmanager
def launching(driver: StandinDriver, extension) -> Iterator[StandinDriver]:
    """CUDA C++ serves on the CPU, and calls are repeated."""

    def launch(kernel, *rest):
        return SimpleNamespace(handle=driver.launch(kernel, *rest))

    with contextlib.ExitStack() as stack:
        stack.enter_context(own_table("".join(rule(op, "cuda", "cuda") for op in OPERATORS.keys() - WITH_MATMUL)))
        stack.enter_context(mock.patch.object(cuda.Kernel, "_launch", launch))
        stack.enter_context(
            mock.patch("kernellab.ops.cross_entropy.cuda.arrivals", lambda device: gpus._arrivals(device, 0))
        )
        LAUNCHER.connect(extension, driver.addresses())
        try:
            yield driver
        finally:
            LAUNCHER.disconnect()


def build_for(*calls: Callable[[], object]) -> None:
    """Build the kernels of these calls."""
    with own_table("".join(rule(op, "cuda", "cuda") for op in OPERATORS.keys() - WITH_MATMUL)):
        build_kernels(*((AMPERE, call) for call in calls))
