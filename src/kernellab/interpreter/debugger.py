"""pdb inside a Triton kernel.

Triton's interpreter runs kernels as Python, under their authors' own file names and line numbers, one program of the
grid after the other. The debugger stops at the requested place and shows only what the kernel's author wrote: their
frames, their lines, the values of their blocks.

Import it after `emulation.enable_interpreter`: kernels of modules that import triton earlier are compiled.
"""

from __future__ import annotations

import linecache
import pdb
import signal
import sys
from pathlib import Path
from types import FrameType, TracebackType

import numpy as np

from kernellab.base.errors import UserError
from kernellab.base.functions import AnyFunction
from kernellab.interpreter.block_values import ALL, FEW, format_value
from kernellab.interpreter.frames import Place, author_frames, is_hidden, root_cause, shorten_path
from kernellab.interpreter.launch import (
    Launch,
    author_kernels,
    current_program,
    grid_size,
    launched_dims,
    listening_to_launches,
    pad,
)
from kernellab.interpreter.stop import Stop

_HELP = "p x: a value   v: all values   n: next line   s: into a helper   c: continue   q: quit   h: more"
_ELEMENTS_PER_LINE = 8  # of a block, where each value has one line


class Debugger(pdb.Pdb):
    """pdb that knows launches and programs, hides frames that are not the author's, and shows blocks."""

    def __init__(self, stop: Stop, title: str) -> None:
        super().__init__()
        self.reset()
        self.prompt = "(klab) "
        self.launch: Launch | None = None
        self.refused: UserError | None = None  # the request cannot be met, as the first launch showed
        self.raised: BaseException | None = None  # what the implementation raised
        self.stopped = False
        self._stop, self._title = stop, title
        self._announced: list[object] = []  # the launch and the program that the user was last told about
        self._shown_error: BaseException | None = None  # an exception that the user saw when it was raised
        self._dead_frames: list[Place] = []  # the frames of an exception, once it has ended the call

    # Running an implementation -----------------------------------------------------------------------------

    def call(self, fn: AnyFunction, *args: object, **options: object) -> object:
        """The implementation's result. Stops at the requested place, and keeps what the implementation raised."""
        self.reset()
        self.botframe = sys._getframe()
        interrupts = signal.getsignal(signal.SIGINT)  # pdb handles them while the kernel runs
        try:
            # NaN and inf in masked lanes are normal; numpy's warnings would clutter the session.
            with listening_to_launches(self), np.errstate(all="ignore"):
                return fn(*args, **options)
        except BaseException as error:
            self.raised = error
            raise
        finally:
            sys.settrace(None)
            signal.signal(signal.SIGINT, interrupts)

    def on_launch(self, launch: Launch) -> None:
        first, self.launch = self.launch is None, launch
        if first and self._stop.line is not None and not self.quitting:
            self._set_breakpoint(launch.code.co_filename, self._stop.line)
            self.set_continue()
            self._trace()

    def on_program(self) -> None:
        """Without a line, stop at the start of the first kernel; a breakpoint stops by itself."""
        wanted, size = pad(self._stop.program or (0,)), grid_size()
        if self.stopped or self.quitting or self._stop.line is not None:
            return
        if any(at >= n for at, n in zip(wanted, size, strict=True)):
            requested = ",".join(map(str, self._stop.program or ()))
            grid = "×".join(map(str, launched_dims(size)))
            self._refuse(f"--break-at {requested}: the grid is {grid}, and programs are numbered from 0")
        if current_program() == wanted:
            self.set_step()
            self._trace()

    def _trace(self) -> None:
        """Trace from here on, including the launcher's frames: stepping out of a kernel leads there."""
        frame: FrameType | None = sys._getframe()
        while frame is not None and frame is not self.botframe:
            if not is_hidden(frame):
                frame.f_trace = self.trace_dispatch
            frame = frame.f_back
        sys.settrace(self.trace_dispatch)

    def _set_breakpoint(self, kernels_file: str, line: int) -> None:
        file = self._find_file(self._stop.file) if self._stop.file else kernels_file
        kernels = [code for code in author_kernels() if self.canonic(code.co_filename) == self.canonic(file)]
        lines = {
            n: code.co_name
            for code in kernels
            for *_, n in code.co_lines()
            if n is not None and n != code.co_firstlineno
        }
        if not lines:
            self._refuse(f"--break {self._stop.file}:{line}: {shorten_path(file)} contains no Triton kernel")
        if line not in lines:
            after = min((n for n in lines if n > line), default=max(lines))
            place = f"line {line} of {shorten_path(file)}"
            self._refuse(f"--break {line}: no kernel has code on {place}; {lines[after]} has on line {after}")
        condition = None
        if self._stop.program is not None:  # the interpreter's names are visible in every kernel it runs
            condition = f"interpreter_builder.grid_idx == {pad(self._stop.program)}"
        self.set_break(file, line, cond=condition)

    def _find_file(self, name: str) -> str:
        """The file with kernels that a name, or the end of a path, refers to."""
        files = sorted({self.canonic(code.co_filename) for code in author_kernels()})
        if Path(name).is_file():
            return str(Path(name).resolve())
        matches = [file for file in files if Path(file).parts[-len(Path(name).parts) :] == Path(name).parts]
        if len(matches) != 1:
            problem = "several files match," if matches else "no such file; there are kernels in"
            listed = ", ".join(shorten_path(file) for file in matches or files)
            self._refuse(f"--break {name}:{self._stop.line}: {problem} {listed}")
        return matches[0]

    def _refuse(self, reason: str) -> None:
        self.refused = UserError(reason)
        raise self.refused

    # Stopping --------------------------------------------------------------------------------------------

    def stop_here(self, frame: FrameType) -> bool:
        return super().stop_here(frame) and not is_hidden(frame)

    def user_call(self, frame: FrameType, argument_list: None) -> None:
        """Does not stop at the call: the first line of the kernel comes next and shows more."""

    def user_exception(
        self, frame: FrameType, exc_info: tuple[type[BaseException], BaseException, TracebackType]
    ) -> None:
        self._shown_error = root_cause(exc_info[1])
        super().user_exception(frame, exc_info)

    def interaction(self, frame: FrameType | None, traceback: TracebackType | None) -> None:
        self.stopped = True
        self._announce()
        super().interaction(frame, traceback)

    def _announce(self) -> None:
        """Print what is new since the last stop: the case, the kernel, the program."""
        if not self._announced:
            self.message(self._title)
        running = self.launch is not None and not self.launch.finished
        program = current_program() if running else None
        if self.launch is not None and self.launch not in self._announced:
            for line in self.launch.describe():
                self.message(line)
        if not self._announced:
            self.message(_HELP)
        now: list[object] = [self.launch, program]
        if program is not None and now != self._announced:
            self.message(f"program {','.join(map(str, launched_dims(program)))}")
        self._announced = now

    def post_mortem(self) -> None:
        """Stop where the implementation raised, unless the user has been there."""
        assert self.raised is not None
        if self._shown_error is root_cause(self.raised):
            return
        self.reset()
        self._dead_frames = author_frames(self.raised)
        self.interaction(None, root_cause(self.raised).__traceback__)

    def get_stack(self, f: FrameType | None, t: TracebackType | None) -> tuple[list[Place], int]:
        if self._dead_frames:
            return self._dead_frames, len(self._dead_frames) - 1
        stack, current = super().get_stack(f, t)
        shown = [(position, place) for position, place in enumerate(stack) if not is_hidden(place[0])]
        if not shown:
            return stack, current
        before = sum(position <= current for position, _ in shown)
        return [place for _, place in shown], max(0, before - 1)

    # Showing values --------------------------------------------------------------------------------------

    def format_stack_entry(self, frame_lineno: Place, lprefix: str = ": ") -> str:
        frame, line = frame_lineno
        text = f"{shorten_path(frame.f_code.co_filename)}:{line} {frame.f_code.co_name}"
        if "__return__" in frame.f_locals:
            text += f" returns {self._format(frame.f_locals['__return__'])}"
        source = linecache.getline(frame.f_code.co_filename, line, frame.f_globals).strip()
        return f"{text}{lprefix}{source}" if source else text

    def _format(self, value: object, max_elements: int = FEW) -> str:
        try:
            return format_value(value, self.launch.tensors if self.launch else {}, max_elements)
        except Exception as error:  # a value of another form than expected; the session goes on
            return f"a {type(value).__name__} that cannot be shown: {error}"

    def _print_expression(self, text: str, max_elements: int = FEW) -> None:
        try:
            value = self._getval(text)
        except BaseException:  # _getval has printed the error
            return
        self.message(self._format(value, max_elements))

    def do_p(self, arg: str) -> None:
        """p expression

        Show a value: the numbers of a block, the position of a pointer in its tensor.
        """
        self._print_expression(arg)

    do_pp = do_p

    def do_v(self, arg: str) -> None:
        """v [expression]

        Show every value of the kernel; with an expression, all numbers of its block.
        """
        if arg:
            self._print_expression(arg, ALL)
            return
        for name, value in self.curframe_locals.items():
            if not name.startswith("__"):
                self.message(f"{name} = {self._format(value, _ELEMENTS_PER_LINE)}")

    def do_args(self, arg: str) -> None:
        """a(rgs)

        Show the arguments of the current function.
        """
        assert self.curframe is not None
        code = self.curframe.f_code
        for name in code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]:
            if name in self.curframe_locals:
                self.message(f"{name} = {self._format(self.curframe_locals[name])}")

    do_a = do_args

    def displayhook(self, obj: object) -> None:
        if obj is not None:
            self.message(self._format(obj))

    def do_run(self, arg: str) -> None:
        """run

        Not available: leave with q and repeat the command.
        """
        self.error("leave with q and repeat the command")

    do_restart = do_run
