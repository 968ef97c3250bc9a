"""Kernels under `@triton.autotune` without tuning: each call runs one of the configurations.

Which one depends on the trial and on the arguments, so that equal calls give equal bits and the trials try all
configurations, any of which tuning might choose on some GPU. To tune at every size of a battery would take hours.
"""

from __future__ import annotations

import contextlib
import sys
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from kernellab.activity.tuners import tuner_classes
from kernellab.base.functions import AnyFunction


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


@dataclass(frozen=True)
class UntunedRun:
    """The configuration of an autotuned kernel that ran last, and how many there are."""

    kernel: str
    settings: tuple[tuple[str, object], ...]
    configs: int

    @property
    def config(self) -> str:
        """`BLOCK=256 num_warps=4`."""
        return " ".join(f"{name}={value}" for name, value in self.settings)

    @property
    def note(self) -> str:
        return (
            f"{self.kernel} is autotuned: each trial ran one of its {self.configs} configurations, other trials ran "
            "others"
        )


Refuses = Callable[[Exception], bool]  # whether an error says that a configuration does not fit the arguments


@dataclass
class _Trial:
    name: str = ""
    untuned: dict[str, UntunedRun] = field(default_factory=dict)


_trial = _Trial()


def begin_trial(name: str) -> None:
    """Calls with the same arguments run the same configurations until another trial begins."""
    _trial.name = name
    _trial.untuned.clear()


def take_untuned() -> list[UntunedRun]:
    """Of each kernel that ran since then, the latest; kernels with one configuration are left out."""
    untuned = list(_trial.untuned.values())
    _trial.untuned.clear()
    return untuned


def run_without_tuning(autotuner: type, refuses: Refuses) -> None:
    """Replaces `Autotuner.run`, which times every configuration on a GPU, and that of classes derived from it."""

    def run(tuner: _Tuner, *args: object, **kwargs: object) -> object:
        return _run(tuner, args, kwargs, refuses)

    for tuner_class in tuner_classes(autotuner):
        tuner_class.run = run  # type: ignore[attr-defined]


@contextlib.contextmanager
def without_tuning() -> Iterator[None]:
    """In the body, autotuned kernels run on the GPU without tuning. Their tuners keep what they chose before."""
    if "triton" not in sys.modules:
        yield
        return
    from triton.compiler.errors import CompileTimeAssertionFailure
    from triton.runtime.autotuner import Autotuner
    from triton.runtime.errors import OutOfResources, PTXASError

    refusals = (OutOfResources, CompileTimeAssertionFailure, PTXASError)
    runs = {tuner_class: vars(tuner_class)["run"] for tuner_class in tuner_classes(Autotuner)}
    run_without_tuning(Autotuner, lambda error: isinstance(error, refusals))
    try:
        yield
    finally:
        for tuner_class, run in runs.items():
            tuner_class.run = run  # type: ignore[attr-defined]


def _run(tuner: _Tuner, args: tuple[object, ...], kwargs: Mapping[str, object], refuses: Refuses) -> object:
    """A configuration that does not fit the arguments or the GPU is skipped, as tuning does."""
    tuner.nargs = dict(zip(tuner.arg_names, args, strict=False))
    call = {**tuner.nargs, **kwargs}
    configs = tuner.configs if len(tuner.configs) == 1 else tuner.prune_configs(kwargs)
    # Not in the tuner's own cache: some libraries keep that on disk, for the GPU.
    keys: set[object] = vars(tuner).setdefault("kernellab_keys", set())
    key = _tuning_key(tuner, call)
    is_new = len(tuner.configs) > 1 and key not in keys
    keys.add(key)
    first = zlib.crc32(repr([_trial.name, _describe(call)]).encode()) % len(configs)
    refusal: Exception | None = None
    try:
        for config in configs[first:] + configs[:first]:
            try:
                return _launch(tuner, config, args, kwargs, is_new)
            except Exception as error:
                if not refuses(error):
                    raise
                refusal = refusal or error
            finally:
                tuner.best_config = config
                _remember(tuner, config, len(configs))
    finally:
        tuner.nargs = None
    assert refusal is not None
    raise refusal


def _remember(tuner: _Tuner, config: _Config, configs: int) -> None:
    if configs > 1:
        kernel = tuner.base_fn.__name__
        _trial.untuned[kernel] = UntunedRun(kernel, tuple(config.all_kwargs().items()), configs)


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
