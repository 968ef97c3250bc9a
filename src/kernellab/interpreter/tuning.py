"""Kernels under `@triton.autotune` in the interpreter, where no configuration is faster than another.

Each call runs one of the configurations. Which one depends on the arguments alone, so that equal calls give equal bits
and calls at several sizes try several configurations, any of which a GPU might choose.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from typing import Protocol

from kernellab.base.functions import AnyFunction
from kernellab.capture.tuners import tuner_classes
from kernellab.interpreter.fault import StaticAssertFailed
from kernellab.interpreter.notes import add_note


class _Config(Protocol):
    pre_hook: AnyFunction | None

    def all_kwargs(self) -> dict[str, object]: ...


class _Tuner(Protocol):
    """What is used of `triton.runtime.autotuner.Autotuner`."""

    arg_names: Sequence[str]
    base_fn: AnyFunction
    best_config: _Config
    configs: list[_Config]
    fn: _Kernel
    keys: Sequence[str]
    nargs: dict[str, object] | None
    pre_hook: AnyFunction

    def prune_configs(self, kwargs: Mapping[str, object]) -> list[_Config]: ...


class _Kernel(Protocol):
    run: AnyFunction


def run_without_timing(autotuner: type) -> None:
    """Replaces `Autotuner.run`, which times every configuration on a GPU, and that of classes derived from it."""
    for tuner_class in tuner_classes(autotuner):
        tuner_class.run = _run  # type: ignore[attr-defined]


def _run(tuner: _Tuner, *args: object, **kwargs: object) -> object:
    """A configuration that refuses the arguments by `tl.static_assert` is skipped, as tuning does."""
    tuner.nargs = dict(zip(tuner.arg_names, args, strict=False))
    call = {**tuner.nargs, **kwargs}
    configs = tuner.configs if len(tuner.configs) == 1 else tuner.prune_configs(kwargs)
    # Not in the tuner's own cache: some libraries keep that on disk, for the GPU.
    keys: set[object] = vars(tuner).setdefault("kernellab_keys", set())
    key = _tuning_key(tuner, call)
    is_new = len(tuner.configs) > 1 and key not in keys
    keys.add(key)
    first = zlib.crc32(repr(_describe(call)).encode()) % len(configs)
    refusal: Exception | None = None
    try:
        for config in configs[first:] + configs[:first]:
            try:
                return _launch(tuner, config, args, kwargs, is_new)
            except Exception as error:
                if not isinstance(error.__cause__, StaticAssertFailed):
                    raise
                refusal = refusal or error
            finally:
                tuner.best_config = config
    finally:
        tuner.nargs = None
        if len(configs) > 1:
            add_note(
                f"{tuner.base_fn.__name__} is autotuned, which needs a GPU: each call ran one of its "
                f"{len(configs)} configurations, another one at other sizes"
            )
    assert refusal is not None
    raise refusal


def _launch(
    tuner: _Tuner, config: _Config, args: Sequence[object], kwargs: Mapping[str, object], is_new: bool
) -> object:
    settings = config.all_kwargs()
    call = {**(tuner.nargs or {}), **kwargs, **settings}
    if is_new:  # tuning leaves the tensors of reset_to_zero= as zeros; later calls find what their caller passes
        tuner.pre_hook(call, reset_only=True)
    if config.pre_hook is not None:
        config.pre_hook(call)
    return tuner.fn.run(*args, **kwargs, **settings)


def _tuning_key(tuner: _Tuner, call: Mapping[str, object]) -> str:
    """As Triton makes it: the arguments that `key=` names, and the dtypes."""
    named = {name: value for name, value in call.items() if name in tuner.arg_names}
    dtypes = [str(value.dtype) for value in named.values() if hasattr(value, "dtype")]
    return repr([*(_describe({name: named[name]}) for name in tuner.keys if name in named), *dtypes])


def _describe(call: Mapping[str, object]) -> list[object]:
    """What the choice depends on: sizes, dtypes and numbers, but neither addresses nor values of tensors."""
    described: list[object] = []
    for name, value in call.items():
        base = getattr(value, "base", value) if hasattr(value, "block_shape") else value
        if hasattr(base, "data_ptr"):
            described.append((name, tuple(getattr(base, "shape", ())), str(getattr(base, "dtype", ""))))
        elif isinstance(value, (bool, int, float, str)):
            described.append((name, value))
    return described
