"""Runs a script or module under the profiler, unchanged: it finds everything as if Python ran it directly.

Recording begins when the program first works with tensors outside of imports: importing a library calls millions of
functions, and that time is spent once. kernellab does not import torch before the program does, so settings that the
program makes before that still take effect. Processes that the program forks or starts are not recorded.
"""

from __future__ import annotations

import atexit
import importlib.machinery
import importlib.util
import json
import os
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import CodeType, ModuleType
from typing import TYPE_CHECKING

import kernellab.profiler.recording_limits  # noqa: F401  here, so that importing it costs the running program no time
from kernellab.base.errors import UserError
from kernellab.base.import_hook import call_after_import
from kernellab.profiler.protocol import ScriptRequest, SessionReport, write_reports
from kernellab.profiler.schedule import Schedule
from kernellab.profiler.signals import SigtermHandler, defer_signals

if TYPE_CHECKING:
    from kernellab.profiler.first_tensor import FirstTensorWork

ExitCode = str | int | None  # as sys.exit takes it

_WARMUP_STEPS, _RECORDED_STEPS = 3, 20  # of a program that has steps
_NO_STEPS = (
    "--schedule counts steps, and the program has none: it calls neither kl.step() nor an optimizer. Nothing was "
    "recorded. Call kl.step() at the end of the loop's body, or leave --schedule out"
)
_LONG_S = 2.0  # if more time passes before recording begins, a note says so


def main() -> None:
    """`sys.argv` holds the request, then the program's own command line."""
    request: ScriptRequest = json.loads(sys.argv[1])
    words = sys.argv[2:]
    try:
        module, code = (_load_module if request["module"] else _load_script)(words[0])
    except SystemExit:  # not found, or not Python: the reason has been printed
        _write_report(request, {**_empty_report(request), "notes": ["nothing was recorded"]})
        raise
    sys.argv = [module.__file__ or words[0], *words[1:]] if request["module"] else words
    sys.modules["__main__"] = module
    process = os.getpid()
    exit_code = _run(request, module, code)
    if os.getpid() != process:
        _exit_fork(exit_code)
    sys.exit(exit_code)


def _exit_fork(exit_code: ExitCode) -> None:
    """End a process that the program has forked, without tearing down the profiler's state in it."""
    atexit._run_exitfuncs()
    if exit_code is not None and not isinstance(exit_code, int):
        print(exit_code, file=sys.stderr)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(exit_code if isinstance(exit_code, int) else int(exit_code is not None))


def _load_script(path: str) -> tuple[ModuleType, CodeType]:
    """Load as `python FILE` does: the file's folder comes first on the path, symbolic links resolved."""
    module = ModuleType("__main__")
    module.__file__ = full = os.path.abspath(path)  # noqa: PTH100  symbolic links are kept
    module.__loader__ = importlib.machinery.SourceFileLoader("__main__", full)
    module.__dict__["__cached__"] = None
    if not sys.flags.safe_path:
        sys.path.insert(0, str(Path(path).resolve().parent))
    return module, _compile(Path(path).read_bytes(), full)


def _load_module(name: str) -> tuple[ModuleType, CodeType]:
    """Load as `python -m NAME` does: the working directory comes first on the path; a package runs its `__main__`."""
    if not sys.flags.safe_path:
        sys.path.insert(0, str(Path.cwd()))
    spec = importlib.util.find_spec(name)
    if spec is not None and spec.submodule_search_locations is not None:
        spec = importlib.util.find_spec(f"{name}.__main__")
    if spec is None or spec.origin is None:
        sys.exit(f"{sys.executable}: No module named {name}")
    module = ModuleType("__main__")
    module.__file__, module.__spec__, module.__package__ = spec.origin, spec, spec.parent
    module.__loader__ = spec.loader
    return module, _compile(Path(spec.origin).read_bytes(), spec.origin)


def _compile(source: bytes, path: str) -> CodeType:
    try:
        return compile(source, path, "exec", dont_inherit=True)
    except SyntaxError as error:
        sys.excepthook(type(error), error.with_traceback(None), None)
        sys.exit(1)


