"""An impl's own launches without a GPU: called on meta tensors, compiled for any architecture, run nowhere.

Triton kernels and kernels of `kl.cuda.kernel` are seen. What PyTorch itself or a library would launch is not. Functions
of `kl.cpp` are not called: a meta tensor has no memory they could read.
"""

from __future__ import annotations

import contextlib
import dataclasses
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from kernellab.base.errors import UserError
from kernellab.build import cpp, cuda
from kernellab.build.sources import with_includes
from kernellab.capture.launch import Dims, Launch, Parameter, Source
from kernellab.capture.standin_gpu import StandinGpu, standin_gpu
from kernellab.capture.standin_torch import alone, pretending, replaced
from kernellab.machine.tools import has_module
from kernellab.machinecode.cubin import read_cubin

_C_TYPES = {bool: "bool", int: "long long", float: "double"}


def capture(
    fn: Callable[..., Any], args: Sequence[Any], options: Mapping[str, Any] | None = None, *, arch: str
) -> list[Launch]:
    """What `fn(*args, **options)` launches on a GPU of this architecture; tensors among `args` are on meta."""
    with capturing(arch) as launches:
        fn(*args, **(options or {}))
    return launches


@contextlib.contextmanager
def capturing(on: str | StandinGpu, heard: Callable[[Launch], None] = lambda launch: None) -> Iterator[list[Launch]]:
    """Collects the launches of the body on an architecture, each kind once: `times` says how often.

    `heard` is told of them as they come.
    """
    gpu = standin_gpu(on) if isinstance(on, str) else on
    launches: list[Launch] = []

    def note(launch: Launch) -> None:
        heard(launch)
        verify(launch)
        for at, known in enumerate(launches):
            if _same(known, launch):
                launches[at] = dataclasses.replace(known, times=known.times + 1)
                return
        launches.append(launch)

    with contextlib.ExitStack() as stack:
        stack.enter_context(alone)
        stack.enter_context(replaced(cpp, "interceptor", cpp.interceptor or (lambda function: None)))
        stack.enter_context(pretending(gpu))
        stack.enter_context(_cuda_launches(gpu, note))
        if has_module("triton"):
            from kernellab.capture.standin_triton import standing_in

            stack.enter_context(standing_in(gpu, note))
        yield launches


def _same(a: Launch, b: Launch) -> bool:
    return dataclasses.replace(a, times=1, build_s=0.0) == dataclasses.replace(b, times=1, build_s=0.0)


def verify(launch: Launch) -> None:
    """A cache keyed by something else than the architecture would hand out another one's code."""
    if "cubin" in launch.code:
        found = read_cubin(launch.code["cubin"]).arch.rstrip("af")  # type: ignore[arg-type]
        if found != launch.arch:
            raise UserError(f"kernel {launch.kernel} was asked for {launch.arch} and came as {found}: clear its cache")


# CUDA C++ ----------------------------------------------------------------------------------------------


@contextlib.contextmanager
def _cuda_launches(gpu: StandinGpu, note: Callable[[Launch], None]) -> Iterator[None]:
    before = cuda.interceptor

    def hear(
        kernel: cuda.Kernel,
        grid: cuda.Dim,
        block: cuda.Dim,
        args: tuple[Any, ...],
        shared: int,
        cluster: cuda.Dim | None,
    ) -> None:
        began = time.perf_counter()
        built = kernel.compile(gpu.arch)
        seconds = time.perf_counter() - began
        together = _three(cluster or 1)
        blocks = tuple(n * m for n, m in zip(_three(grid), together, strict=True))
        note(
            Launch(
                kind="cuda",
                kernel=kernel.name,
                symbol=built.symbol,
                arch=gpu.arch,
                gpu=gpu.name,
                grid=(blocks[0], blocks[1], blocks[2]),
                block=_three(block),
                cluster=together,
                shared_bytes=shared,
                config={"template": kernel.name, "defines": list(kernel.defines), **cuda.NVRTC_OPTIONS},
                parameters=tuple(_parameter(at, value) for at, value in enumerate(args)),
                sources=tuple(Source(f.name, str(f), 1, f.read_text()) for f in with_includes(kernel.path)),
                code={"ptx": built.ptx, "cubin": built.code},
                build_s=seconds,
            )
        )

    cuda.interceptor = hear
    try:
        yield
    finally:
        cuda.interceptor = before


def _three(dim: cuda.Dim) -> Dims:
    x, y, z = ((dim,) if isinstance(dim, int) else tuple(dim)) + (1,) * (2 if isinstance(dim, int) else 3 - len(dim))
    return x, y, z


def _parameter(at: int, value: Any) -> Parameter:
    import torch

    from kernellab.capture.pointers import pointer, size_bytes

    if isinstance(value, torch.Tensor):
        return Parameter(f"argument {at}", "pointer", pointer(value), bytes=size_bytes(value))
    kind = _C_TYPES.get(type(value)) or str(getattr(value, "dtype", type(value).__name__))
    return Parameter(f"argument {at}", kind, str(value))
