"""Told when the program imports a module: until then nothing of ours may import it, or the program's settings for it
would come too late."""

from __future__ import annotations

import functools
import importlib.util
import sys
from collections.abc import Callable, Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any


def once_imported(name: str, call: Callable[[], None]) -> Callable[[], None]:
    """Call it once the module's own code has run, at once where it has already. Returns what gives up waiting."""
    if name in sys.modules:
        call()
        return lambda: None
    finder = _Finder(name, call)
    sys.meta_path.insert(0, finder)
    return finder.remove


class _Finder:
    """Finds what the others find, and leaves the module as it would be without."""

    def __init__(self, name: str, call: Callable[[], None]) -> None:
        self._name, self._call = name, call

    def remove(self) -> None:
        if self in sys.meta_path:
            sys.meta_path.remove(self)

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name != self._name or self not in sys.meta_path:
            return None
        sys.meta_path.remove(self)  # the others are asked
        spec = importlib.util.find_spec(name)
        if spec is None or spec.loader is None:
            sys.meta_path.insert(0, self)  # it may be found yet, once the path is another
            return spec
        loader: Any = spec.loader
        execute = loader.exec_module

        @functools.wraps(execute)
        def executed(module: ModuleType) -> None:
            del loader.exec_module
            try:
                execute(module)
            except BaseException:
                sys.meta_path.insert(0, self)
                raise
            self._call()

        loader.exec_module = executed
        return spec
