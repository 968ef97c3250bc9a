"""Named ranges of a program: `kl.range`, `kl.range_push`, `kl.range_pop`.

PyTorch's profiler and NVTX record a range if they are active. If neither is, it costs a few tests of flags, and
nothing inside compiled code.
"""

from __future__ import annotations

import functools
import inspect
import os
import threading
from collections.abc import Callable
from types import TracebackType
from typing import ParamSpec, TypeVar

import torch
from torch.autograd import profiler as torch_profiler

from kernellab.base.errors import UserError

# NVIDIA's tools set one of these in the programs they start. A user sets KERNELLAB_NVTX to get NVTX ranges anyway.
_TOOL_VARIABLES = (
    *("NVTX_INJECTION64_PATH", "CUDA_INJECTION64_PATH", "NSYS_PROFILING_SESSION_ID", "QUADD_INJECTION_PROXY"),
    *("NV_NSIGHT_INJECTION_TRANSPORT_TYPE", "KERNELLAB_NVTX"),
)
_Params = ParamSpec("_Params")
_Result = TypeVar("_Result")
_is_compiling = torch.compiler.is_dynamo_compiling  # a constant for the compiler, and cheap elsewhere


def nvidia_tool_attached() -> bool:
    """Whether one of NVIDIA's tools has started this program and waits for `cudaProfilerStart`."""
    return any(map(os.environ.get, _TOOL_VARIABLES))


def _has_nvtx() -> bool:
    """Whether this build of torch can make NVTX ranges: builds without CUDA cannot."""
    try:
        torch.cuda.nvtx.mark("kernellab")
    except RuntimeError:
        return False
    return True


_nvtx = nvidia_tool_attached() and _has_nvtx()


def is_recorded() -> bool:
    """Whether a range that opens now is recorded."""
    return _nvtx or torch_profiler._is_profiler_enabled


class range:  # noqa: N801  it is called like a function
    """A named range of the program: `with kl.range("forward"): …`, or `@kl.range("forward")` on a function."""

    __slots__ = ("_name", "_open")

    def __init__(self, name: str) -> None:
        self._name = name
        # One entry per `with`, since an object may be entered again within itself: the range in PyTorch's
        # profiler, and whether there is one in NVTX.
        self._open: list[tuple[torch_profiler.record_function | None, bool]] = []

    def __enter__(self) -> range:
        if _is_compiling():  # otherwise each change of the flags would recompile everything
            return self
        recorded = None
        if torch_profiler._is_profiler_enabled:
            recorded = torch_profiler.record_function(self._name)
            recorded.__enter__()
        if _nvtx:
            torch.cuda.nvtx.range_push(self._name)
        self._open.append((recorded, _nvtx))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if _is_compiling() or not self._open:
            return
        recorded, in_nvtx = self._open.pop()
        if in_nvtx:
            torch.cuda.nvtx.range_pop()
        if recorded is not None:
            recorded.__exit__(kind, error, trace)

    def __call__(self, function: Callable[_Params, _Result]) -> Callable[_Params, _Result]:
        name = self._name
        if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
            raise UserError(
                f"kl.range cannot mark {function.__name__}: it is a generator, which is suspended inside the range. "
                "Mark the functions it calls"
            )
        if inspect.iscoroutinefunction(function):

            @functools.wraps(function)
            async def await_in_range(*args: _Params.args, **kwargs: _Params.kwargs) -> object:
                with range(name):
                    return await function(*args, **kwargs)

            return await_in_range  # type: ignore[return-value]

        @functools.wraps(function)
        def call_in_range(*args: _Params.args, **kwargs: _Params.kwargs) -> _Result:
            if _is_compiling() or not is_recorded():
                return function(*args, **kwargs)
            with range(name):
                return function(*args, **kwargs)

        return call_in_range


class _PushedRanges(threading.local):
    """The open ranges of each thread; None for a range that was not recorded when it was pushed."""

    def __init__(self) -> None:
        self.stack: list[range | None] = []


_pushed = _PushedRanges()


def range_push(name: str) -> None:
    """Open a range that the next `range_pop` of this thread closes."""
    if not _is_compiling():
        _pushed.stack.append(range(name).__enter__() if is_recorded() else None)


def range_pop() -> None:
    """Close the range that this thread opened last by `range_push`."""
    if _is_compiling():
        return
    if not _pushed.stack:
        raise UserError(
            "kl.range_pop: no range is open in this thread. Each kl.range_pop needs a kl.range_push before it"
        )
    last = _pushed.stack.pop()
    if last is not None:
        last.__exit__(None, None, None)
