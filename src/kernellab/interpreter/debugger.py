"""pdb inside a Triton kernel. Triton's interpreter runs kernels as Python under their authors' own file names and
line numbers, one program of the grid after the other: this module notices the launches, stops where it was asked to,
and shows what a kernel's author knows: their frames, their lines, their blocks' values.

To be imported after `interpreter.prepare`: whatever imports triton earlier gets kernels that compile.
"""

from __future__ import annotations

import contextlib
import gc
import inspect
import linecache
import pdb
import signal
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any

import numpy as np
import torch
from triton.runtime import interpreter

from kernellab.base.errors import UserError
from kernellab.base.user_code import PACKAGE
from kernellab.interpreter.block_values import ALL, FEW, shown

_HELP = "p x: a value   v: all of them   n: next line   s: into a helper   c: go on   q: leave   h: more"
_LINE = 8  # elements of a block, where each has a line
_NOT_THEIRS = sys.stdlib_module_names | {"triton", "torch", "numpy"}


@dataclass(frozen=True)
class Stop:
    """Where to stop: a line, of a file or else of the first kernel's; a program of the grid, or else the first."""

    file: str = ""
    line: int | None = None
    program: tuple[int, ...] | None = None


@dataclass(eq=False)
class Launch:
    """A kernel under way, with its arguments as the interpreter sees them."""

    kernel: Callable[..., Any]
    arguments: dict[str, Any] = field(default_factory=dict)
    finished: bool = False

    @property
    def tensors(self) -> dict[str, torch.Tensor]:
        """Those the kernel's pointers can point into, by the names of its parameters."""
        found: dict[str, torch.Tensor] = {}
        for name, value in self.arguments.items():
            parts = enumerate(value) if isinstance(value, tuple) else [("", value)]
            for at, part in parts:
                tensor = getattr(part, "base", part)  # a descriptor's is the tensor it describes
                if isinstance(tensor, torch.Tensor):
                    found[f"{name}[{at}]" if isinstance(value, tuple) else name] = tensor
        return found

    def lines(self) -> list[str]:
        code = self.kernel.__code__
        grid = "×".join(map(str, _trimmed(interpreter.interpreter_builder.grid_dim)))
        given = [
            f"{name}{': ' if isinstance(value, torch.Tensor) else '='}{shown(value, {})}"
            for name, value in self.arguments.items()
        ]
        place = f"{near(code.co_filename)}:{code.co_firstlineno}"
        return [f"kernel {code.co_name} ({place}), grid {grid}", f"  {', '.join(given)}"]


