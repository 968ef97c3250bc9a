"""Records and pins the choices of Triton's autotuners: another tuning may choose another configuration."""

from __future__ import annotations

import contextlib
import functools
import gc
import importlib.util
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from types import ModuleType
from typing import Protocol

from kernellab.activity.candidates import recording_candidates
from kernellab.activity.compilation import CompilationLog
from kernellab.activity.documents import TunedJson
from kernellab.base.errors import UserError
from kernellab.base.functions import AnyFunction
from kernellab.base.import_hook import call_after_import
from kernellab.base.json import JsonObject, JsonValue

Key = tuple[object, ...]


class _TritonConfig(Protocol):
    kwargs: dict[str, object]


class _Autotuner(Protocol):
    """The part that is used of `triton.runtime.autotuner.Autotuner`."""

    base_fn: AnyFunction
    cache: dict[Key, _TritonConfig]
    configs: Sequence[_TritonConfig]
    best_config: _TritonConfig


class _Launcher(Protocol):
    config: _TritonConfig


class _InductorTuner(Protocol):
    """The part that is used of `torch._inductor.runtime.triton_heuristics.CachingAutotuner`."""

    fn: AnyFunction
    filename: str | None
    launchers: Sequence[_Launcher]


Record = Callable[[TunedJson], None]


@contextlib.contextmanager
def record_choices() -> Iterator[list[TunedJson]]:
    """Collect the choice of every tuned kernel that runs in the body, once for each kernel and key.

    Launches are a little slower in the body: it is for a warm-up call, not for a timed one. A kernel that was tuned
    before, or is pinned, has `tried` 0.
    """
    recorded: list[TunedJson] = []

    def record(choice: TunedJson) -> None:
        if not any(_identity_of(choice) == _identity_of(earlier) for earlier in recorded):
            recorded.append(choice)

    with contextlib.ExitStack() as stack:
        # If the body imports a tuner, its choices are recorded from then on: importing it here would take seconds.
        for module, recording in _RECORDING.items():
            stack.callback(call_after_import(module, functools.partial(_enter, stack, recording, record)))
        yield recorded


def _enter(
    stack: contextlib.ExitStack,
    recording: Callable[[Record], AbstractContextManager[None]],
    record: Record,
    module: ModuleType,
) -> None:
    stack.enter_context(recording(record))


def pin(choices: Iterable[TunedJson]) -> None:
    """Make kernels use the configs recorded for them, without benchmarking. Replaces earlier pins.

    Inductor's choices are not pinned: Inductor stores them itself.
    """
    choices = list(choices)
    if not choices and not _pins:
        return
    _pins.clear()
    for choice in choices:
        kernel, file, by, key = _identity_of(choice)
        if by == "triton":
            _pins[kernel, file, key] = dict(choice["config"])
    if importlib.util.find_spec("triton") is None:
        return
    from triton.runtime.autotuner import Autotuner

    _pin_future_kernels(Autotuner)
    # By type: isinstance also reads the object's `__class__`, and some objects of torch then warn.
    for tuner in [thing for thing in gc.get_objects() if issubclass(type(thing), Autotuner)]:
        tuner.cache = _PinnedCache(tuner) if _pins else dict(tuner.cache)


# Recording ---------------------------------------------------------------------------------------------


@contextlib.contextmanager
def _recording_triton(record: Record) -> Iterator[None]:
    from triton.runtime.autotuner import Autotuner

    run, log = Autotuner.run, CompilationLog.installed()

    @functools.wraps(run)
    def recorded(tuner: _Autotuner, *args: object, **kwargs: object) -> object:
        cache, mark = tuner.cache, log.mark()
        tuner.cache = lookups = _LookupCache(cache)
        try:
            result: object = run(tuner, *args, **kwargs)
        finally:
            tuner.cache = cache
            cache.update(lookups)
        if lookups.key is not None:  # with a single config there is no choice
            kernel, file = _identity(tuner)
            tried, seconds = _tuning_since(log, mark, kernel)
            record(
                {
                    "kernel": kernel,
                    "file": file,
                    "by": "triton",
                    "key": list(_scalar_key(lookups.key)),
                    "config": _scalar_config(tuner.best_config),
                    "configs": len(tuner.configs),
                    "tried": tried,
                    "seconds": seconds,
                }
            )
        return result

    with _replaced_run(Autotuner, recorded):
        yield


@contextlib.contextmanager
def _recording_inductor(record: Record) -> Iterator[None]:
    """Inductor's kernels have one config, or choose among a few at the first launch; then one launcher is left."""
    from torch._inductor.runtime.triton_heuristics import CachingAutotuner

    run: AnyFunction = CachingAutotuner.run
    log = CompilationLog.installed()

    @functools.wraps(run)
    def recorded(tuner: _InductorTuner, *args: object, **kwargs: object) -> object:
        mark = log.mark()
        result = run(tuner, *args, **kwargs)
        if len(tuner.launchers) == 1:
            kernel = tuner.fn.__name__
            tried, seconds = _tuning_since(log, mark, kernel)
            record(
                {
                    "kernel": kernel,
                    "file": Path(tuner.filename or "").name,
                    "by": "inductor",
                    "key": [],
                    "config": _scalar_config(tuner.launchers[0].config),
                    "configs": None,
                    "tried": tried,
                    "seconds": seconds,
                }
            )
        return result

    with _replaced_run(CachingAutotuner, recorded):
        yield


