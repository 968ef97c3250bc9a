"""The log of what was compiled, tuned or built in this process. It shows whether a timed region was clean.

    log = CompilationLog.installed()
    mark = log.mark()
    …                        # the timed region
    log.since(mark)          # [] if nothing was compiled, tuned or built in it

Compilers are imported when first used. Each hook is installed when its module is imported, so the log itself
imports no compiler and does not miss one that is imported late.
"""

from __future__ import annotations

import contextlib
import functools
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from time import perf_counter
from types import CodeType, ModuleType
from typing import ClassVar, Protocol

from kernellab.activity.documents import CompileJson
from kernellab.base.import_hook import call_after_import
from kernellab.build import sources


@dataclass(frozen=True)
class CompilationEvent:
    """Something that does not belong in a timed region.

    `kind` is `compile` (torch.compile, its late backward, the recording of a CUDA graph), `triton` (a kernel compiled
    or loaded from Triton's cache), `autotune` (configs benchmarked) or `build` (C++, NVRTC, nvcc). A `nested` event
    is inside another one, whose seconds include its own.
    """

    kind: str
    name: str
    seconds: float
    nested: bool = False
    count: int = 1  # of an autotune: configs tried
    # Of a compile:
    recompiled: bool = False  # the same code was compiled before
    graphs: int = 0
    graph_breaks: int = 0


@dataclass
class _CompileDetails:
    recompiled: bool = False
    graphs: int = 0
    graph_breaks: int = 0


class CompilationLog:
    """All events since it was installed. There is one per process: `CompilationLog.installed()`."""

    _installed: ClassVar[CompilationLog | None] = None

    def __init__(self) -> None:
        self._events: list[CompilationEvent] = []
        self._depth = threading.local()
        self.unhooked: list[str] = []  # modules that could not be hooked: an unknown version of torch or Triton

    @classmethod
    def installed(cls) -> CompilationLog:
        if cls._installed is None:
            cls._installed = log = cls()
            sources.observers.append(functools.partial(log.during, "build"))
            for name in _HOOKS:
                call_after_import(name, log._hook)
        return cls._installed

    def mark(self) -> int:
        return len(self._events)

    def since(self, mark: int) -> list[CompilationEvent]:
        """Events that ended after the mark; the configs that an autotuner tried for a kernel are one event."""
        if mark == len(self._events):
            return []
        events: list[CompilationEvent] = []
        tuned: dict[str, int] = {}
        for event in self._events[mark:]:
            if event.kind == "autotune" and event.name in tuned:
                before = events[tuned[event.name]]
                merged = replace(before, seconds=before.seconds + event.seconds, count=before.count + event.count)
                events[tuned[event.name]] = merged
                continue
            if event.kind == "autotune":
                tuned[event.name] = len(events)
            events.append(event)
        return events

    def compile_summary(self, mark: int) -> CompileJson:
        """What torch.compile did since the mark."""
        compiled = [event for event in self.since(mark) if event.kind == "compile"]
        return {
            "seconds": sum(event.seconds for event in compiled if not event.nested),
            "graphs": sum(event.graphs for event in compiled),
            "recompiles": sum(event.recompiled for event in compiled),
            "graph_breaks": sum(event.graph_breaks for event in compiled),
        }

    # How events are recorded ---------------------------------------------------------------------------

    def _hook(self, module: ModuleType) -> None:
        try:
            _HOOKS[module.__name__](self, module)
        except AttributeError as error:  # the compiler must keep working; a test asserts that `unhooked` is empty
            self.unhooked.append(f"{module.__name__}: {error}")

    def add(self, event: CompilationEvent) -> None:
        self._events.append(replace(event, nested=getattr(self._depth, "value", 0) > 0))

    @contextlib.contextmanager
    def during(self, kind: str, name: str) -> Iterator[_CompileDetails]:
        """Record the body as an event, whether it fails or not. The body may fill in the details of a compile."""
        details = _CompileDetails()
        depth = getattr(self._depth, "value", 0)
        self._depth.value = depth + 1
        start = perf_counter()
        try:
            yield details
        finally:
            self._depth.value = depth
            self.add(CompilationEvent(kind, name, perf_counter() - start, **vars(details)))


