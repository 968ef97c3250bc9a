"""Where a program's steps end: at `kl.step()`, or at its optimizer's step if it never calls `kl.step()`."""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import ParamSpec, TypeVar

import torch
from torch.optim.optimizer import Optimizer, register_optimizer_step_post_hook

from kernellab.profiler import session

_Params = ParamSpec("_Params")
_Result = TypeVar("_Result")


class _StepSource:
    """What has marked the steps of one session so far."""

    def __init__(self, current: session.Session) -> None:
        self.session = current
        self.explicit = False  # kl.step was called
        self.optimizer_steps = 0
        self.leader: weakref.ref[Optimizer] | None = None  # the optimizer whose steps count


_source: _StepSource | None = None


def _source_of(current: session.Session) -> _StepSource:
    global _source
    if _source is None or _source.session is not current:
        _source = _StepSource(current)
    return _source


def has_steps(current: session.Session) -> bool:
    """Whether a step of this session has ended, in any thread."""
    return _source is not None and _source.session is current


def step() -> None:
    """Mark the end of a step of the program, for `klab profile`; does nothing if nothing is profiled."""
    current = session.current()
    if current is None:
        return
    source = _source_of(current)
    first_call, source.explicit = not source.explicit, True
    current.steps_in_trace = current.steps_in_trace and not source.optimizer_steps
    if not (first_call and source.optimizer_steps == 1):  # otherwise the optimizer has just ended this step
        current.step()


class StepDetector:
    """Counts an optimizer's steps as the program's until `kl.step` is called, and detects the first call of a model.

    Of several optimizers, the first to step counts: the others belong to the same step. A step ends after
    torch's own range around the optimizer's step: otherwise that range would be cut off in the last step of a trace.
    """

    def __init__(self) -> None:
        self._hook = register_optimizer_step_post_hook(self._after_optimizer)
        self._call_module = torch.nn.Module._call_impl
        torch.nn.Module._call_impl = (  # type: ignore[method-assign]
            lambda module, *args, **kwargs: self._first_module_call(module, *args, **kwargs)
        )
        self._depth = 0  # of optimizer steps within each other
        self._ending: session.Session | None = None
        self._wrap_step = Optimizer.profile_hook_step
        Optimizer.profile_hook_step = staticmethod(self._wrap)  # type: ignore[method-assign, assignment]

    def remove(self) -> None:
        self._hook.remove()
        torch.nn.Module._call_impl = self._call_module  # type: ignore[method-assign]
        Optimizer.profile_hook_step = staticmethod(self._wrap_step)  # type: ignore[method-assign]

    def _wrap(self, function: Callable[_Params, _Result]) -> Callable[_Params, _Result]:
        """Torch wraps the `step` of an optimizer class in this when the first instance is created."""
        wrapped = self._wrap_step(function)

        @functools.wraps(function)
        def step(*args: _Params.args, **kwargs: _Params.kwargs) -> _Result:
            if torch.compiler.is_dynamo_compiling():
                return wrapped(*args, **kwargs)
            self._depth += 1
            try:
                return wrapped(*args, **kwargs)
            finally:
                self._depth -= 1
                self._end_step()

        return step

    def _first_module_call(self, module: torch.nn.Module, *args: object, **kwargs: object) -> object:
        """Replaces the first call of a module. With a hook, torch would warn when a module is compiled."""
        torch.nn.Module._call_impl = self._call_module  # type: ignore[method-assign]
        current = session.current()
        if current is not None:
            current.model_called()
        return self._call_module(module, *args, **kwargs)

    def _after_optimizer(self, optimizer: Optimizer, args: Sequence[object], kwargs: Mapping[str, object]) -> None:
        current = None if torch.compiler.is_dynamo_compiling() else session.current()
        if current is None:
            return
        source = _source_of(current)
        if source.leader is None or source.leader() is None:
            source.leader = weakref.ref(optimizer)
        if not source.explicit and source.leader() is optimizer:
            source.optimizer_steps += 1
            current.steps_in_trace = True  # torch records a range for it
            self._ending = current
            self._end_step()

    def _end_step(self) -> None:
        if self._ending is not None and not self._depth:
            ending, self._ending = self._ending, None
            ending.step()
