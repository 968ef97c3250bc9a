"""A program under the profiler, unchanged: it sees what it would see if Python ran it.

Recording begins when the program first works with tensors, imports aside: importing a library calls millions of
functions, and nobody's time goes there twice. Nothing of ours imports torch before the program does: what it sets
before is for torch to find. A process the program forks or starts is not recorded.
"""

from __future__ import annotations

import atexit
import importlib.machinery
import importlib.util
import json
import os
import sys
import threading
import types
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import kernellab.profiler.recording_limits  # noqa: F401  here, so that it costs the program no time once it runs
from kernellab.base.errors import UserError
from kernellab.base.import_hook import call_after_import
from kernellab.profiler.schedule import COLLECTED, Schedule
from kernellab.profiler.signals import Terminated, held

if TYPE_CHECKING:
    from kernellab.profiler.first_tensor import FirstWork

_WARM, _RECORDED = 3, 20  # steps, of a program that has them
_NO_STEPS = (
    "--schedule counts steps, and the program has none: no kl.step(), no optimizer. Nothing was recorded. End the "
    "loop's body with kl.step(), or leave --schedule out"
)
_LONG_S = 2.0  # before recording begins: from there on it is said


def main() -> None:
    """The program's process: `sys.argv` holds what is asked, then the program's own command line."""
    asked: dict[str, Any] = json.loads(sys.argv[1])
    words = sys.argv[2:]
    try:
        module, code = (_module if asked["module"] else _script)(words[0])
    except SystemExit:  # it is not there, or not Python's, and has said so
        _leave(asked, {**_no_trace(asked), "notes": ["nothing was recorded"]})
        raise
    sys.argv = [module.__file__ or words[0], *words[1:]] if asked["module"] else words
    sys.modules["__main__"] = module
    process = os.getpid()
    code_left = _run(asked, module, code)
    if os.getpid() != process:
        _leave_fork(code_left)
    sys.exit(code_left)


def _leave_fork(code: Any) -> None:
    """The end of a process the program has forked: what the profiler left in it must not be taken down."""
    atexit._run_exitfuncs()
    if code is not None and not isinstance(code, int):
        print(code, file=sys.stderr)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code if isinstance(code, int) else int(code is not None))


def _script(path: str) -> tuple[types.ModuleType, types.CodeType]:
    """As `python FILE` does: the file's folder comes first on the path, links followed."""
    module = types.ModuleType("__main__")
    module.__file__ = full = os.path.abspath(path)  # noqa: PTH100  links are kept
    module.__loader__ = importlib.machinery.SourceFileLoader("__main__", full)
    module.__dict__["__cached__"] = None
    if not sys.flags.safe_path:
        sys.path.insert(0, str(Path(path).resolve().parent))
    return module, _compiled(Path(path).read_bytes(), full)


def _module(name: str) -> tuple[types.ModuleType, types.CodeType]:
    """As `python -m NAME` does: the working directory comes first on the path, a package means its `__main__`."""
    if not sys.flags.safe_path:
        sys.path.insert(0, str(Path.cwd()))
    spec = importlib.util.find_spec(name)
    if spec is not None and spec.submodule_search_locations is not None:
        spec = importlib.util.find_spec(f"{name}.__main__")
    if spec is None or spec.origin is None:
        sys.exit(f"{sys.executable}: No module named {name}")
    module = types.ModuleType("__main__")
    module.__file__, module.__spec__, module.__package__ = spec.origin, spec, spec.parent
    module.__loader__ = spec.loader
    return module, _compiled(Path(spec.origin).read_bytes(), spec.origin)


def _compiled(source: bytes, path: str) -> types.CodeType:
    try:
        return compile(source, path, "exec", dont_inherit=True)
    except SyntaxError as error:
        sys.excepthook(type(error), error.with_traceback(None), None)
        sys.exit(1)


