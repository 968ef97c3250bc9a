"""What was compiled, tuned or built in this process, and when: hooked, so that a timed region can be known clean.

    watch = Watch.installed()
    mark = watch.mark()
    …                        # the timed region
    watch.since(mark)        # [] when nothing was compiled, tuned or built in it

Compilers are imported when first used. Each hook goes in when the module it belongs to is imported, so
that watching itself imports none of them and a compiler that comes late is still seen.
"""

from __future__ import annotations

import contextlib
import functools
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from time import perf_counter
from types import ModuleType
from typing import Any, ClassVar

from kernellab.base.import_hook import call_after_import
from kernellab.build import sources


@dataclass(frozen=True)
class Event:
    """Something that does not belong in a timed region.

    `kind` is `compile` (torch.compile; also its late backward and recording a CUDA graph), `triton` (a kernel
    compiled or fetched from Triton's cache), `autotune` (configs benchmarked) or `build` (C++, NVRTC, nvcc).
    `nested` events lie within another one, which has their seconds too.
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


class Watch:
    """Knows every event since it was installed. One per process: `Watch.installed()`."""

    _one: ClassVar[Watch | None] = None

    def __init__(self) -> None:
        self._events: list[Event] = []
        self._depth = threading.local()
        self.blind: list[str] = []  # what could not be hooked: another version of torch or Triton than is known

    @classmethod
    def installed(cls) -> Watch:
        if cls._one is None:
            cls._one = watch = cls()
            sources.observers.append(functools.partial(watch._during, "build"))
            for name in _HOOKS:
                call_after_import(name, watch._hook)
        return cls._one

    def mark(self) -> int:
        return len(self._events)

    def since(self, mark: int) -> list[Event]:
        """Events that ended after the mark; the configs an autotuner tried for a kernel are one event."""
        if mark == len(self._events):
            return []
        found: list[Event] = []
        tuned: dict[str, int] = {}
        for event in self._events[mark:]:
            if event.kind == "autotune" and event.name in tuned:
                before = found[tuned[event.name]]
                merged = replace(before, seconds=before.seconds + event.seconds, count=before.count + event.count)
                found[tuned[event.name]] = merged
                continue
            if event.kind == "autotune":
                tuned[event.name] = len(found)
            found.append(event)
        return found

    def compile_summary(self, mark: int) -> dict[str, Any]:
        """torch.compile since the mark: `seconds`, `graphs`, `recompiles` of code compiled before, `graph_breaks`."""
        compiled = [event for event in self.since(mark) if event.kind == "compile"]
        return {
            "seconds": sum(event.seconds for event in compiled if not event.nested),
            "graphs": sum(event.graphs for event in compiled),
            "recompiles": sum(event.recompiled for event in compiled),
            "graph_breaks": sum(event.graph_breaks for event in compiled),
        }

    # How events come in --------------------------------------------------------------------------------

    def _hook(self, module: ModuleType) -> None:
        try:
            _HOOKS[module.__name__](self, module)
        except AttributeError as error:  # the compiler must go on working; a test asks that this is empty
            self.blind.append(f"{module.__name__}: {error}")

    def _add(self, event: Event) -> None:
        self._events.append(replace(event, nested=getattr(self._depth, "value", 0) > 0))

    @contextlib.contextmanager
    def _during(self, kind: str, name: str) -> Iterator[dict[str, Any]]:
        """An event is what the body does, failed or not. More about it may be put into what is given."""
        more: dict[str, Any] = {}
        depth = getattr(self._depth, "value", 0)
        self._depth.value = depth + 1
        start = perf_counter()
        try:
            yield more
        finally:
            self._depth.value = depth
            self._add(Event(kind, name, perf_counter() - start, **more))


# One hook per compiler ---------------------------------------------------------------------------------
# Dynamo's own start and end callbacks do not name the function, and torch._dynamo.reset() forgets them.


def _hook_dynamo(watch: Watch, convert_frame: Any) -> None:
    from torch._dynamo.utils import counters

    compile_frame = convert_frame._compile

    def counted() -> tuple[int, int]:
        return counters["stats"]["unique_graphs"], sum(counters["graph_break"].values())

    @functools.wraps(compile_frame)
    def watched(code: Any, *args: Any, **kwargs: Any) -> Any:
        with watch._during("compile", code.co_name) as more:
            graphs, breaks = counted()
            try:
                return compile_frame(code, *args, **kwargs)
            finally:
                graphs_now, breaks_now = counted()
                more.update(graphs=max(graphs_now - graphs, 0), graph_breaks=max(breaks_now - breaks, 0))
                more["recompiled"] = bool(getattr(kwargs.get("compile_id"), "frame_compile_id", 0))

    convert_frame._compile = watched


def _hook_late_compiling(watch: Watch, callback: Any) -> None:
    """A backward compiled at its first call, and a CUDA graph recorded at a later one than the first."""
    handler, triggers = callback.callback_handler, callback.CallbackTrigger
    install_callbacks = handler.install_callbacks
    names = {triggers.LAZY_BACKWARD: "backward of graph", triggers.CUDAGRAPH_RECORDING: "CUDA graph of graph"}

    def watched(trigger: Any, compile_id: str) -> Any:
        if trigger not in names:
            return install_callbacks(trigger, compile_id)
        both = contextlib.ExitStack()
        both.enter_context(watch._during("compile", f"{names[trigger]} {compile_id}"))
        both.enter_context(install_callbacks(trigger, compile_id))
        return both

    handler.install_callbacks = watched


def _hook_triton(watch: Watch, knobs: Any) -> None:
    already = knobs.compilation.listener

    def listener(*, src: Any, times: Any, **more: Any) -> None:
        watch._add(Event("triton", src.name, times.total / 1e6))
        if already is not None:
            already(src=src, times=times, **more)

    knobs.compilation.listener = listener


def _hook_autotuner(watch: Watch, autotuner: Any) -> None:
    _watch_method(watch, autotuner.Autotuner, "_bench", lambda tuner: tuner.base_fn.__name__)


def _hook_inductor(watch: Watch, heuristics: Any) -> None:
    _watch_method(watch, heuristics.CachingAutotuner, "bench", lambda tuner: tuner.fn.__name__)


def _watch_method(watch: Watch, owner: Any, method: str, name: Callable[[Any], str]) -> None:
    bench = getattr(owner, method)

    @functools.wraps(bench)
    def watched(self: Any, *args: Any, **kwargs: Any) -> Any:
        with watch._during("autotune", name(self)):
            return bench(self, *args, **kwargs)

    setattr(owner, method, watched)


def _hook_extensions(watch: Watch, cpp_extension: Any) -> None:
    build = cpp_extension._write_ninja_file_and_build_library

    @functools.wraps(build)
    def watched(name: str, *args: Any, **kwargs: Any) -> Any:
        with watch._during("build", name):
            return build(name, *args, **kwargs)

    cpp_extension._write_ninja_file_and_build_library = watched


_HOOKS: dict[str, Callable[[Watch, Any], None]] = {
    "torch._dynamo.convert_frame": _hook_dynamo,
    "torch._dynamo.callback": _hook_late_compiling,
    "triton.knobs": _hook_triton,
    "triton.runtime.autotuner": _hook_autotuner,
    "torch._inductor.runtime.triton_heuristics": _hook_inductor,
    "torch.utils.cpp_extension": _hook_extensions,
}
