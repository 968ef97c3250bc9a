"""A driver for Triton that has no GPU: kernels are compiled for an architecture, and their launches written down.

An autotuned kernel has no winner where nothing can be timed, so every configuration of it is launched.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
import triton
from triton import knobs
from triton.backends.compiler import GPUTarget
from triton.compiler.compiler import ASTSource
from triton.compiler.errors import CompileTimeAssertionFailure
from triton.runtime.autotuner import Autotuner
from triton.runtime.errors import OutOfResources, PTXASError

from kernellab.base.user_code import explain
from kernellab.capture.launch import Launch
from kernellab.capture.standin_gpu import StandinGpu
from kernellab.capture.triton_launch import LEVELS, OPTIONS, launch_of, plain, sources_of
from kernellab.machinecode.cubin import read_cubin

Note = Callable[[Launch], None]


@contextlib.contextmanager
def standing_in(gpu: StandinGpu, note: Note) -> Iterator[None]:
    """In the body Triton compiles for this GPU, and `note` hears of each launch."""
    recorder = _Recorder(gpu, note)
    config = triton.runtime.driver
    before = config._active  # asking for it would look for a GPU
    config.set_active(_Driver(gpu))
    _recorders.append(recorder)
    tuned, hashed = Autotuner.run, ASTSource.hash
    Autotuner.run = functools.partialmethod(_every_config)
    ASTSource.hash = functools.partialmethod(_by_file, hashed)
    heard = knobs.compilation.listener
    knobs.compilation.listener = functools.partial(_keep_code, heard)
    try:
        yield
    finally:
        knobs.compilation.listener = heard
        Autotuner.run, ASTSource.hash = tuned, hashed
        _recorders.remove(recorder)
        config._active = before


class _Recorder:
    """Who is to hear of launches, and what is known about the one under way."""

    def __init__(self, gpu: StandinGpu, note: Note) -> None:
        self.gpu, self.note = gpu, note
        self.tuned: tuple[int, int] | None = None


# A compiled kernel keeps its launcher for good, so a launcher asks at each launch who is listening.
_recorders: list[_Recorder] = []


@contextlib.contextmanager
def configuration(number: int, count: int) -> Iterator[None]:
    """Launches of the body are of one configuration of several; with a single one there is no choice."""
    recorder = _recorders[-1]
    recorder.tuned = (number, count) if count > 1 else None
    try:
        yield
    finally:
        recorder.tuned = None


class _Driver:
    """Names a target, a device and a stream; loads nothing.

    The device's number is the architecture's: Triton caches compiled kernels by it.
    """

    def __init__(self, gpu: StandinGpu) -> None:
        self._gpu = gpu
        self.utils = _Utils(gpu)
        self.launcher_cls = _Launcher

    def get_current_target(self) -> Any:
        return GPUTarget("cuda", self._gpu.index, 32)

    def get_current_device(self) -> int:
        return self._gpu.index

    def set_current_device(self, device: int) -> None:
        pass

    def get_current_stream(self, device: int) -> int:
        return 0

    def get_device_capability(self, device: int | None = None) -> tuple[int, int]:
        return self._gpu.chip.capability

    def get_active_torch_device(self) -> torch.device:
        return torch.device("cuda", self._gpu.index)

    def get_device_interface(self) -> Any:
        return torch.cuda

    def map_python_to_cpp_type(self, ty: str) -> str:
        return ty

    def get_benchmarker(self) -> Any:
        return lambda call, **settings: call()

    def assemble_tensormap_to_arg(self, tensormaps: Any, args: Any) -> Any:
        return args


class _Utils:
    def __init__(self, gpu: StandinGpu) -> None:
        self._gpu = gpu

    def get_device_properties(self, device: int) -> dict[str, int]:
        return {
            "max_shared_mem": self._gpu.chip.shared_per_block_bytes,
            "max_num_regs": self._gpu.chip.registers_per_sm,
            "multiprocessor_count": self._gpu.sms,
            "warpSize": 32,
        }

    def load_binary(self, name: str, code: bytes, shared: int, device: int) -> tuple[object, object, int, int, int]:
        """Module, function, registers, spills, most threads. Some authors compute their grid from the registers."""
        kernel = read_cubin(code).kernels[0]
        return object(), object(), kernel.registers, kernel.stack_bytes // 4, self._gpu.chip.threads_per_block


class _Launcher:
    """Made by Triton for each compiled kernel; called in place of a launch."""

    def __init__(self, src: Any, metadata: Any) -> None:
        self._src, self._metadata = src, metadata

    def __call__(self, x: int, y: int, z: int, *more: Any) -> None:
        # stream, function, metadata twice and two hooks come before the kernel's own arguments
        recorder, src = _recorders[-1], self._src
        made = launch_of(src, self._metadata, (x, y, z), more[6:], src.kernellab_code, arch=recorder.gpu.arch)
        recorder.note(replace(made, gpu=recorder.gpu.name, build_s=src.kernellab_seconds, tuned=recorder.tuned))
        src.kernellab_seconds = 0.0  # of the next launch: it is compiled


def _keep_code(
    heard: Any, *, src: Any, metadata_group: dict[str, str], times: Any, cache_hit: bool, **more: Any
) -> None:
    """Triton's listener: the launcher is given what was compiled, but not what came of it."""
    files = {path.suffix[1:]: path for path in map(Path, metadata_group.values())}
    src.kernellab_code = {
        level: files[level].read_bytes() if level == "cubin" else files[level].read_text()
        for level in LEVELS
        if level in files
    }
    src.kernellab_seconds = 0.0 if cache_hit else times.total / 1e6
    if heard is not None:
        heard(src=src, metadata_group=metadata_group, times=times, cache_hit=cache_hit, **more)


