"""What Triton's autotuner chose, recorded and pinned: a tuned kernel is another kernel on the next tuning.

A choice is a plain dict: `kernel` and the `file` it stands in, `by` (`triton` or `inductor`), the `key` it was
made for (values of the arguments that decide, then the dtypes), the `config`, how many `configs` were offered
(None: not known), how many were `tried` while recording, and the `seconds` that took.
"""

from __future__ import annotations

import contextlib
import functools
import gc
import importlib.util
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from kernellab.activity.compilation import Watch
from kernellab.base.errors import UserError
from kernellab.base.import_hook import call_after_import

Choice = dict[str, Any]
Key = tuple[Any, ...]


@contextlib.contextmanager
def recording() -> Iterator[list[Choice]]:
    """Collect the choice of every tuned kernel that runs in the body, each kernel and key once.

    Launches are a little slower in the body: it is for a warm-up call, not for a timed one. A kernel that
    was tuned before, or is pinned, comes with `tried` 0.
    """
    found: dict[tuple[Any, ...], Choice] = {}
    choices: list[Choice] = []

    def note(choice: Choice) -> None:
        identity = (choice["by"], choice["kernel"], choice["file"], *choice["key"])
        if identity not in found:
            found[identity] = choice
            choices.append(choice)

    with contextlib.ExitStack() as stack:
        # Where the body imports a tuner, its choices are noted from then on: importing them here takes seconds.
        for module, noting in _NOTING.items():
            stack.callback(call_after_import(module, functools.partial(_enter, stack, noting, note)))
        yield choices


def _enter(stack: contextlib.ExitStack, noting: Any, note: Any, module: Any) -> None:
    stack.enter_context(noting(note))


def pin(choices: Iterable[Mapping[str, Any]]) -> None:
    """Have kernels use the configs recorded for them, without benchmarking; what was pinned before no longer is.

    What inductor chose is left to inductor, which keeps its choices itself.
    """
    choices = list(choices)
    if not choices and not _pins:
        return
    _pins.clear()
    for choice in choices:
        if choice["by"] == "triton":
            _pins[choice["kernel"], choice["file"], tuple(choice["key"])] = dict(choice["config"])
    if importlib.util.find_spec("triton") is None:
        return
    from triton.runtime.autotuner import Autotuner

    _pin_future_kernels(Autotuner)
    # By type: isinstance asks the object too, and some objects of torch answer with a warning.
    for tuner in [thing for thing in gc.get_objects() if issubclass(type(thing), Autotuner)]:
        tuner.cache = _PinnedCache(tuner) if _pins else dict(tuner.cache)


# Recording ---------------------------------------------------------------------------------------------


@contextlib.contextmanager
def _noting_triton(note: Any) -> Iterator[None]:
    from triton.runtime.autotuner import Autotuner

    run, watch = Autotuner.run, Watch.installed()

    @functools.wraps(run)
    def noted(tuner: Any, *args: Any, **kwargs: Any) -> Any:
        cache, mark = tuner.cache, watch.mark()
        tuner.cache = asked = _AskedCache(cache)
        try:
            result = run(tuner, *args, **kwargs)
        finally:
            tuner.cache = cache
            cache.update(asked)
        if asked.key is not None:  # with a single config there is no choice
            kernel, file = _identity(tuner)
            note(
                {
                    "kernel": kernel,
                    "file": file,
                    "by": "triton",
                    "key": list(_plain_key(asked.key)),
                    "config": _plain_config(tuner.best_config),
                    "configs": len(tuner.configs),
                    **_tried(watch, mark, kernel),
                }
            )
        return result

    with _running_as(Autotuner, noted):
        yield


@contextlib.contextmanager
def _noting_inductor(note: Any) -> Iterator[None]:
    """Inductor's kernels have one config, or choose among a few at the first launch; its launcher has it after."""
    from torch._inductor.runtime.triton_heuristics import CachingAutotuner

    run, watch = CachingAutotuner.run, Watch.installed()

    @functools.wraps(run)
    def noted(tuner: Any, *args: Any, **kwargs: Any) -> Any:
        mark = watch.mark()
        result = run(tuner, *args, **kwargs)
        if len(tuner.launchers) == 1:
            kernel = tuner.fn.__name__
            note(
                {
                    "kernel": kernel,
                    "file": Path(tuner.filename or "").name,
                    "by": "inductor",
                    "key": [],
                    "config": _plain_config(tuner.launchers[0].config),
                    "configs": None,
                    **_tried(watch, mark, kernel),
                }
            )
        return result

    with _running_as(CachingAutotuner, noted):
        yield


