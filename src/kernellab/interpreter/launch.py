"""Launches in Triton's interpreter: the kernel that runs, its arguments, and where in the grid it is."""

from __future__ import annotations

import contextlib
import gc
import inspect
from collections.abc import Iterator
from dataclasses import dataclass, field
from types import CodeType
from typing import Protocol

import torch
from triton.runtime import interpreter

from kernellab.base.functions import AnyFunction
from kernellab.interpreter.block_values import format_value
from kernellab.interpreter.frames import LIBRARIES, shorten_path

Program = tuple[int, ...]  # the position of a program in its grid


@dataclass(eq=False)
class Launch:
    """A kernel that has been launched, with its arguments as the interpreter sees them."""

    kernel: AnyFunction
    arguments: dict[str, object] = field(default_factory=dict)
    finished: bool = False

    @property
    def code(self) -> CodeType:
        return self.kernel.__code__

    @property
    def tensors(self) -> dict[str, torch.Tensor]:
        """The tensors that the kernel's pointers can point into, by the names of its parameters."""
        tensors: dict[str, torch.Tensor] = {}
        for name, value in self.arguments.items():
            items = (
                {f"{name}[{at}]": item for at, item in enumerate(value)} if isinstance(value, tuple) else {name: value}
            )
            for label, item in items.items():
                tensor = getattr(item, "base", item)  # of a descriptor: the tensor that it describes
                if isinstance(tensor, torch.Tensor):
                    tensors[label] = tensor
        return tensors

    def describe(self) -> list[str]:
        """Two lines: the kernel with its grid, and its arguments."""
        grid = "×".join(map(str, launched_dims(grid_size())))
        arguments = [
            f"{name}{': ' if isinstance(value, torch.Tensor) else '='}{format_value(value, {})}"
            for name, value in self.arguments.items()
        ]
        place = f"{shorten_path(self.code.co_filename)}:{self.code.co_firstlineno}"
        return [f"kernel {self.code.co_name} ({place}), grid {grid}", f"  {', '.join(arguments)}"]


class _GridExecutor(Protocol):
    fn: AnyFunction


class LaunchListener(Protocol):
    """Is told about launches and programs."""

    launch: Launch | None

    def on_launch(self, launch: Launch) -> None: ...

    def on_program(self) -> None: ...


@contextlib.contextmanager
def listening_to_launches(listener: LaunchListener) -> Iterator[None]:
    """Replaces three methods of the interpreter, so that the listener is told."""
    executor, builder = interpreter.GridExecutor, interpreter.interpreter_builder
    launch, copy_to_host, set_program = executor.__call__, executor._init_args_hst, builder.set_grid_idx

    def launching(grid_executor: _GridExecutor, *args: object, **kwargs: object) -> object:
        current = Launch(grid_executor.fn)
        listener.on_launch(current)
        result = launch(grid_executor, *args, **kwargs)
        current.finished = True
        return result

    def copying(grid_executor: _GridExecutor, args: object, kwargs: object) -> object:
        on_host = copy_to_host(grid_executor, args, kwargs)
        assert listener.launch is not None
        with contextlib.suppress(TypeError):  # too few arguments: the launch itself reports it
            listener.launch.arguments = inspect.getcallargs(grid_executor.fn, *on_host[0], **on_host[1])
        return on_host

    def starting(*program: int) -> None:
        set_program(*program)
        listener.on_program()

    executor.__call__, executor._init_args_hst, builder.set_grid_idx = launching, copying, starting
    try:
        yield
    finally:
        executor.__call__, executor._init_args_hst, builder.set_grid_idx = launch, copy_to_host, set_program


def grid_size() -> Program:
    """The size of the current grid, padded to three dims."""
    return tuple(interpreter.interpreter_builder.grid_dim)


def current_program() -> Program:
    """The program that is running, padded to three dims."""
    return tuple(interpreter.interpreter_builder.grid_idx)


def pad(program: Program) -> Program:
    return (*program, 0, 0)[:3]


def launched_dims(position: Program) -> Program:
    """Without the dims that the launch did not have: the interpreter pads a grid to three dims."""
    dims, size = 3, grid_size()
    while dims > 1 and size[dims - 1] == 1:
        dims -= 1
    return tuple(position[:dims])


def author_kernels() -> list[CodeType]:
    """The code of every function under @triton.jit that is not Triton's own, wherever it is referenced."""
    functions = [thing.fn for thing in gc.get_objects() if type(thing) is interpreter.InterpretedFunction]
    return [fn.__code__ for fn in functions if fn.__module__.split(".")[0] not in LIBRARIES]