# One hook per compiler ---------------------------------------------------------------------------------
# Dynamo's own start and end callbacks do not name the function, and torch._dynamo.reset() removes them.


def _hook_dynamo(log: CompilationLog, convert_frame: ModuleType) -> None:
    from torch._dynamo.utils import counters

    compile_frame = convert_frame._compile

    def counts() -> tuple[int, int]:
        return counters["stats"]["unique_graphs"], sum(counters["graph_break"].values())

    @functools.wraps(compile_frame)
    def logged(code: CodeType, *args: object, **kwargs: object) -> object:
        with log.during("compile", code.co_name) as details:
            graphs, breaks = counts()
            try:
                return compile_frame(code, *args, **kwargs)
            finally:
                graphs_now, breaks_now = counts()
                details.graphs = max(graphs_now - graphs, 0)
                details.graph_breaks = max(breaks_now - breaks, 0)
                details.recompiled = bool(getattr(kwargs.get("compile_id"), "frame_compile_id", 0))

    convert_frame._compile = logged  # type: ignore[attr-defined]


def _hook_late_compiling(log: CompilationLog, callback: ModuleType) -> None:
    """Log a backward that is compiled at its first call, and a CUDA graph that is recorded after the first call."""
    handler, triggers = callback.callback_handler, callback.CallbackTrigger
    install_callbacks = handler.install_callbacks
    names = {triggers.LAZY_BACKWARD: "backward of graph", triggers.CUDAGRAPH_RECORDING: "CUDA graph of graph"}

    def logged(trigger: object, compile_id: str) -> AbstractContextManager[object]:
        callbacks: AbstractContextManager[object] = install_callbacks(trigger, compile_id)
        if trigger not in names:
            return callbacks
        both = contextlib.ExitStack()
        both.enter_context(log.during("compile", f"{names[trigger]} {compile_id}"))
        both.enter_context(callbacks)
        return both

    handler.install_callbacks = logged


class _TritonSource(Protocol):
    name: str


class _TritonTimes(Protocol):
    total: float  # microseconds


def _hook_triton(log: CompilationLog, knobs: ModuleType) -> None:
    earlier_listener = knobs.compilation.listener

    def listener(*, src: _TritonSource, times: _TritonTimes, **more: object) -> None:
        log.add(CompilationEvent("triton", src.name, times.total / 1e6))
        if earlier_listener is not None:
            earlier_listener(src=src, times=times, **more)

    knobs.compilation.listener = listener


def _hook_autotuner(log: CompilationLog, autotuner: ModuleType) -> None:
    _log_method(log, autotuner.Autotuner, "_bench", "base_fn")


def _hook_inductor(log: CompilationLog, heuristics: ModuleType) -> None:
    _log_method(log, heuristics.CachingAutotuner, "bench", "fn")


def _log_method(log: CompilationLog, owner: type, method: str, function: str) -> None:
    """Log each call of a tuner's method by the name of the tuner's function."""
    bench = getattr(owner, method)

    @functools.wraps(bench)
    def logged(self: object, *args: object, **kwargs: object) -> object:
        with log.during("autotune", getattr(self, function).__name__):
            return bench(self, *args, **kwargs)

    setattr(owner, method, logged)


def _hook_extensions(log: CompilationLog, cpp_extension: ModuleType) -> None:
    build = cpp_extension._write_ninja_file_and_build_library

    @functools.wraps(build)
    def logged(name: str, *args: object, **kwargs: object) -> object:
        with log.during("build", name):
            return build(name, *args, **kwargs)

    cpp_extension._write_ninja_file_and_build_library = logged  # type: ignore[attr-defined]


_HOOKS: dict[str, Callable[[CompilationLog, ModuleType], None]] = {
    "torch._dynamo.convert_frame": _hook_dynamo,
    "torch._dynamo.callback": _hook_late_compiling,
    "triton.knobs": _hook_triton,
    "triton.runtime.autotuner": _hook_autotuner,
    "torch._inductor.runtime.triton_heuristics": _hook_inductor,
    "torch.utils.cpp_extension": _hook_extensions,
}