_NOTING = {
    "triton.runtime.autotuner": _noting_triton,
    "torch._inductor.runtime.triton_heuristics": _noting_inductor,
}


@contextlib.contextmanager
def _running_as(tuner: Any, run: Any) -> Iterator[None]:
    before = tuner.run
    tuner.run = run
    try:
        yield
    finally:
        tuner.run = before


class _AskedCache(dict[Key, Any]):
    """Stands in for an autotuner's cache during one launch, and knows which key Triton made of the arguments."""

    def __init__(self, cache: dict[Key, Any]) -> None:
        super().__init__()
        self._cache = cache
        self.key: Key | None = None

    def __contains__(self, key: object) -> bool:
        assert isinstance(key, tuple)
        self.key = key
        if key in self._cache:
            self[key] = self._cache[key]
        return super().__contains__(key)


def _tried(watch: Watch, mark: int, kernel: str) -> dict[str, Any]:
    tuned = [event for event in watch.since(mark) if event.kind == "autotune" and event.name == kernel]
    return {"tried": sum(event.count for event in tuned), "seconds": sum(event.seconds for event in tuned)}


# Pinning -----------------------------------------------------------------------------------------------

_pins: dict[tuple[str, str, Key], dict[str, Any]] = {}


class _PinnedCache(dict[Key, Any]):
    """An autotuner's cache that has what is pinned: Triton benchmarks only what it does not find there."""

    def __init__(self, tuner: Any) -> None:
        self._kernel, self._file = _identity(tuner)
        self._configs = tuner.configs
        kept = {key: config for key, config in tuner.cache.items() if self._pinned(key) is None}
        super().__init__(kept)

    def __contains__(self, key: object) -> bool:
        if super().__contains__(key):
            return True
        assert isinstance(key, tuple)
        config = self._pinned(key)
        if config is not None:
            self[key] = config
        return config is not None

    def _pinned(self, key: Key) -> Any:
        pinned = _pins.get((self._kernel, self._file, _plain_key(key)))
        if pinned is None:
            return None
        offered = [_plain_config(config) for config in self._configs]
        if pinned not in offered:
            raise UserError(
                f"the config pinned for kernel {self._kernel}, {_shown(pinned)}, is not one of its configs: "
                + "; ".join(map(_shown, offered))
            )
        return self._configs[offered.index(pinned)]


def _pin_future_kernels(autotuner: Any) -> None:
    """A kernel may be declared after its config was pinned."""
    made = autotuner.__init__
    original = getattr(made, "__wrapped__", made)
    if not _pins:
        autotuner.__init__ = original
    elif made is original:

        @functools.wraps(original)
        def make(tuner: Any, *args: Any, **kwargs: Any) -> None:
            original(tuner, *args, **kwargs)
            tuner.cache = _PinnedCache(tuner)

        autotuner.__init__ = make


# Plain values ------------------------------------------------------------------------------------------


def _identity(tuner: Any) -> tuple[str, str]:
    return tuner.base_fn.__name__, Path(tuner.base_fn.__code__.co_filename).name


def _plain_config(config: Any) -> dict[str, Any]:
    """Meta-parameters, and num_warps, num_stages, num_ctas and maxnreg where they are set."""
    names = ("num_warps", "num_stages", "num_ctas", "maxnreg")
    chosen = {name: getattr(config, name, None) for name in names}
    return {name: _plain(value) for name, value in {**config.kwargs, **chosen}.items() if value is not None}


def _plain_key(key: Key) -> Key:
    return tuple(map(_plain, key))


def _plain(value: Any) -> Any:
    return value if isinstance(value, (bool, int, float, str)) or value is None else str(value)


def _shown(config: Mapping[str, Any]) -> str:
    return " ".join(f"{name}={value}" for name, value in config.items())
