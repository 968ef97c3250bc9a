"""Captures the source and the Triton kernels that `torch.compile` generates.

Without a GPU, inductor sees the stand-in GPU: tensors are fake, properties come from the database, and nothing is
timed, so every configuration that it would try is listed. The code is the same as on that GPU. Inductor remembers the
first device it has seen, so a process can generate code for one architecture only.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import torch

from kernellab.base.errors import UserError
from kernellab.base.functions import AnyFunction
from kernellab.capture.launch import Dims, Launch
from kernellab.capture.recorder import verify_arch
from kernellab.capture.standin_cuda import NullContext, cuda_functions, replace_attribute
from kernellab.capture.standin_gpu import StandinGpu
from kernellab.capture.standin_torch import torch_lock

if TYPE_CHECKING:
    from torch._inductor.runtime.triton_heuristics import CachingAutotuner

_CPU, _GPU = torch.device("cpu"), torch.device("cuda", 0)


@dataclass(frozen=True)
class GeneratedCode:
    """`source` is inductor's module: its kernels, and the function that launches them."""

    source: str
    launches: list[Launch]


def generate_for_standin(
    fn: AnyFunction,
    args: Sequence[object],
    options: Mapping[str, object],
    gpu: StandinGpu,
    on_launch: Callable[[Launch], None],
) -> GeneratedCode:
    """The code of a compiled function for a GPU that is not present. Tensors among `args` are on meta."""
    from torch._subclasses.fake_tensor import FakeTensorMode

    from kernellab.capture.standin_triton import use_standin_driver

    launches: list[Launch] = []

    def record(launch: Launch) -> None:
        verify_arch(launch)
        launches.append(launch)
        on_launch(launch)

    with torch_lock, _use_standin(gpu), use_standin_driver(gpu, record), FakeTensorMode(), torch.no_grad():
        fake_args = [_to_fake(arg) if isinstance(arg, torch.Tensor) else arg for arg in args]
        source = generate_source(fn, fake_args, options)
    return GeneratedCode(source, launches)


def generate_on_gpu(fn: AnyFunction, args: Sequence[object], options: Mapping[str, object]) -> GeneratedCode:
    """The code of a compiled function on the GPU of its arguments: the kernels that ran, in the tuned configuration."""
    from torch._inductor.runtime.triton_heuristics import CachingAutotuner

    launches: list[Launch] = []
    run = CachingAutotuner.run

    @functools.wraps(run)
    def run_and_record(tuner: CachingAutotuner, *call_args: object, stream: object, **keywords: object) -> object:
        result = run(tuner, *call_args, stream=stream, **keywords)
        launches.extend(_find_launches(tuner, call_args, keywords))
        return result

    with replace_attribute(CachingAutotuner, "run", run_and_record), _launch_through_triton():
        source = generate_source(fn, args, options)
    return GeneratedCode(source, launches)


def generate_source(fn: AnyFunction, args: Sequence[object], options: Mapping[str, object]) -> str:
    """Compile a function again, call it once, and return the source that inductor generated."""
    from torch._inductor.utils import run_and_get_code

    reset = getattr(fn, "reset", None)
    if reset is not None:
        reset()
    _, sources = run_and_get_code(fn, *args, **options)
    if not sources:
        raise UserError("torch.compile generated no code: the function fell back to eager, or was not compiled")
    return "\n\n".join(sources)


def _to_fake(tensor: torch.Tensor) -> torch.Tensor:
    return torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device=_GPU)


# Without a GPU -----------------------------------------------------------------------------------------


