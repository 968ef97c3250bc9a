"""Where a program's steps end: `kl.step()`, or its optimizer's own step where it never says; where its model begins."""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable
from typing import Any

import torch
from torch.optim.optimizer import register_optimizer_step_post_hook

from kernellab.profiler import session


class _Told:
    """How the steps of one session have become known so far."""

    def __init__(self, of: session.Session) -> None:
        self.of = of
        self.explicit = False
        self.by_optimizer = 0
        self.leader: weakref.ref[Any] | None = None


_told: _Told | None = None


def _of(now: session.Session) -> _Told:
    global _told
    if _told is None or _told.of is not now:
        _told = _Told(now)
    return _told


def known(of: session.Session) -> bool:
    """Whether a step of it has ended, in whichever thread."""
    return _told is not None and _told.of is of


def step() -> None:
    """The end of a step of the program, for `klab profile`; does nothing where nobody profiles."""
    now = session.current()
    if now is None:
        return
    told = _of(now)
    first, told.explicit = not told.explicit, True
    now.marked = now.marked and not told.by_optimizer
    if not (first and told.by_optimizer == 1):  # or the optimizer has ended this very step a moment ago
        now.step()


class Following:
    """Takes an optimizer's step for the program's, until `kl.step` is called; `remove` ends it.

    Of several optimizers the first to step counts: the others belong to the same step. The step ends once torch's own
    range around it has, or the last one of a trace would be cut in two.
    """

    def __init__(self) -> None:
        self._hook = register_optimizer_step_post_hook(self._stepped)
        self._calling = torch.nn.Module._call_impl
        _put_calls(lambda module, *args, **kwargs: self._called(module, *args, **kwargs))
        self._inside = 0
        self._ended: session.Session | None = None
        self._wrapping = torch.optim.Optimizer.profile_hook_step
        _put(self._wrap)

    def remove(self) -> None:
        self._hook.remove()
        _put_calls(self._calling)
        _put(self._wrapping)

    def _wrap(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Torch puts this around the `step` of a class of optimizers when the first one is made."""
        wrapped = self._wrapping(function)

        @functools.wraps(function)
        def step(*args: Any, **kwargs: Any) -> Any:
            if torch.compiler.is_dynamo_compiling():
                return wrapped(*args, **kwargs)
            self._inside += 1
            try:
                return wrapped(*args, **kwargs)
            finally:
                self._inside -= 1
                self._end()

        return step

    def _called(self, module: torch.nn.Module, *args: Any, **kwargs: Any) -> Any:
        """In place of a module's call, for the first one. No hook: with one, torch warns whoever compiles a module."""
        _put_calls(self._calling)
        now = session.current()
        if now is not None:
            now.model_called()
        return self._calling(module, *args, **kwargs)

    def _stepped(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        now = None if torch.compiler.is_dynamo_compiling() else session.current()
        if now is None:
            return
        told = _of(now)
        if told.leader is None or told.leader() is None:
            told.leader = weakref.ref(optimizer)
        if not told.explicit and told.leader() is optimizer:
            told.by_optimizer += 1
            now.marked = True  # torch has a range for it
            self._ended = now
            self._end()

    def _end(self) -> None:
        if self._ended is not None and not self._inside:
            ended, self._ended = self._ended, None
            ended.step()


def _put(wrapping: Callable[..., Any]) -> None:
    torch.optim.Optimizer.profile_hook_step = staticmethod(wrapping)  # type: ignore[method-assign]


def _put_calls(calling: Callable[..., Any]) -> None:
    torch.nn.Module._call_impl = calling  # type: ignore[method-assign]
