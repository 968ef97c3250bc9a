"""What `torch.compile` generates: its source, and the Triton kernels in it with the code they compile to.

Without a GPU inductor is made to believe in one: tensors are fake, questions are answered from the database, and
nothing is timed, so that every configuration it would have tried is listed. What it writes is what it would write
there. Inductor remembers the device it has seen: one architecture per process.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from kernellab.base.errors import UserError
from kernellab.capture.launch import Launch
from kernellab.capture.recorder import verify
from kernellab.capture.standin_gpu import StandinGpu
from kernellab.capture.standin_torch import Nothing, alone, answers, replaced

_CPU, _GPU = torch.device("cpu"), torch.device("cuda", 0)


@dataclass(frozen=True)
class Generated:
    """`source` is inductor's module: kernels, and the function that launches them."""

    source: str
    launches: list[Launch]


def generated(
    fn: Callable[..., Any],
    args: Sequence[Any],
    options: Mapping[str, Any],
    gpu: StandinGpu,
    note: Callable[[Launch], None],
) -> Generated:
    """What a compiled function becomes on a GPU that is not there; tensors among `args` are on meta."""
    from torch._subclasses.fake_tensor import FakeTensorMode

    from kernellab.capture.standin_triton import standing_in

    launches: list[Launch] = []

    def noted(launch: Launch) -> None:
        verify(launch)
        launches.append(launch)
        note(launch)

    with alone, _inductor_believes_in(gpu), standing_in(gpu, noted), FakeTensorMode(), torch.no_grad():
        fakes = [_fake(a) if isinstance(a, torch.Tensor) else a for a in args]
        source = written(fn, fakes, options)
    return Generated(source, launches)


def generated_here(fn: Callable[..., Any], args: Sequence[Any], options: Mapping[str, Any]) -> Generated:
    """What a compiled function became on the GPU its arguments are on: the kernels that ran, as they were tuned."""
    from torch._inductor.runtime.triton_heuristics import CachingAutotuner

    launches: list[Launch] = []
    run = CachingAutotuner.run

    @functools.wraps(run)
    def noted(tuner: Any, *given: Any, stream: Any, **more: Any) -> Any:
        result = run(tuner, *given, stream=stream, **more)
        launches.extend(_ran(tuner, given, more))
        return result

    with replaced(CachingAutotuner, "run", noted), _plain_launchers():
        source = written(fn, args, options)
    return Generated(source, launches)


def written(fn: Callable[..., Any], args: Sequence[Any], options: Mapping[str, Any]) -> str:
    """Run a compiled function once, compiled anew, and return what inductor wrote for it."""
    from torch._inductor.utils import run_and_get_code

    reset = getattr(fn, "reset", None)
    if reset is not None:
        reset()
    _, sources = run_and_get_code(fn, *args, **options)
    if not sources:
        raise UserError("torch.compile wrote nothing: the function fell back to eager, or was not compiled at all")
    return "\n\n".join(sources)


def _fake(tensor: torch.Tensor) -> torch.Tensor:
    return torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device=_GPU)


# Without a GPU -----------------------------------------------------------------------------------------


@contextlib.contextmanager
def _inductor_believes_in(gpu: StandinGpu) -> Iterator[None]:
    from torch._dynamo import device_interface
    from torch._inductor.fx_passes import joint_graph
    from torch._inductor.runtime import triton_helpers
    from torch._inductor.runtime.triton_heuristics import CachingAutotuner

    guards = torch._C._dynamo.guards
    patterns = joint_graph.lazy_init

    def made(sizes: Any, strides: Any, dtype: torch.dtype) -> torch.Tensor:
        return torch.empty_strided(sizes, strides, dtype=dtype, device=_GPU)

    told = {**answers(gpu), "current_device": lambda: 0}  # inductor numbers the devices from 0
    known = vars(device_interface.CudaInterface)  # functions of torch.cuda, taken over when it was imported
    stood_in: list[tuple[Any, str, Any]] = [
        *((torch.cuda, name, answer) for name, answer in told.items()),
        *((device_interface.CudaInterface, name, staticmethod(told[name])) for name in told if name in known),
        (torch.version, "cuda", torch.version.cuda or "13.0"),  # else a GPU is taken for an AMD one
        (torch.cuda, "get_rng_state", lambda device=None: torch.zeros(1)),
        (torch.cuda, "set_rng_state", lambda state, device=None: None),
        (torch.cuda, "_DeviceGuard", Nothing),
        (device_interface, "DeviceGuard", Nothing),
        (torch._C, "_cuda_getCurrentRawStream", lambda device: 0),
        (guards, "_empty_strided_cuda", made),
        # It would make tensors on the GPU to trace its patterns with; on the CPU they trace to the same.
        (joint_graph, "lazy_init", lambda device=None: patterns(_CPU)),
        (triton_helpers, "set_driver_to_gpu", lambda: None),
        (CachingAutotuner, "run", _every_config),
    ]
    with contextlib.ExitStack() as stack:
        for owner, name, value in stood_in:
            stack.enter_context(replaced(owner, name, value))
        stack.enter_context(_plain_launchers())
        _forget_devices()
        stack.callback(_forget_devices)
        yield


def _forget_devices() -> None:
    """Torch asks once whether there is a GPU for Triton, and remembers."""
    from torch.utils import _triton

    for known in vars(_triton).values():
        if hasattr(known, "cache_clear"):
            known.cache_clear()


def _every_config(tuner: Any, *args: Any, stream: Any, **kwargs: Any) -> None:
    """In place of tuning: each of inductor's configurations is launched once, on nothing."""
    from kernellab.capture.standin_triton import configuration

    if not tuner.launchers:
        tuner.precompile()
    for number, launcher in enumerate(tuner.launchers):
        with configuration(number, len(tuner.launchers)):
            launcher(*args, **kwargs, stream=stream)


@contextlib.contextmanager
def _plain_launchers() -> Iterator[None]:
    """Kernels compiled here and launched through Triton, which knows their code; nothing taken from a cache."""
    from torch._inductor import config

    wanted = {"fx_graph_cache": False, "autotune_local_cache": False, "use_static_cuda_launcher": False}
    with config.patch({name: value for name, value in wanted.items() if hasattr(config, name)}):
        yield


# On a GPU ----------------------------------------------------------------------------------------------


def _ran(tuner: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Iterator[Launch]:
    """The launch a tuner has settled for. Its launcher is called again with a stand-in for the launch itself."""
    from kernellab.capture.triton_launch import launch_of

    if len(tuner.launchers) != 1:
        return
    (launcher,) = tuner.launchers
    scope = launcher.__globals__
    kernel = scope["bin"]
    heard: list[tuple[Any, ...]] = []
    with _entry(scope, "runner", lambda *launched: heard.append(launched)):
        launcher(*args, **kwargs, stream=0)
    major, minor = torch.cuda.get_device_capability()
    for x, y, z, *more in heard:
        made = launch_of(kernel.src, kernel.metadata, (x, y, z), tuple(more[6:]), kernel.asm, arch=f"sm_{major}{minor}")
        yield replace(made, gpu=torch.cuda.get_device_name())


@contextlib.contextmanager
def _entry(table: dict[str, Any], name: str, value: Any) -> Iterator[None]:
    before = table[name]
    table[name] = value
    try:
        yield
    finally:
        table[name] = before
