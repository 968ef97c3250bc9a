"""Runs CUDA C++ kernels on the CPU, those of the shipped ops and of benchmarks/candidates: launches are intercepted,
and kernels built by the system's compiler.

All sources are used as they are, but for `ptx.cuh`, `mma.cuh` and `hopper.cuh`, whose instructions the headers of these
names here imitate, and for the declaration of dynamic shared memory. A launch on a GPU differs in what simt.hpp cannot
show: the order of accesses to memory between barriers, the rounding of the special functions and of tensor cores, and
speed.
"""

from __future__ import annotations

import contextlib
import ctypes
import shutil
import struct
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import numpy as np
import torch

from kernellab.build import cuda
from kernellab.build.tensor_maps import TensorMap
from kernellab.ops import gpus, norms_cuda, pipeline_cuda, rows_cuda
from kernellab.ops.matmul import cuda as matmul_cuda
from kernellab.ops.matmul import studies as matmul_studies

R = TypeVar("R")
Function = Callable[[bytes, bytes], bytes | None]

# An access that is not aligned to its width stops the process, as it stops a kernel on a GPU.
TRAPS = ["-fsanitize=alignment", "-fsanitize-undefined-trap-on-error"]
FLAGS = [*TRAPS, "-std=c++20", "-O1", "-fno-strict-aliasing", "-fno-gnu-unique", "-shared", "-fPIC", "-pthread", "-w"]
SIMT = Path(__file__).parent
OPS = Path(gpus.__file__).parent
CANDIDATES = SIMT.parents[2] / "benchmarks" / "candidates"
# Where a copy of each folder lies in the folder that is compiled in: as in the repository, for relative includes.
COPIES = {OPS: "src/kernellab/ops", CANDIDATES: "benchmarks/candidates"}
IMITATED = {"ptx.cuh": OPS, "mma.cuh": OPS, "hopper.cuh": CANDIDATES}
DYNAMIC_SHARED = "extern __shared__ float shared[];"
_functions: dict[tuple[Path, str], Function] = {}


@dataclass(frozen=True)
class Gpu:
    capability: tuple[int, int]
    sms: int


def run_on_cpu(*calls: tuple[Gpu, Callable[[], R]]) -> list[R]:
    """What functions return whose kernels are launched here, each as on a GPU. All kernels are built before."""
    build_kernels(*calls)
    results = []
    for gpu, call in calls:
        with _intercepted(_run, gpu):
            results.append(call())
    return results


def build_kernels(*calls: tuple[Gpu, Callable[[], R]]) -> None:
    """Build the kernels that functions launch. The functions run, their kernels do not."""
    kernels: dict[Path, dict[str, None]] = {}  # in the order of their launches

    def record(kernel: cuda.Kernel, *_: object) -> None:
        kernels.setdefault(kernel.path, {})[kernel.name] = None

    for gpu, call in calls:
        with _intercepted(record, gpu):
            call()
    for path, names in kernels.items():
        missing = [name for name in names if (path, name) not in _functions]
        if missing:
            _functions.update(((path, name), f) for name, f in zip(missing, _build(path, missing), strict=True))


def function_of(kernel: cuda.Kernel) -> Function:
    """What runs a kernel."""
    if (kernel.path, kernel.name) not in _functions:
        (_functions[kernel.path, kernel.name],) = _build(kernel.path, [kernel.name])
    return _functions[kernel.path, kernel.name]


def _run(
    kernel: cuda.Kernel, grid: cuda.Dim, block: cuda.Dim, args: tuple[object, ...], shared: int, cluster: int | None
) -> None:
    launch = struct.pack("8q", *_three(grid), *_three(block), cluster or 1, shared)
    maps = [_MapDescription.of(value) if isinstance(value, TensorMap) else None for value in args]
    bits = [
        _bits(value) if at is None else struct.pack("Q", ctypes.addressof(at))
        for value, at in zip(args, maps, strict=True)
    ]
    failure = _functions[kernel.path, kernel.name](launch, b"".join(bits))
    assert failure is None, f"{kernel.name}: {failure.decode()}"


