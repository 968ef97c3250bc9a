"""A program under the profiler, unchanged: it sees what it would see if Python ran it.

Recording begins after the imports and definitions the program opens with: importing a library calls millions of
functions, and nobody's time goes there twice. A program that imports torch later is recorded from there on: what it
sets before is for torch to find. A process the program forks or starts is not recorded.
"""

from __future__ import annotations

import ast
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
from typing import Any

import kernellab.collecting.watch  # noqa: F401  here, so that it costs the program no time once it runs
from kernellab.collecting.imported import once_imported
from kernellab.collecting.leaving import Terminated, held
from kernellab.collecting.opening import length
from kernellab.collecting.schedule import COLLECTED, Schedule
from kernellab.errors import UserError

_WARM, _RECORDED = 3, 20  # steps, of a program that has them


def main() -> None:
    """The program's process: `sys.argv` holds what is asked, then the program's own command line."""
    asked: dict[str, Any] = json.loads(sys.argv[1])
    words = sys.argv[2:]
    if asked["module"]:
        module, code = _module(words[0])
        sys.argv = [module.__file__ or words[0], *words[1:]]
    else:
        module, code = _script(words[0])
        sys.argv = words
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


def _script(path: str) -> tuple[types.ModuleType, list[types.CodeType]]:
    """As `python FILE` does: the file's folder comes first on the path, links followed."""
    module = types.ModuleType("__main__")
    module.__file__ = full = os.path.abspath(path)  # noqa: PTH100  links are kept
    module.__loader__ = importlib.machinery.SourceFileLoader("__main__", full)
    module.__dict__["__cached__"] = None
    if not sys.flags.safe_path:
        sys.path.insert(0, str(Path(path).resolve().parent))
    return module, _parts(Path(path).read_bytes(), full)


def _module(name: str) -> tuple[types.ModuleType, list[types.CodeType]]:
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
    return module, _parts(Path(spec.origin).read_bytes(), spec.origin)


def _parts(source: bytes, path: str) -> list[types.CodeType]:
    """The program's opening, and everything after it: one after the other they are the program."""
    try:
        tree = ast.parse(source, path)
        compile(tree, path, "exec", dont_inherit=True)  # some mistakes are found no earlier
    except SyntaxError as error:
        sys.excepthook(type(error), error.with_traceback(None), None)
        sys.exit(1)
    opens = length(tree.body)
    opening = compile(ast.Module(tree.body[:opens], []), path, "exec", dont_inherit=True)
    # `from __future__ import …` stands in the opening, and holds for the rest.
    rest = compile(ast.Module(tree.body[opens:], []), path, "exec", flags=_futures(tree), dont_inherit=True)
    return [opening, rest]


def _futures(tree: ast.Module) -> int:
    import __future__

    named = [
        alias.name
        for statement in tree.body
        if isinstance(statement, ast.ImportFrom) and statement.module == "__future__"
        for alias in statement.names
    ]
    return sum({getattr(__future__, name).compiler_flag for name in named})


def _run(asked: dict[str, Any], module: types.ModuleType, code: list[types.CodeType]) -> Any:
    """What the program leaves for an exit code."""
    process = os.getpid()
    recording = _Recording(asked)
    terminated = Terminated(lambda: recording.end("SIGTERM"))
    ended = None
    try:
        opening, rest = code
        exec(opening, module.__dict__)
        recording.begin()
        exec(rest, module.__dict__)
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
    """Of a program, from the moment on that it has torch."""

    def __init__(self, asked: dict[str, Any]) -> None:
        self._asked = asked
        self._process = os.getpid()
        self._stop: Callable[[str | None], None] | None = None
        self._give_up: Callable[[], None] = lambda: None
        self._nothing = "the program ended among the imports and definitions it opens with: nothing was recorded"

    def begin(self) -> None:
        self._nothing = "the program never imported torch: nothing was recorded"
        self._give_up = once_imported("torch", self._begin)

    def _begin(self) -> None:
        if os.getpid() != self._process:
            return
        if threading.current_thread() is threading.main_thread():
            self._stop = _started(self._asked)
        else:
            self._nothing = "the program imported torch in another thread than its main one: nothing was recorded"

    def end(self, why: str | None) -> None:
        """`why` the program ended before its own end, where it did."""
        self._give_up()
        with held(again=False):  # who is impatient now would lose it all
            if self._stop is not None:
                self._stop(why)
            else:
                name = self._asked["name"]
                _leave(self._asked, {"name": name, "traces": [], "steps": [], "notes": [self._nothing], "ended": why})


def _started(asked: dict[str, Any]) -> Callable[[str | None], None]:
    """Begin recording; returns what ends it and says what there is."""
    from kernellab.collecting import steps
    from kernellab.collecting.session import How, Session

    folder, rank = Path(asked["folder"]), os.environ.get("RANK")
    session = Session(
        folder,
        asked["name"] + (f"-rank{rank}" if rank else ""),
        schedule=Schedule(**asked["schedule"]) if asked["schedule"] else None,
        once_stepping=Schedule(_WARM, 0, _RECORDED),
        limit_s=asked["seconds"],
        memory_bytes=asked["memory_bytes"],
        how=How(**asked["how"]),
        yields=True,
        script=sys.modules["__main__"].__file__,
    )
    followed = steps.Following()
    try:
        session.start()
    except UserError:  # the program goes on all the same
        session.notes.append("the program has a profiler of its own, begun among its imports: nothing was recorded")

    def stop(why: str | None) -> None:
        followed.remove()
        session.stop()
        _leave(asked, {**session.to_json(), "ended": why})

    return stop


def _leave(asked: dict[str, Any], session: dict[str, Any]) -> None:
    """For whoever has started this process."""
    folder, rank = Path(asked["folder"]), int(os.environ.get("RANK", "0"))
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{rank}{COLLECTED}").write_text(json.dumps([{**session, "rank": rank}]))


if __name__ == "__main__":
    if not sys.flags.safe_path:
        del sys.path[0]  # the working directory, which `python -m` puts there
    main()
