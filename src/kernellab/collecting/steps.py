"""Where a program's steps end: `kl.step()`, or its optimizer's own step where it never says."""

from __future__ import annotations

import weakref
from typing import Any

import torch
from torch.optim.optimizer import register_optimizer_step_post_hook

from kernellab.collecting import session


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


def follow_optimizers() -> Any:
    """Take an optimizer's step for the program's, until `kl.step` is called; returns what can be removed.

    Of several optimizers the first to step counts: the others belong to the same step.
    """
    return register_optimizer_step_post_hook(_stepped)


def _stepped(optimizer: Any, args: Any, kwargs: Any) -> None:
    now = None if torch.compiler.is_dynamo_compiling() else session.current()
    if now is None:
        return
    told = _of(now)
    if told.leader is None or told.leader() is None:
        told.leader = weakref.ref(optimizer)
    if not told.explicit and told.leader() is optimizer:
        told.by_optimizer += 1
        now.marked = True  # torch has a range for it
        now.step()
