"""Calls a function when a module is imported, without importing that module.

Two uses need this. The profiler must not import torch before the profiled program does, because the program's settings
for torch would then come too late. Compilers are hooked only in processes that import them, because importing one
takes seconds.
"""

from __future__ import annotations

import functools
import sys
import threading
from collections.abc import Callable, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

Action = Callable[[ModuleType], object]


def call_after_import(name: str, action: Action) -> Callable[[], None]:
    """Call `action(module)` once, after the module's code has run; at once if the module is already imported.

    An import that fails does not count: the action waits for the next one. Returns a function that cancels the action.
    """
    module = sys.modules.get(name)
    if module is None:
        _finder.add(name, action)
    else:
        action(module)
    return functools.partial(_finder.discard, name, action)


class _Finder(MetaPathFinder):
    """Returns the spec of the other finders, with a loader that calls the actions after the module's code.

    It is on `sys.meta_path` only while actions wait, and leaves nothing behind in the imported modules.
    """

    def __init__(self) -> None:
        self._waiting: dict[str, list[Action]] = {}
        self._searching = threading.local()  # .name: the module being searched for

    def add(self, name: str, action: Action) -> None:
        self._waiting.setdefault(name, []).append(action)
        if self not in sys.meta_path:
            sys.meta_path.insert(0, self)

    def discard(self, name: str, action: Action) -> None:
        actions = self._waiting.get(name, [])
        if action in actions:
            actions.remove(action)
        if not actions:
            self._forget(name)

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        # Another finder may ask all finders in turn, this one included.
        if fullname not in self._waiting or getattr(self._searching, "name", None) == fullname:
            return None
        self._searching.name = fullname
        try:
            others = [finder for finder in sys.meta_path if finder is not self]
            specs = (finder.find_spec(fullname, path, target) for finder in others)
            spec = next((spec for spec in specs if spec is not None), None)
        finally:
            self._searching.name = None
        if spec is not None and spec.loader is not None:
            self._call_actions_after(spec.loader, fullname)
        return spec

    def _call_actions_after(self, loader: Loader, name: str) -> None:
        execute = loader.exec_module

        @functools.wraps(execute)
        def execute_and_call(module: ModuleType) -> None:
            del loader.exec_module  # from the instance, so that the method of the class applies again
            execute(module)
            for action in self._forget(name):
                action(module)

        loader.exec_module = execute_and_call  # type: ignore[method-assign]

    def _forget(self, name: str) -> list[Action]:
        actions = self._waiting.pop(name, [])
        if not self._waiting and self in sys.meta_path:
            sys.meta_path.remove(self)
        return actions


_finder = _Finder()
