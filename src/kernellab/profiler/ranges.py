"""Named stretches of a program: `kl.range`, `kl.range_push`, `kl.range_pop`, `kl.auto_ranges`.

One range is two: of PyTorch's profiler and of NVTX, whichever listens. Where neither does, a range costs a few looks at
flags, and inside compiled code nothing at all.
"""

from __future__ import annotations

import functools
import inspect
import os
import threading
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Any, TypeVar

import torch
from torch.autograd import profiler as torch_profiler

from kernellab.base.errors import UserError

# NVIDIA's tools set one of these in the programs they start. KERNELLAB_NVTX asks for NVTX by hand.
_TOOLS = (
    *("NVTX_INJECTION64_PATH", "CUDA_INJECTION64_PATH", "NSYS_PROFILING_SESSION_ID", "QUADD_INJECTION_PROXY"),
    *("NV_NSIGHT_INJECTION_TRANSPORT_TYPE", "KERNELLAB_NVTX"),
)
_F = TypeVar("_F", bound=Callable[..., Any])
_compiling = torch.compiler.is_dynamo_compiling  # a constant to the compiler, and nearly one elsewhere


def captures() -> bool:
    """Whether a tool of NVIDIA's is attached, which waits to be told what to capture."""
    return any(map(os.environ.get, _TOOLS))


def _has_nvtx() -> bool:
    """Whether this build of torch can make NVTX ranges: those without CUDA cannot."""
    try:
        torch.cuda.nvtx.mark("kernellab")
    except RuntimeError:
        return False
    return True


_nvtx = captures() and _has_nvtx()
_pushed = threading.local()


class range:  # noqa: N801  it is called like a function
    """A stretch of the program with a name: `with kl.range("forward"): …`, or `@kl.range("forward")` on a function."""

    __slots__ = ("_name", "_opened")

    def __init__(self, name: str) -> None:
        self._name = name
        self._opened: list[tuple[Any, bool]] = []  # one object may be entered again within itself

    def __enter__(self) -> range:
        if _compiling():  # or each change of the flags would compile everything again
            return self
        recorded = None
        if torch_profiler._is_profiler_enabled:
            recorded = torch_profiler.record_function(self._name)
            recorded.__enter__()
        if _nvtx:
            torch.cuda.nvtx.range_push(self._name)
        self._opened.append((recorded, _nvtx))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if _compiling() or not self._opened:
            return
        recorded, pushed = self._opened.pop()
        if pushed:
            torch.cuda.nvtx.range_pop()
        if recorded is not None:
            recorded.__exit__(kind, error, trace)

    def __call__(self, function: _F) -> _F:
        name = self._name
        if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
            raise UserError(
                f"kl.range cannot mark {function.__name__}, a generator: it stops in the middle. Mark what it calls"
            )
        if inspect.iscoroutinefunction(function):

            @functools.wraps(function)
            async def awaited(*args: Any, **kwargs: Any) -> Any:
                with range(name):
                    return await function(*args, **kwargs)

            return awaited  # type: ignore[return-value]

        @functools.wraps(function)
        def called(*args: Any, **kwargs: Any) -> Any:
            if _compiling() or not (_nvtx or torch_profiler._is_profiler_enabled):
                return function(*args, **kwargs)
            with range(name):
                return function(*args, **kwargs)

        return called  # type: ignore[return-value]


def range_push(name: str) -> None:
    """Begin a range that the next `range_pop` of this thread ends."""
    if _compiling():
        return
    _open().append(range(name).__enter__() if _nvtx or torch_profiler._is_profiler_enabled else None)


def range_pop() -> None:
    """End the range that was begun last in this thread."""
    if _compiling():
        return
    ranges = _open()
    if not ranges:
        raise UserError("kl.range_pop: no range is open in this thread. Each kl.range_push has one kl.range_pop")
    last = ranges.pop()
    if last is not None:
        last.__exit__(None, None, None)


def _open() -> list[range | None]:
    try:
        found: list[range | None] = _pushed.ranges
    except AttributeError:
        found = _pushed.ranges = []
    return found


def listening() -> bool:
    """Whether a range would be seen by anybody now."""
    return _nvtx or torch_profiler._is_profiler_enabled


# Every module of a model -------------------------------------------------------------------------------


class Marks:
    """What `auto_ranges` has put on a model; `remove` takes it off. Also a context manager."""

    def __init__(self, handles: list[Any]) -> None:
        self._handles = handles

    def remove(self) -> None:
        while self._handles:
            self._handles.pop().remove()

    def __enter__(self) -> Marks:
        return self

    def __exit__(self, *_: object) -> None:
        self.remove()


def auto_ranges(model: torch.nn.Module) -> Marks:
    """Mark every module's forward, by its path in the model, and its backward, as `PATH.backward`.

    Nothing is added to the graph: its nodes are told to say when they run. Compiled code is left alone.
    """
    handles: list[Any] = []
    for path, module in model.named_modules():
        mark = _Mark(path or type(model).__name__)
        handles.append(module.register_forward_pre_hook(mark.begin, prepend=True))
        handles.append(module.register_forward_hook(mark.end, always_call=True))
    return Marks(handles)


class _Mark:
    """One module's hooks. A class with a name, so that a marked model can still be copied and saved."""

    def __init__(self, path: str) -> None:
        self.path = path

    def begin(self, module: torch.nn.Module, args: Any) -> None:
        if _compiling():
            return
        _calls().append((range(self.path).__enter__(), _sequence() if listening() else None))

    def end(self, module: torch.nn.Module, args: Any, output: Any) -> None:
        if _compiling() or not _calls():
            return
        opened, first = _calls().pop()
        opened.__exit__(None, None, None)
        if first is not None:
            for node in _nodes(output, first):
                if "kernellab" not in node.metadata:  # an inner module's own
                    node.metadata["kernellab"] = marked = _Node(f"{self.path}.backward")
                    node.register_prehook(marked.begin)
                    node.register_hook(marked.end)


class _Node:
    """One node of autograd's graph. Its hooks run on the thread it runs on, right before and after it."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._open: list[range] = []

    def begin(self, grads: Any) -> None:
        self._open.append(range(self._name).__enter__())

    def end(self, grads_in: Any, grads_out: Any) -> None:
        if self._open:
            self._open.pop().__exit__(None, None, None)


def _calls() -> list[tuple[range, int | None]]:
    try:
        found: list[tuple[range, int | None]] = _pushed.calls
    except AttributeError:
        found = _pushed.calls = []
    return found


def _sequence() -> int:
    return int(torch._C._autograd._get_sequence_nr())


def _nodes(output: Any, first: int) -> list[Any]:
    """The nodes behind a module's output that its forward has made: those numbered since `first`.

    Where gradients accumulate no hook is put: those nodes outlive the graph, and DDP has its own there.
    """
    found: dict[Any, None] = {}
    left = [t.grad_fn for t in _tensors(output) if t.grad_fn is not None]
    while left:
        node = left.pop()
        if node in found or node.name() == "torch::autograd::AccumulateGrad" or node._sequence_nr() < first:
            continue
        found[node] = None
        left += [earlier for earlier, _ in node.next_functions if earlier is not None]
    return list(found)


def _tensors(value: Any) -> Iterator[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, dict):
        for one in value.values():
            yield from _tensors(one)
    elif isinstance(value, (tuple, list)):
        for one in value:
            yield from _tensors(one)