_RECORDING: Mapping[str, Callable[[Record], AbstractContextManager[None]]] = {
    "triton.runtime.autotuner": _recording_triton,
    "torch._inductor.runtime.triton_heuristics": _recording_inductor,
    "torch._inductor.select_algorithm": recording_candidates,
}


@contextlib.contextmanager
def _replaced_run(tuner_class: type, run: AnyFunction) -> Iterator[None]:
    before = tuner_class.run  # type: ignore[attr-defined]
    tuner_class.run = run  # type: ignore[attr-defined]
    try:
        yield
    finally:
        tuner_class.run = before  # type: ignore[attr-defined]


class _LookupCache(dict[Key, _TritonConfig]):
    """Replaces an autotuner's cache during one launch, and keeps the key that Triton computed from the arguments."""

    def __init__(self, cache: Mapping[Key, _TritonConfig]) -> None:
        super().__init__()
        self._cache = cache
        self.key: Key | None = None

    def __contains__(self, key: object) -> bool:
        assert isinstance(key, tuple)
        self.key = key
        if key in self._cache:
            self[key] = self._cache[key]
        return super().__contains__(key)


def _tuning_since(log: CompilationLog, mark: int, kernel: str) -> tuple[int, float]:
    """The number of configs tried for a kernel since the mark, and the seconds that took."""
    tuned = [event for event in log.since(mark) if event.kind == "autotune" and event.name == kernel]
    return sum(event.count for event in tuned), sum(event.seconds for event in tuned)


# Pinning -----------------------------------------------------------------------------------------------

_pins: dict[tuple[str, str, tuple[JsonValue, ...]], JsonObject] = {}


class _PinnedCache(dict[Key, _TritonConfig]):
    """An autotuner's cache that contains the pinned configs: Triton benchmarks only keys that are not in the cache."""

    def __init__(self, tuner: _Autotuner) -> None:
        self._kernel, self._file = _identity(tuner)
        self._configs = tuner.configs
        super().__init__({key: config for key, config in tuner.cache.items() if self._pinned(key) is None})

    def __contains__(self, key: object) -> bool:
        if super().__contains__(key):
            return True
        assert isinstance(key, tuple)
        config = self._pinned(key)
        if config is not None:
            self[key] = config
        return config is not None

    def _pinned(self, key: Key) -> _TritonConfig | None:
        pinned = _pins.get((self._kernel, self._file, _scalar_key(key)))
        if pinned is None:
            return None
        offered = [_scalar_config(config) for config in self._configs]
        if pinned not in offered:
            raise UserError(
                f"the config pinned for kernel {self._kernel}, {_format(pinned)}, is not one of its configs: "
                + "; ".join(map(_format, offered))
            )
        return self._configs[offered.index(pinned)]


def _pin_future_kernels(autotuner: type) -> None:
    """Pin kernels that are declared after their config was pinned."""
    current: AnyFunction = vars(autotuner)["__init__"]
    original: AnyFunction = getattr(current, "__wrapped__", current)
    if not _pins:
        autotuner.__init__ = original  # type: ignore[misc]
    elif current is original:

        @functools.wraps(original)
        def pinning_init(tuner: _Autotuner, *args: object, **kwargs: object) -> None:
            original(tuner, *args, **kwargs)
            tuner.cache = _PinnedCache(tuner)

        autotuner.__init__ = pinning_init  # type: ignore[misc]


# Scalars for JSON --------------------------------------------------------------------------------------


def _identity(tuner: _Autotuner) -> tuple[str, str]:
    return tuner.base_fn.__name__, Path(tuner.base_fn.__code__.co_filename).name


def _identity_of(choice: TunedJson) -> tuple[str, str, str, tuple[JsonValue, ...]]:
    """The kernel, its file, the autotuner, and the key."""
    key = choice.get("key")
    return (
        choice["kernel"],
        choice.get("file") or "",
        choice.get("by") or "",
        tuple(key if isinstance(key, list) else ()),
    )


def _scalar_config(config: _TritonConfig) -> JsonObject:
    """Meta-parameters, and num_warps, num_stages, num_ctas and maxnreg if they are set."""
    names = ("num_warps", "num_stages", "num_ctas", "maxnreg")
    settings = {name: getattr(config, name, None) for name in names}
    return {name: _scalar(value) for name, value in {**config.kwargs, **settings}.items() if value is not None}


def _scalar_key(key: Key) -> tuple[JsonValue, ...]:
    return tuple(map(_scalar, key))


def _scalar(value: object) -> JsonValue:
    return value if isinstance(value, (bool, int, float, str)) or value is None else str(value)


def _format(config: JsonObject) -> str:
    return " ".join(f"{name}={value}" for name, value in config.items())
