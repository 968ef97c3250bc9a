"""Functions under `@triton.jit` that libraries may examine: in the interpreter they are of Triton's class for compiled
kernels too, with its parameters and signature, and run in the interpreter."""

from __future__ import annotations

import hashlib
from types import ModuleType

from kernellab.base.functions import AnyFunction
from kernellab.interpreter.language import replace_function


def provide_jit_functions(interpreter: ModuleType, jit_function: type) -> None:
    """`jit_function` is Triton's class of compiled kernels. `@triton.jit` creates the class below from now on."""
    interpreted_function: AnyFunction = interpreter.InterpretedFunction

    class Kernel(jit_function):  # type: ignore[misc]
        def __new__(cls, fn: AnyFunction, **settings: object) -> object:  # type: ignore[misc]
            try:
                jit_function(fn)
            except OSError:  # a function without source: Triton's interpreter can run it
                return interpreted_function(fn, **settings)
            return super().__new__(cls)

        def __init__(self, fn: AnyFunction, **settings: object) -> None:
            super().__init__(fn, **settings)
            self._interpreted = interpreted_function(fn, **settings)

        @property
        def cache_key(self) -> str:
            """Of the source alone: the functions it calls are not compiled."""
            return hashlib.sha256(str(self.src).encode()).hexdigest()

        def run(self, *args: object, **kwargs: object) -> object:
            return self._interpreted.run(*args, **kwargs)  # type: ignore[attr-defined]

        def __call__(self, *args: object, **kwargs: object) -> object:
            """Called by another kernel."""
            return self._interpreted(*args, **kwargs)  # type: ignore[operator]

        def add_pre_run_hook(self, hook: object) -> None:
            self._interpreted.add_pre_run_hook(hook)  # type: ignore[attr-defined]

    interpreter.__dict__["InterpretedFunction"] = Kernel
    _launch_wrapped_kernels()


def _launch_wrapped_kernels() -> None:
    """`wrap_triton` makes a kernel visible to torch.compile, for which it would have to be compiled."""
    import torch

    for owner in (torch.library, torch._library, torch._library.triton):
        if hasattr(owner, "wrap_triton"):
            replace_function(owner, "wrap_triton", lambda kernel: kernel)