def _by_file(src: Any, hashed: Callable[[Any], str]) -> str:
    """Triton's cache knows a kernel by its text alone, and would give one file's code, and names, to a copy of it."""
    return "-".join([hashed(src), *sorted({source.file for source in sources_of(src)})])


def _every_config(tuner: Any, *args: Any, **kwargs: Any) -> Any:
    """In place of tuning. One that fails is noted with the reason, as a tuner passes over it, unless all do."""
    recorder, kernel = _recorders[-1], None
    failed: list[Exception] = []
    tuner.nargs = dict(zip(tuner.arg_names, args, strict=False))
    configs = tuner.prune_configs(kwargs) if len(tuner.configs) > 1 else tuner.configs
    for number, config in enumerate(configs):
        chosen = config.all_kwargs()
        named = {**tuner.nargs, **kwargs, **chosen}
        with configuration(number, len(configs)):
            try:
                for hook in (config.pre_hook, tuner.pre_hook):
                    if hook is not None:
                        hook(named)
                kernel = tuner.fn.run(*args, **kwargs, **chosen)
            except (OutOfResources, CompileTimeAssertionFailure, PTXASError) as error:
                failed.append(error)
                recorder.note(_refused(tuner, recorder, chosen, error))
    tuner.nargs = None
    if failed and len(failed) == len(configs):
        raise failed[0]
    return kernel


def _refused(tuner: Any, recorder: _Recorder, chosen: dict[str, Any], error: Exception) -> Launch:
    why = f"does not fit: {error}" if isinstance(error, OutOfResources) else f"does not compile: {explain(error)}"
    options = {name: chosen[name] for name in OPTIONS if chosen.get(name) is not None}
    constants = {name: plain(value) for name, value in chosen.items() if name not in options and value is not None}
    return Launch(
        kind="triton",
        kernel=tuner.base_fn.__name__,
        symbol=tuner.base_fn.__name__,
        arch=recorder.gpu.arch,
        gpu=recorder.gpu.name,
        grid=(0, 0, 0),
        block=(32 * chosen.get("num_warps", 4), 1, 1),
        cluster=(1, 1, 1),
        shared_bytes=0,
        config={**options, "constexprs": constants},
        parameters=(),
        sources=sources_of(tuner.fn),
        code={},
        build_s=0.0,
        tuned=recorder.tuned,
        refusal=why,
    )
