"""Records an implementation's own launches without a GPU: it calls it on meta tensors and compiles its kernels.

Triton kernels and kernels of `kl.cuda.kernel` are recorded. Launches of PyTorch itself or of a library are not.
Functions of `kl.cpp` are not called: a meta tensor has no memory that they could read.
"""

from __future__ import annotations

import contextlib
import dataclasses
import time
from collections.abc import Callable, Iterator, Mapping, Sequence

from kernellab.base.errors import UserError
from kernellab.base.functions import AnyFunction
from kernellab.build import cpp, cuda
from kernellab.build.sources import with_includes
from kernellab.capture.launch import Dims, Launch, Parameter, Source
from kernellab.capture.standin_cuda import replace_attribute
from kernellab.capture.standin_gpu import StandinGpu, standin_gpu
from kernellab.capture.standin_torch import torch_lock, use_standin
from kernellab.machine.tools import has_module
from kernellab.machinecode.cubin import read_cubin

_C_TYPES = {bool: "bool", int: "long long", float: "double"}


def capture(
    fn: AnyFunction, args: Sequence[object], options: Mapping[str, object] | None = None, *, arch: str
) -> list[Launch]:
    """The launches of `fn(*args, **options)` on a GPU of this architecture. Tensors among `args` are on meta."""
    with record_launches(arch) as launches:
        fn(*args, **(options or {}))
    return launches


@contextlib.contextmanager
def record_launches(
    on: str | StandinGpu, on_launch: Callable[[Launch], None] = lambda launch: None
) -> Iterator[list[Launch]]:
    """Record the launches of the body on an architecture or a stand-in GPU. Equal launches are one, with a count.

    `on_launch` is called for each launch as it happens.
    """
    gpu = standin_gpu(on) if isinstance(on, str) else on
    launches: list[Launch] = []

    def record(launch: Launch) -> None:
        on_launch(launch)
        verify_arch(launch)
        for i, earlier in enumerate(launches):
            if _is_same_launch(earlier, launch):
                launches[i] = dataclasses.replace(earlier, times=earlier.times + 1)
                return
        launches.append(launch)

    with contextlib.ExitStack() as stack:
        stack.enter_context(torch_lock)
        stack.enter_context(replace_attribute(cpp, "interceptor", cpp.interceptor or (lambda function: None)))
        stack.enter_context(use_standin(gpu))
        stack.enter_context(_record_cuda_launches(gpu, record))
        if has_module("triton"):
            from kernellab.capture.standin_triton import use_standin_driver

            stack.enter_context(use_standin_driver(gpu, record))
        yield launches


def _is_same_launch(a: Launch, b: Launch) -> bool:
    return dataclasses.replace(a, times=1, build_s=0.0) == dataclasses.replace(b, times=1, build_s=0.0)


def verify_arch(launch: Launch) -> None:
    """Raise `UserError` if a cache returned a cubin for another architecture."""
    if launch.cubin is not None:
        arch = read_cubin(launch.cubin).arch.rstrip("af")
        if arch != launch.arch:
            raise UserError(
                f"kernel {launch.kernel} was compiled for {arch} instead of {launch.arch}: clear the compiler's cache"
            )


# CUDA C++ ----------------------------------------------------------------------------------------------


@contextlib.contextmanager
def _record_cuda_launches(gpu: StandinGpu, record: Callable[[Launch], None]) -> Iterator[None]:
    def intercept(
        kernel: cuda.Kernel,
        grid: cuda.Dim,
        block: cuda.Dim,
        args: tuple[object, ...],
        shared: int,
        cluster: cuda.Dim | None,
    ) -> None:
        start = time.perf_counter()
        built = kernel.compile(gpu.arch)
        seconds = time.perf_counter() - start
        kernel.verify_arguments(built, args)
        x, y, z = _three_dims(grid)
        cluster_dims = _three_dims(cluster or 1)
        record(
            Launch(
                kind="cuda",
                kernel=kernel.name,
                symbol=built.symbol,
                arch=gpu.arch,
                gpu=gpu.name,
                grid=(x * cluster_dims[0], y * cluster_dims[1], z * cluster_dims[2]),
                block=_three_dims(block),
                cluster=cluster_dims,
                shared_bytes=shared,
                config={"template": kernel.name, "defines": list(kernel.defines), **cuda.NVRTC_OPTIONS},
                parameters=_describe_arguments(args),
                sources=tuple(Source(f.name, str(f), 1, f.read_text()) for f in with_includes(kernel.path)),
                code={"ptx": built.ptx, "cubin": built.code},
                build_s=seconds,
            )
        )

    with replace_attribute(cuda, "interceptor", intercept):
        yield


def _three_dims(dim: cuda.Dim) -> Dims:
    sizes = (dim,) if isinstance(dim, int) else dim
    x, y, z = (*sizes, *(1,) * (3 - len(sizes)))
    return x, y, z


def _describe_arguments(args: tuple[object, ...]) -> tuple[Parameter, ...]:
    import torch

    from kernellab.capture.pointers import describe_descriptor, describe_pointer, tensor_bytes

    described = []
    for number, (value, size) in enumerate(zip(args, tensor_bytes(args), strict=True)):
        if isinstance(value, torch.Tensor):
            described.append(Parameter(f"argument {number}", "pointer", describe_pointer(value), bytes=size))
        elif isinstance(value, cuda.TensorMap):
            described.append(
                Parameter(
                    f"argument {number}", "tensor map", describe_descriptor(value.base, value.block_shape), bytes=size
                )
            )
        else:
            type_name = _C_TYPES.get(type(value)) or str(getattr(value, "dtype", type(value).__name__))
            described.append(Parameter(f"argument {number}", type_name, str(value)))
    return tuple(described)