@contextlib.contextmanager
def _use_standin(gpu: StandinGpu) -> Iterator[None]:
    """Make inductor see the stand-in GPU."""
    from torch._dynamo import device_interface
    from torch._inductor.fx_passes import joint_graph
    from torch._inductor.runtime import triton_helpers
    from torch._inductor.runtime.triton_heuristics import CachingAutotuner

    guards = torch._C._dynamo.guards
    lazy_init = joint_graph.lazy_init

    def empty_strided(sizes: Sequence[int], strides: Sequence[int], dtype: torch.dtype) -> torch.Tensor:
        return torch.empty_strided(sizes, strides, dtype=dtype, device=_GPU)

    functions = {**cuda_functions(gpu), "current_device": lambda: 0}  # inductor numbers devices from 0
    interface = device_interface.CudaInterface
    copied = vars(interface)  # it copied functions of torch.cuda when it was imported
    replacements: list[tuple[object, str, object]] = [
        *((torch.cuda, name, function) for name, function in functions.items()),
        *((interface, name, staticmethod(function)) for name, function in functions.items() if name in copied),
        (torch.version, "cuda", torch.version.cuda or "13.0"),  # otherwise inductor assumes an AMD GPU
        (device_interface, "DeviceGuard", NullContext),
        (torch._C, "_cuda_getCurrentRawStream", lambda device: 0),
        (guards, "_empty_strided_cuda", empty_strided),
        # It would create tensors on the GPU to trace its patterns; tensors on the CPU give the same traces.
        (joint_graph, "lazy_init", lambda device=None: lazy_init(_CPU)),
        (triton_helpers, "set_driver_to_gpu", lambda: None),
        (CachingAutotuner, "run", _launch_every_config),
    ]
    with contextlib.ExitStack() as stack:
        for owner, name, value in replacements:
            stack.enter_context(replace_attribute(owner, name, value))
        stack.enter_context(_launch_through_triton())
        _clear_device_caches()
        stack.callback(_clear_device_caches)
        yield


def _clear_device_caches() -> None:
    """Clear torch's cached answers to whether Triton has a GPU."""
    from torch.utils import _triton

    for function in vars(_triton).values():
        if hasattr(function, "cache_clear"):
            function.cache_clear()


def _launch_every_config(tuner: CachingAutotuner, *args: object, stream: object, **kwargs: object) -> None:
    """Replaces tuning: launch each of inductor's configurations once, through the stand-in driver."""
    from kernellab.capture.standin_triton import mark_configuration

    if not tuner.launchers:
        tuner.precompile()
    for number, launcher in enumerate(tuner.launchers):
        with mark_configuration(number, len(tuner.launchers)):
            launcher(*args, **kwargs, stream=stream)


@contextlib.contextmanager
def _launch_through_triton() -> Iterator[None]:
    """Make inductor launch kernels through Triton, which has their code, and use no cache."""
    from torch._inductor import config

    settings = {"fx_graph_cache": False, "autotune_local_cache": False, "use_static_cuda_launcher": False}
    with config.patch({name: value for name, value in settings.items() if hasattr(config, name)}):
        yield


# On a GPU ----------------------------------------------------------------------------------------------


def _find_launches(tuner: CachingAutotuner, args: tuple[object, ...], kwargs: Mapping[str, object]) -> Iterator[Launch]:
    """The launch that a tuner has chosen. Its launcher is called again, with `record_call` in place of the launch."""
    from kernellab.capture.triton_launch import describe_launch

    if len(tuner.launchers) != 1:
        return
    (launcher,) = tuner.launchers
    scope = launcher.__globals__
    kernel = scope["bin"]
    calls: list[tuple[Dims, tuple[object, ...]]] = []

    def record_call(x: int, y: int, z: int, *more: object) -> None:
        # Stream, function, metadata twice and two hooks come before the kernel's own arguments.
        calls.append(((x, y, z), more[6:]))

    with _replace_item(scope, "runner", record_call):
        launcher(*args, **kwargs, stream=0)
    major, minor = torch.cuda.get_device_capability()
    for grid, arguments in calls:
        launch = describe_launch(kernel.src, kernel.metadata, grid, arguments, kernel.asm, arch=f"sm_{major}{minor}")
        yield replace(launch, gpu=torch.cuda.get_device_name())


@contextlib.contextmanager
def _replace_item(table: dict[str, object], name: str, value: object) -> Iterator[None]:
    before = table[name]
    table[name] = value
    try:
        yield
    finally:
        table[name] = before
