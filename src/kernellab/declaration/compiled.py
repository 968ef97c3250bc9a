"""A function as `torch.compile` compiles it: the implementation `compile` of an op."""

from __future__ import annotations

from kernellab.base.functions import AnyFunction


class Compiled:
    """Compiled at the first call, and again at the first call after `reset`.

    Every size gets its own graph (`dynamic=False`): a case is timed with the code specialised for it.
    """

    def __init__(self, fn: AnyFunction, **settings: object) -> None:
        self.source = fn
        self.settings: dict[str, object] = {"dynamic": False, **settings}
        self._compiled: AnyFunction | None = None

    def __call__(self, *args: object, **options: object) -> object:
        if self._compiled is None:
            import torch

            self._compiled = torch.compile(self.source, **self.settings)  # type: ignore[call-overload]
        return self._compiled(*args, **options)

    def reset(self) -> None:
        self._compiled = None