def _run(asked: dict[str, Any], module: types.ModuleType, code: types.CodeType) -> Any:
    """What the program leaves for an exit code."""
    process = os.getpid()
    recording = _Recording(asked)
    terminated = Terminated(lambda: recording.end("SIGTERM"))
    ended = None
    try:
        exec(code, module.__dict__)
    except SystemExit as leaving:
        return leaving.code
    except BaseException as error:
        own = error.__traceback__
        while own is not None and own.tb_frame.f_code.co_filename == __file__:
            own = own.tb_next
        sys.excepthook(type(error), error.with_traceback(own), own)
        interrupted = isinstance(error, KeyboardInterrupt)
        ended = "Ctrl-C" if interrupted else type(error).__name__
        return 130 if interrupted else 1
    finally:
        if os.getpid() == process:  # not in a process the program has forked
            recording.end(ended)
            terminated.remove()
    return 0


class _Recording:
    """Of a program, from the moment on that it works with tensors."""

    def __init__(self, asked: dict[str, Any]) -> None:
        self._asked = asked
        self._process = os.getpid()
        self._stop: Callable[[str | None], None] | None = None
        self._first: FirstWork | None = None
        self._thread = threading.main_thread()
        self._give_up = call_after_import("torch", self._imported)

    def _imported(self, _: types.ModuleType) -> None:
        self._thread = threading.current_thread()
        if os.getpid() != self._process or self._thread is not threading.main_thread():
            return
        import kernellab.profiler.steps  # noqa: F401  here, so that it costs the program no time once it works
        from kernellab.profiler.first_tensor import FirstWork

        self._first = FirstWork(self._begin)

    def _begin(self) -> None:
        assert self._first is not None
        self._stop = _started(self._asked, self._first.seconds or 0.0)

    def _nothing(self) -> str:
        """Why nothing was recorded."""
        if self._thread is not threading.main_thread():
            return "the program imported torch in another thread than its main one"
        if self._first is None:
            return "the program never imported torch"
        if self._first.among_imports:
            return "the program worked with tensors only in modules it imports: profile those"
        return "the program never worked with tensors in its main thread"

    def end(self, why: str | None) -> None:
        """`why` the program ended before its own end, where it did."""
        self._give_up()
        if self._first is not None:
            self._first.give_up()
        with held(again=False):  # who is impatient now would lose it all
            if self._stop is not None:
                self._stop(why)
            else:
                notes = [f"{self._nothing()}. Nothing was recorded"]
                _leave(self._asked, {**_no_trace(self._asked), "ended": why, "notes": notes})


def _started(asked: dict[str, Any], after_s: float) -> Callable[[str | None], None]:
    """Begin recording, so long after torch was imported; returns what ends it and says what there is."""
    from kernellab.profiler import steps
    from kernellab.profiler.session import How, Session

    folder, rank = Path(asked["folder"]), os.environ.get("RANK")
    own = getattr(sys.modules["__main__"], "__file__", None)
    session = Session(
        folder,
        asked["name"] + (f"-rank{rank}" if rank else ""),
        schedule=Schedule(**asked["schedule"]) if asked["schedule"] else None,
        once_stepping=Schedule(_WARM, 0, _RECORDED),
        limit_s=asked["seconds"],
        memory_bytes=asked["memory_bytes"],
        how=How(**asked["how"]),
        yields=True,
        script=own,
    )
    followed, begun = steps.Following(), True
    try:
        session.start()
    except UserError:  # the program goes on all the same
        begun = False
        session.notes.append("the program has a profiler of its own, begun before it works: nothing was recorded")
    name = Path(own or "").name
    if not name.isascii():
        session.notes.append(f"PyTorch records no Python of files whose names are not ASCII: of {name} nothing is said")
    if after_s > _LONG_S:
        session.notes.append(f"recording began with the first tensor, {after_s:.2g} s after torch was imported")

    def stop(why: str | None) -> None:
        followed.remove()
        session.stop()
        if begun and session.schedule and not session.traces and not steps.known(session):
            session.notes.append(_NO_STEPS)
        _leave(asked, {**session.to_json(), "ended": why})

    return stop


def _no_trace(asked: dict[str, Any]) -> dict[str, Any]:
    return {"name": asked["name"], "traces": [], "steps": []}


def _leave(asked: dict[str, Any], session: dict[str, Any]) -> None:
    """For whoever has started this process."""
    folder, rank = Path(asked["folder"]), int(os.environ.get("RANK", "0"))
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{rank}{COLLECTED}").write_text(json.dumps([{**session, "rank": rank}]))


if __name__ == "__main__":
    if not sys.flags.safe_path:
        del sys.path[0]  # the working directory, which `python -m` puts there
    main()