@contextlib.contextmanager
def _intercepted(interceptor: Callable[..., None], gpu: Gpu) -> Iterator[None]:
    replaced = {
        (cuda, "interceptor"): interceptor,
        (gpus, "capability"): lambda device: gpu.capability,
        (rows_cuda, "capability"): lambda device: gpu.capability,
        (norms_cuda, "sm_count"): lambda device: gpu.sms,
        (pipeline_cuda, "sm_count"): lambda device: gpu.sms,
        (pipeline_cuda, "shared_bytes"): lambda device: 227 * 1024,
        (norms_cuda, "shared_bytes"): lambda device: 227 * 1024,
        (matmul_cuda, "capability"): lambda device: gpu.capability,
        (matmul_cuda, "sm_count"): lambda device: gpu.sms,
        (matmul_cuda, "shared_bytes"): lambda device: 227 * 1024,
        (matmul_studies, "shared_bytes"): lambda device: 227 * 1024,
    }
    before = {(module, name): getattr(module, name) for module, name in replaced}
    try:
        for (module, name), value in replaced.items():
            setattr(module, name, value)
        yield
    finally:
        for (module, name), value in before.items():
            setattr(module, name, value)


def _build(path: Path, names: list[str]) -> list[Function]:
    """A function for each kernel of a source file: it takes the launch and the arguments, and returns a failure."""
    wrappers = [
        f'extern "C" const char* run_{i}(const simt::Launch& how, const uint64_t* args) '
        f"{{ return simt::launch(&{name}, how, args); }}\n"
        for i, name in enumerate(names)
    ]
    folder = next(folder for folder in COPIES if path.is_relative_to(folder))
    library = compile_with_headers(f'#include "{COPIES[folder]}/{path.relative_to(folder)}"\n{"".join(wrappers)}')
    functions = [getattr(library, f"run_{i}") for i in range(len(names))]
    for function in functions:
        function.restype = ctypes.c_char_p
        function.argtypes = [ctypes.c_char_p, ctypes.c_char_p]
    return functions


def compile_with_headers(text: str) -> ctypes.CDLL:
    """C++ that includes sources of the shipped ops as "ops/…", as a library."""
    with tempfile.TemporaryDirectory() as folder:
        for original, copy in COPIES.items():
            shutil.copytree(original, Path(folder) / copy, ignore=shutil.ignore_patterns("*.py", "*.pyc", "*.cpp"))
        for name, original in IMITATED.items():
            shutil.copy(SIMT / name, Path(folder) / COPIES[original])
        for source in (*Path(folder).rglob("*.cuh"), *Path(folder).rglob("*.cu")):
            replacement = "float* const shared = simt::block->dynamic.data();"
            source.write_text(source.read_text().replace(DYNAMIC_SHARED, replacement))
        main, library = Path(folder) / "main.cpp", Path(folder) / "kernels.so"
        main.write_text(f'#include "simt.hpp"\n{text}')
        include = [f"-I{SIMT}", f"-I{folder}", f"-I{folder}/src/kernellab", f"-I{folder}/{COPIES[OPS]}"]
        done = subprocess.run(["c++", *FLAGS, *include, str(main), "-o", str(library)], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return ctypes.CDLL(str(library))


def _three(dims: cuda.Dim) -> tuple[int, int, int]:
    x, y, z, *_ = (*(dims if isinstance(dims, tuple) else (dims,)), 1, 1)
    return x, y, z


def _bits(value: object) -> bytes:
    if isinstance(value, torch.Tensor):
        return struct.pack("Q", value.data_ptr())
    if isinstance(value, np.generic):  # which keeps its type
        return value.tobytes().ljust(8, b"\0")
    return struct.pack("d", value) if isinstance(value, float) else struct.pack("q", value)


class _MapDescription(ctypes.Structure):
    """As in hopper.cuh. Dims are counted from the last."""

    _fields_ = (
        ("base", ctypes.c_void_p),
        ("dims", ctypes.c_int64),
        ("element_bytes", ctypes.c_int64),
        ("swizzle_bytes", ctypes.c_int64),
        ("shape", ctypes.c_int64 * 5),
        ("stride_bytes", ctypes.c_int64 * 5),
        ("block", ctypes.c_int64 * 5),
    )

    @classmethod
    def of(cls, value: TensorMap) -> _MapDescription:
        base, size = value.base, value.base.element_size()
        strides = [stride * size for stride in base.stride()]
        dims = [(ctypes.c_int64 * 5)(*reversed(numbers)) for numbers in (base.shape, strides, value.block_shape)]
        return cls(base.data_ptr(), base.dim(), size, value.swizzle_bytes, *dims)