class Debugger(pdb.Pdb):
    """pdb that knows launches and programs, leaves out frames that are not the author's, and shows blocks."""

    def __init__(self, stop: Stop, title: str) -> None:
        super().__init__()
        self.reset()
        self.prompt = "(klab) "
        self.launch: Launch | None = None
        self.refused: UserError | None = None  # the request cannot be met, as the first launch showed
        self.raised: BaseException | None = None  # what the way raised
        self.stopped = False
        self._stop, self._title = stop, title
        self._told: list[object] = []  # the launch and program the user last heard of
        self._seen: BaseException | None = None  # an exception the user was shown as it was raised
        self._dead: list[tuple[FrameType, int]] = []  # the frames of an exception, once it has ended the call

    # Running a way ---------------------------------------------------------------------------------------

    def call(self, way: Callable[..., Any], *args: Any, **options: Any) -> Any:
        """The way's result. It stops where it was asked to, and remembers what the way raised."""
        self.reset()
        self.botframe = sys._getframe()
        interrupts = signal.getsignal(signal.SIGINT)  # pdb takes them while the kernel goes on
        try:
            # NaN and inf in lanes that are masked off are everyday; numpy's warnings would stand between the answers.
            with self._noticing_launches(), np.errstate(all="ignore"):
                return way(*args, **options)
        except BaseException as error:
            self.raised = error
            raise
        finally:
            sys.settrace(None)
            signal.signal(signal.SIGINT, interrupts)

    @contextlib.contextmanager
    def _noticing_launches(self) -> Iterator[None]:
        executor, builder = interpreter.GridExecutor, interpreter.interpreter_builder
        launch, to_host, set_program = executor.__call__, executor._init_args_hst, builder.set_grid_idx

        def launching(its: Any, *args: Any, **kwargs: Any) -> Any:
            this = self._launched(its.fn)
            result = launch(its, *args, **kwargs)
            this.finished = True
            return result

        def copying(its: Any, args: Any, kwargs: Any) -> Any:
            on_host = to_host(its, args, kwargs)
            assert self.launch is not None
            with contextlib.suppress(TypeError):  # too few arguments: the launch itself will say so
                self.launch.arguments = inspect.getcallargs(its.fn, *on_host[0], **on_host[1])
            return on_host

        def starting(*program: int) -> None:
            set_program(*program)
            self._program_starts()

        executor.__call__, executor._init_args_hst, builder.set_grid_idx = launching, copying, starting
        try:
            yield
        finally:
            executor.__call__, executor._init_args_hst, builder.set_grid_idx = launch, to_host, set_program

    def _launched(self, kernel: Callable[..., Any]) -> Launch:
        first, this = self.launch is None, Launch(kernel)
        self.launch = this
        if first and self._stop.line is not None and not self.quitting:
            self._set_breakpoint(kernel.__code__.co_filename, self._stop.line)
            self.set_continue()
            self._trace()
        return this

    def _program_starts(self) -> None:
        """Without a line, the first kernel is the one to stop in; a breakpoint waits for its line anyway."""
        builder, wanted = interpreter.interpreter_builder, _padded(self._stop.program or (0,))
        if self.stopped or self.quitting or self._stop.line is not None:
            return
        if any(at >= size for at, size in zip(wanted, builder.grid_dim, strict=True)):
            asked, grid = ",".join(map(str, self._stop.program or ())), "×".join(map(str, _trimmed(builder.grid_dim)))
            self._refuse(f"--break-at {asked}: the grid is {grid}, and programs are numbered from 0")
        if builder.grid_idx == wanted:
            self.set_step()
            self._trace()

    def _trace(self) -> None:
        """From here on, the launcher's frames included: who steps out of a kernel arrives there."""
        frame: FrameType | None = sys._getframe()
        while frame is not None and frame is not self.botframe:
            if not _hidden(frame):
                frame.f_trace = self.trace_dispatch
            frame = frame.f_back
        sys.settrace(self.trace_dispatch)

    def _set_breakpoint(self, kernels_file: str, line: int) -> None:
        file = self._find(self._stop.file) if self._stop.file else kernels_file
        code = [f.__code__ for f in _jitted() if self.canonic(f.__code__.co_filename) == self.canonic(file)]
        lines = {n: c.co_name for c in code for *_, n in c.co_lines() if n is not None and n != c.co_firstlineno}
        if not lines:
            self._refuse(f"--break {self._stop.file}:{line}: no Triton kernel is written in {near(file)}")
        if line not in lines:
            after = min((n for n in lines if n > line), default=max(lines))
            self._refuse(
                f"--break {line}: no kernel has code on line {line} of {near(file)}; {lines[after]} has on line {after}"
            )
        condition = None
        if self._stop.program is not None:  # the interpreter's names can be seen from every kernel it runs
            condition = f"interpreter_builder.grid_idx == {_padded(self._stop.program)}"
        self.set_break(file, line, cond=condition)

    def _find(self, name: str) -> str:
        """The file of kernels that a name or the end of a path means."""
        files = sorted({self.canonic(f.__code__.co_filename) for f in _jitted()})
        if Path(name).is_file():
            return str(Path(name).resolve())
        found = [file for file in files if Path(file).parts[-len(Path(name).parts) :] == Path(name).parts]
        if len(found) != 1:
            which = "several files end so," if found else "no such file; kernels are written in"
            known = ", ".join(near(file) for file in found or files)
            self._refuse(f"--break {name}:{self._stop.line}: {which} {known}")
        return found[0]

    def _refuse(self, why: str) -> None:
        self.refused = UserError(why)
        raise self.refused

    # Stopping --------------------------------------------------------------------------------------------

    def stop_here(self, frame: FrameType) -> bool:
        return super().stop_here(frame) and not _hidden(frame)

    def user_call(self, frame: FrameType, argument_list: None) -> None:
        """Not at the call: the first line of a kernel comes next, and says more."""

    def user_exception(self, frame: FrameType, exc_info: Any) -> None:
        self._seen = root(exc_info[1])
        super().user_exception(frame, exc_info)

    def interaction(self, frame: FrameType | None, *more: Any) -> None:
        self.stopped = True
        self._tell()
        super().interaction(frame, *more)

    def _tell(self) -> None:
        """What the user does not know yet: the case, the kernel, the program."""
        if not self._told:
            self.message(self._title)
        under_way = self.launch is not None and not self.launch.finished
        program = interpreter.interpreter_builder.grid_idx if under_way else None
        if self.launch is not None and self.launch not in self._told:
            for line in self.launch.lines():
                self.message(line)
        if not self._told:
            self.message(_HELP)
        now = [self.launch, program]
        if program is not None and now != self._told:
            self.message(f"program {','.join(map(str, _trimmed(program)))}")
        self._told = now

    def post_mortem(self) -> None:
        """Look around where the way raised, unless the user was there when it did."""
        assert self.raised is not None
        if self._seen is root(self.raised):
            return
        self.reset()
        self._dead = [entry for trace in _traces(self.raised) for entry in trace if not _hidden(entry[0])]
        self.interaction(None, root(self.raised).__traceback__)

    def get_stack(self, f: FrameType | None, t: TracebackType | None) -> tuple[list[tuple[FrameType, int]], int]:
        if self._dead:
            return self._dead, len(self._dead) - 1
        stack, current = super().get_stack(f, t)
        kept = [(place, entry) for place, entry in enumerate(stack) if not _hidden(entry[0])]
        if not kept:
            return stack, current
        before = sum(place <= current for place, _ in kept)
        return [entry for _, entry in kept], max(0, before - 1)

    # Showing ---------------------------------------------------------------------------------------------

    def format_stack_entry(self, frame_lineno: tuple[FrameType, int], lprefix: str = ": ") -> str:
        frame, line = frame_lineno
        text = f"{near(frame.f_code.co_filename)}:{line} {frame.f_code.co_name}"
        if "__return__" in frame.f_locals:
            text += f" returns {self._shown(frame.f_locals['__return__'])}"
        source = linecache.getline(frame.f_code.co_filename, line, frame.f_globals).strip()
        return f"{text}{lprefix}{source}" if source else text

    def _shown(self, value: Any, most: int = FEW) -> str:
        try:
            return shown(value, self.launch.tensors if self.launch else {}, most)
        except Exception as error:  # of a value that is not what it seems; the session goes on
            return f"a {type(value).__name__} that cannot be shown: {error}"

    def _evaluated(self, text: str, most: int = FEW) -> None:
        try:
            value = self._getval(text)
        except BaseException:  # _getval has said what is wrong
            return
        self.message(self._shown(value, most))

    def do_p(self, arg: str) -> None:
        """p expression

        Show a value: a block's numbers, a pointer's place in its tensor.
        """
        self._evaluated(arg)

    do_pp = do_p

    def do_v(self, arg: str) -> None:
        """v [expression]

        Show every value of the kernel; with an expression, all of its numbers.
        """
        if arg:
            self._evaluated(arg, ALL)
            return
        for name, value in self.curframe_locals.items():
            if not name.startswith("__"):
                self.message(f"{name} = {self._shown(value, _LINE)}")

    def do_args(self, arg: str) -> None:
        """a(rgs)

        Show the arguments of the current function.
        """
        assert self.curframe is not None
        code = self.curframe.f_code
        for name in code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]:
            if name in self.curframe_locals:
                self.message(f"{name} = {self._shown(self.curframe_locals[name])}")

    do_a = do_args

    def displayhook(self, obj: Any) -> None:
        if obj is not None:
            self.message(self._shown(obj))

    def do_run(self, arg: str) -> None:
        """run

        Not here: leave with q and give the command again.
        """
        self.error("leave with q and give the command again")

    do_restart = do_run