def _run(request: ScriptRequest, module: ModuleType, code: CodeType) -> ExitCode:
    """Execute the program and return its exit code."""
    process = os.getpid()
    recording = _ScriptRecording(request)
    sigterm = SigtermHandler(lambda: recording.end("SIGTERM"))
    ended_by = None
    try:
        exec(code, module.__dict__)
    except SystemExit as leaving:
        return leaving.code
    except BaseException as error:
        frames = error.__traceback__
        while frames is not None and frames.tb_frame.f_code.co_filename == __file__:
            frames = frames.tb_next
        sys.excepthook(type(error), error.with_traceback(frames), frames)
        interrupted = isinstance(error, KeyboardInterrupt)
        ended_by = "Ctrl-C" if interrupted else type(error).__name__
        return 130 if interrupted else 1
    finally:
        if os.getpid() == process:  # not in a process that the program has forked
            recording.end(ended_by)
            sigterm.remove()
    return 0


class _ScriptRecording:
    """The recording of a program, which begins when the program first works with tensors."""

    def __init__(self, request: ScriptRequest) -> None:
        self._request = request
        self._process = os.getpid()
        self._stop: Callable[[str | None], None] | None = None
        self._first_work: FirstTensorWork | None = None
        self._importing_thread = threading.main_thread()
        self._cancel_import_hook = call_after_import("torch", self._torch_imported)

    def end(self, ended_by: str | None) -> None:
        """End the recording; `ended_by`: what ended the program early, if anything did."""
        self._cancel_import_hook()
        if self._first_work is not None:
            self._first_work.cancel()
        with defer_signals(deliver=False):  # a second Ctrl-C here would lose the whole recording
            if self._stop is not None:
                self._stop(ended_by)
            else:
                notes = [f"{self._why_nothing()}. Nothing was recorded"]
                _write_report(self._request, {**_empty_report(self._request), "ended": ended_by, "notes": notes})

    def _torch_imported(self, _: ModuleType) -> None:
        self._importing_thread = threading.current_thread()
        if os.getpid() != self._process or self._importing_thread is not threading.main_thread():
            return
        import kernellab.profiler.steps  # noqa: F401  here, so that importing it costs the program no time later
        from kernellab.profiler.first_tensor import FirstTensorWork

        self._first_work = FirstTensorWork(self._begin)

    def _begin(self) -> None:
        assert self._first_work is not None
        self._stop = start_recording(self._request, self._first_work.seconds or 0.0)

    def _why_nothing(self) -> str:
        if self._importing_thread is not threading.main_thread():
            return "the program imported torch outside its main thread"
        if self._first_work is None:
            return "the program never imported torch"
        if self._first_work.seen_in_imports:
            return "the program worked with tensors only in modules it imports: profile those"
        return "the program never worked with tensors in its main thread"


def start_recording(request: ScriptRequest, seconds_since_import: float) -> Callable[[str | None], None]:
    """Begin recording. Returns a function that ends it and writes the report, given what ended the program early."""
    from kernellab.profiler.recording import RecordingOptions
    from kernellab.profiler.session import Session
    from kernellab.profiler.steps import StepDetector, has_steps

    rank = os.environ.get("RANK")
    script = getattr(sys.modules["__main__"], "__file__", None)
    session = Session(
        Path(request["folder"]),
        request["name"] + (f"-rank{rank}" if rank else ""),
        schedule=Schedule(**request["schedule"]) if request["schedule"] else None,
        once_stepping=Schedule(_WARMUP_STEPS, 0, _RECORDED_STEPS),
        limit_s=request["seconds"],
        memory_bytes=request["memory_bytes"],
        options=RecordingOptions(**request["how"]),
        interruptible=True,
        script=script,
    )
    detector, started = StepDetector(), True
    try:
        session.start()
    except UserError:  # the program still runs
        started = False
        session.notes.append(
            "the program started a profiler of its own before it worked with tensors: nothing was recorded"
        )
    name = Path(script or "").name
    if not name.isascii():
        session.notes.append(f"PyTorch records no Python calls of files whose names are not ASCII, such as {name}")
    if seconds_since_import > _LONG_S:
        session.notes.append(
            f"recording began with the first tensor, {seconds_since_import:.2g} s after torch was imported"
        )

    def stop(ended_by: str | None) -> None:
        detector.remove()
        session.stop()
        if started and session.schedule and not session.traces and not has_steps(session):
            session.notes.append(_NO_STEPS)
        _write_report(request, {**session.report(), "ended": ended_by})

    return stop


def _empty_report(request: ScriptRequest) -> SessionReport:
    return {"name": request["name"], "traces": [], "steps": [], "notes": []}


def _write_report(request: ScriptRequest, report: SessionReport) -> None:
    report["rank"] = rank = int(os.environ.get("RANK", "0"))
    write_reports(Path(request["folder"]), rank, [report])


if __name__ == "__main__":
    if not sys.flags.safe_path:
        del sys.path[0]  # the working directory, which `python -m` puts there
    main()
