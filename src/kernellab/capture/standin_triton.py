"""A driver for Triton without a GPU: kernels are compiled for the stand-in GPU, and their launches are recorded.

Without a GPU nothing can be timed, so the fastest configuration of an autotuned kernel is unknown: all are launched.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import triton
from triton import knobs
from triton.compiler.compiler import ASTSource
from triton.compiler.errors import CompileTimeAssertionFailure
from triton.runtime.autotuner import Autotuner
from triton.runtime.errors import OutOfResources, PTXASError

from kernellab.activity.tuners import tuner_classes
from kernellab.base.functions import AnyFunction
from kernellab.base.json import JsonObject
from kernellab.base.user_code import explain
from kernellab.capture.launch import Launch
from kernellab.capture.standin_driver import StandinDriver
from kernellab.capture.standin_gpu import StandinGpu
from kernellab.capture.triton_launch import (
    LEVELS,
    OPTIONS,
    KernelMetadata,
    describe_launch,
    find_sources,
    to_plain_value,
)

if TYPE_CHECKING:
    from triton.knobs import CompileTimes

OnLaunch = Callable[[Launch], None]


@contextlib.contextmanager
def use_standin_driver(gpu: StandinGpu, on_launch: OnLaunch) -> Iterator[None]:
    """In the body, Triton compiles for this GPU, and `on_launch` is called instead of each launch."""
    recording = _Recording(gpu, on_launch)
    config = triton.runtime.driver
    before = config._active  # the public property would look for a GPU
    config.set_active(StandinDriver(gpu, _Launcher))
    _recordings.append(recording)
    runs, hash_source = {tuner: vars(tuner)["run"] for tuner in tuner_classes(Autotuner)}, ASTSource.hash
    for tuner in runs:
        tuner.run = functools.partialmethod(_launch_every_config)  # type: ignore[attr-defined]
    ASTSource.hash = functools.partialmethod(_hash_with_files, hash_source)
    listener = knobs.compilation.listener
    knobs.compilation.listener = functools.partial(_keep_code, listener)
    try:
        yield
    finally:
        knobs.compilation.listener = listener
        for tuner, run in runs.items():
            tuner.run = run  # type: ignore[attr-defined]
        ASTSource.hash = hash_source
        _recordings.remove(recording)
        config._active = before


class _Recording:
    """The function that launches are reported to, and the autotuner's configuration that is being launched."""

    def __init__(self, gpu: StandinGpu, on_launch: OnLaunch) -> None:
        self.gpu, self.on_launch = gpu, on_launch
        self.tuned: tuple[int, int] | None = None


# A compiled kernel keeps its launcher for ever, so a launcher looks up the recording at each launch.
_recordings: list[_Recording] = []


@contextlib.contextmanager
def mark_configuration(number: int, count: int) -> Iterator[None]:
    """Mark launches of the body as one of several configurations. If there is only one, they are not marked."""
    recording = _recordings[-1]
    recording.tuned = (number, count) if count > 1 else None
    try:
        yield
    finally:
        recording.tuned = None


class _Launcher:
    """Triton creates one for each compiled kernel, and calls it to launch the kernel."""

    def __init__(self, src: ASTSource, metadata: KernelMetadata) -> None:
        self._src, self._metadata = src, metadata

    def __call__(self, x: int, y: int, z: int, *more: object) -> None:
        # Stream, function, metadata twice and two hooks come before the kernel's own arguments.
        recording, src = _recordings[-1], self._src
        launch = describe_launch(src, self._metadata, (x, y, z), more[6:], src.kernellab_code, arch=recording.gpu.arch)
        recording.on_launch(
            replace(launch, gpu=recording.gpu.name, build_s=src.kernellab_seconds, tuned=recording.tuned)
        )
        src.kernellab_seconds = 0.0  # the next launch compiles nothing


def _keep_code(
    listener: AnyFunction | None,
    *,
    src: ASTSource,
    metadata_group: Mapping[str, str],
    times: CompileTimes,
    cache_hit: bool,
    **more: object,
) -> None:
    """Triton's compilation listener. It attaches the compiled code to `src`, because a launcher gets only `src`."""
    files = {path.suffix[1:]: path for path in map(Path, metadata_group.values())}
    src.kernellab_code = {
        level: files[level].read_bytes() if level == "cubin" else files[level].read_text()
        for level in LEVELS
        if level in files
    }
    src.kernellab_seconds = 0.0 if cache_hit else times.total / 1e6
    if listener is not None:
        listener(src=src, metadata_group=metadata_group, times=times, cache_hit=cache_hit, **more)


def _hash_with_files(src: ASTSource, hash_source: Callable[[ASTSource], str]) -> str:
    """Add the files to Triton's cache key, which is the text alone: a copy of a file would get the other's names."""
    return "-".join([hash_source(src), *sorted({source.file for source in find_sources(src)})])


def _launch_every_config(tuner: Autotuner, *args: object, **kwargs: object) -> object:
    """Replaces tuning. A configuration that fails is recorded with the reason; if all fail, the first error is raised.

    A tuner, too, skips configurations that fail.
    """
    recording, kernel = _recordings[-1], None
    errors: list[Exception] = []
    tuner.nargs = dict(zip(tuner.arg_names, args, strict=False))
    configs = tuner.prune_configs(kwargs) if len(tuner.configs) > 1 else tuner.configs
    for number, config in enumerate(configs):
        settings = config.all_kwargs()
        call = {**tuner.nargs, **kwargs, **settings}
        with mark_configuration(number, len(configs)):
            try:
                for hook in (config.pre_hook, tuner.pre_hook):
                    if hook is not None:
                        hook(call)
                kernel = tuner.fn.run(*args, **kwargs, **settings)
                tuner.best_config = config
            except (OutOfResources, CompileTimeAssertionFailure, PTXASError) as error:
                errors.append(error)
                recording.on_launch(_describe_refusal(tuner, recording, settings, error))
    tuner.nargs = None
    if errors and len(errors) == len(configs):
        raise errors[0]
    return kernel


def _describe_refusal(
    tuner: Autotuner, recording: _Recording, settings: Mapping[str, object], error: Exception
) -> Launch:
    reason = f"does not fit: {error}" if isinstance(error, OutOfResources) else f"does not compile: {explain(error)}"
    options: JsonObject = {name: to_plain_value(settings[name]) for name in OPTIONS if settings.get(name) is not None}
    constants: JsonObject = {
        name: to_plain_value(value) for name, value in settings.items() if name not in options and value is not None
    }
    warps = settings.get("num_warps", 4)
    return Launch(
        kind="triton",
        kernel=tuner.base_fn.__name__,
        symbol=tuner.base_fn.__name__,
        arch=recording.gpu.arch,
        gpu=recording.gpu.name,
        grid=(0, 0, 0),
        block=(32 * warps if isinstance(warps, int) else 0, 1, 1),
        cluster=(1, 1, 1),
        shared_bytes=0,
        config={**options, "constexprs": constants},
        parameters=(),
        sources=find_sources(tuner.fn),
        code={},
        build_s=0.0,
        tuned=recording.tuned,
        refusal=reason,
    )