# Whose is it -------------------------------------------------------------------------------------------


def _hidden(frame: FrameType) -> bool:
    """Frames between the author's own: Python's, Triton's, torch's, and kernellab's but for the ops it ships."""
    file = frame.f_code.co_filename
    if frame.f_code.co_name == "<module>":  # the interpreter defines a kernel's rewritten twin in one
        return True
    if file.startswith("<") or str(frame.f_globals.get("__name__", "")).split(".")[0] in _NOT_THEIRS:
        return True
    path = Path(file)
    return PACKAGE in path.parents and path.relative_to(PACKAGE).parts[0] != "ops"


def root(error: BaseException) -> BaseException:
    """What was raised first: the interpreter wraps it once for each function it passes through."""
    while isinstance(error, interpreter.InterpreterError) and error.__cause__ is not None:
        error = error.__cause__
    return error


def _traces(error: BaseException) -> Iterator[list[tuple[FrameType, int]]]:
    """The frames of an exception and of those it was wrapped in, outermost first."""
    while True:
        trace, at = [], error.__traceback__
        while at is not None:
            trace.append((at.tb_frame, at.tb_lineno))
            at = at.tb_next
        yield trace
        if error is root(error) or error.__cause__ is None:
            return
        error = error.__cause__


def _jitted() -> list[Callable[..., Any]]:
    """Every function under @triton.jit that is not Triton's own, wherever its author keeps it."""
    found = [thing.fn for thing in gc.get_objects() if type(thing) is interpreter.InterpretedFunction]
    return [fn for fn in found if fn.__module__.split(".")[0] not in _NOT_THEIRS]


# Small words -------------------------------------------------------------------------------------------


def near(file: str) -> str:
    """A path as seen from the current folder, where it lies below it."""
    try:
        return str(Path(file).resolve().relative_to(Path.cwd()))
    except ValueError:
        return file


def _padded(program: tuple[int, ...]) -> tuple[int, ...]:
    return (*program, 0, 0)[:3]


def _trimmed(grid: tuple[int, ...]) -> tuple[int, ...]:
    """Without the dims the launch did not have: the interpreter pads a grid to three."""
    dims = 3
    while dims > 1 and interpreter.interpreter_builder.grid_dim[dims - 1] == 1:
        dims -= 1
    return tuple(grid[:dims])
