"""kernellab's own code, the clocks and Python's built-in functions, compared with what they were before op files ran.

An op file can replace any function of its process while it is loaded, or later. What is replaced after the snapshot is
put back and named. An implementation that replaced it is wrong; so are all implementations of a file that did so while
it was loaded.
"""

from __future__ import annotations

import builtins
import contextlib
import functools
import inspect
import json
import operator
import random
import secrets
import statistics
import sys
import time
import types
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import cast

import torch

from kernellab.running.worker.guards.operators import Operators

# The shipped ops are op files. The profiler's session rebinds names while it runs.
_FOREIGN = ("kernellab.ops", "kernellab.profiler")
_CUDA_NAMES = ("Event", "Stream", "CUDAGraph", "synchronize", "current_stream")
# Libraries replace these for reasons of their own, and no verdict depends on them.
_FREE_BUILTINS = {
    "__import__",
    "breakpoint",
    "copyright",
    "credits",
    "exit",
    "help",
    "input",
    "license",
    "open",
    "print",
    "quit",
}
_CLASS_BOOKKEEPING = {"__dict__", "__weakref__", "__abstractmethods__", "__annotations__", "__doc__", "_abc_impl"}
_Part = tuple[object, ...]


@dataclass(frozen=True)
class _Name:
    """A name of a module or a class, and its value. `names` is a live view of the namespace."""

    label: str
    owner: object
    names: Mapping[str, object]
    name: str
    value: object

    def is_intact(self) -> bool:
        return self.names.get(self.name) is self.value

    def restore(self) -> None:
        setattr(self.owner, self.name, self.value)


@dataclass(frozen=True)
class _Code:
    """What a Python function executes. It can be changed without replacing the function."""

    label: str
    function: types.FunctionType
    parts: _Part
    cells: _Part

    def is_intact(self) -> bool:
        return all(map(_is_same, _parts(self.function), self.parts)) and all(
            map(_is_same, _cells(self.function), self.cells)
        )

    def restore(self) -> None:
        code, defaults, keyword_defaults = self.parts
        self.function.__code__ = cast(types.CodeType, code)
        self.function.__defaults__ = cast("tuple[object, ...] | None", defaults)
        self.function.__kwdefaults__ = cast("dict[str, object]", keyword_defaults)
        for cell, content in zip(self.function.__closure__ or (), self.cells, strict=True):
            if content is not _EMPTY:
                cell.cell_contents = content


@dataclass(frozen=True)
class _Table:
    """A dictionary of functions or classes in a module, such as the table of timers."""

    label: str
    table: dict[object, object]
    entries: dict[object, object]

    def is_intact(self) -> bool:
        if len(self.table) != len(self.entries):
            return False
        # First in the order in which they are: looking keys up takes long, because operators of torch hash slowly.
        if all(map(_is_same, self.table, self.entries)):
            return all(map(_is_same, self.table.values(), self.entries.values()))
        return all(self.table.get(key) is value for key, value in self.entries.items())

    def restore(self) -> None:
        self.table.clear()
        self.table.update(self.entries)


@dataclass(frozen=True)
class _ClassNames:
    """The names of a class. Replacing what a class inherits adds a name to it."""

    label: str
    class_: type
    names: frozenset[str]

    def is_intact(self) -> bool:
        return len(vars(self.class_)) <= len(self.names) or not self._added()

    def restore(self) -> None:
        for name in self._added():
            delattr(self.class_, name)

    def _added(self) -> list[str]:
        added = vars(self.class_).keys() - self.names
        return [name for name in added if any(name in vars(base) for base in self.class_.__mro__[1:])]


_is_same = operator.is_  # bound before an op file can replace it
_EMPTY = object()  # the content of a cell that has none yet
_Item = _Name | _Code | _Table | _ClassNames


class Integrity:
    """A snapshot of the code that measures and judges; made before an op file is executed.

    `replaced_at_load` names what the file replaced of it while it was loaded: its implementations are wrong.
    `restored_at_load` names functions of torch that the file replaced. They were put back, which is noted. `operators`
    are compared less often, because that takes longer.
    """

    def __init__(self) -> None:
        self.replaced_at_load: tuple[str, ...] = ()
        self.restored_at_load: tuple[str, ...] = ()
        self.operators = Operators()
        self._modules = {name: module for name, module in sys.modules.items() if _is_own(name)}
        items = [item for module in self._modules.values() for item in _module_items(module)]
        items += _names("time", time, lambda name, value: callable(value))
        items += _names("builtins", builtins, lambda name, value: callable(value) and name not in _FREE_BUILTINS)
        items += _names("torch.cuda", torch.cuda, lambda name, value: name in _CUDA_NAMES)
        for module in (json, statistics, random, secrets, contextlib):
            items += _names(module.__name__, module, lambda name, value: callable(value))
        classes = {
            "torch.cuda.Event": torch.cuda.Event,
            "torch.cuda.Stream": torch.cuda.Stream,
            "json.JSONEncoder": json.JSONEncoder,
            "random.Random": random.Random,
        }
        for label, class_ in classes.items():
            items += _class_items(label, class_)
        self._items: tuple[_Item, ...] = tuple(items)
        # The same without calls, for speed: this is asked after every trial.
        self._values = [(item.names, item.name, item.value) for item in items if isinstance(item, _Name)]
        codes = [item for item in items if isinstance(item, _Code)]
        self._codes = [(item.function, item.parts) for item in codes]
        self._contents = [
            pair for item in codes for pair in zip(item.function.__closure__ or (), item.cells, strict=True)
        ]
        self._others = [item for item in items if not isinstance(item, (_Name, _Code))]

    @property
    def load_problem(self) -> str | None:
        """Why no implementation of the loaded file is right, if that is so."""
        if not self.replaced_at_load:
            return None
        return (
            f"its file replaced {self.replaced_at_load[0]} while it was loaded: no time or verdict of it can be trusted"
        )

    def restore(self, *objects: object) -> list[str]:
        """Undo every replacement; the names of what had been replaced. Takes about a millisecond.

        An attribute of one of `objects` that hides a method of its class counts too.
        """
        replaced = [name for owner in objects for name in _remove_hiding_attributes(owner)]
        for name, module in self._modules.items():
            if sys.modules.get(name) is not module:
                replaced.append(name)
                sys.modules[name] = module
        for item in self._items if not self._is_intact() else ():
            if not item.is_intact():
                replaced.append(item.label)
                item.restore()
        return replaced

    def _is_intact(self) -> bool:
        for names, name, value in self._values:
            if names.get(name) is not value:
                return False
        for function, (code, defaults, keyword_defaults) in self._codes:
            if function.__code__ is not code or function.__defaults__ is not defaults:
                return False
            if function.__kwdefaults__ is not keyword_defaults:
                return False
        for cell, content in self._contents:
            if _content(cell) is not content:
                return False
        return all(item.is_intact() for item in self._others)


def _remove_hiding_attributes(owner: object) -> list[str]:
    class_ = type(owner)
    hiding = [name for name in vars(owner) if inspect.isroutine(inspect.getattr_static(class_, name, None))]
    for name in hiding:
        delattr(owner, name)
    return [f"{class_.__module__}.{class_.__qualname__}.{name}" for name in hiding]


def _is_own(name: str) -> bool:
    return (name == "kernellab" or name.startswith("kernellab.")) and not name.startswith(_FOREIGN)


def _names(label: str, owner: object, wanted: Callable[[str, object], bool]) -> Iterator[_Name]:
    names = vars(owner)
    for name, value in names.items():
        if value is not None and wanted(name, value):  # None: what is made when it is first needed
            yield _Name(f"{label}.{name}", owner, names, name, value)


def _class_items(label: str, class_: type) -> Iterator[_Item]:
    yield from _names(label, class_, lambda name, value: name not in _CLASS_BOOKKEEPING)
    yield _ClassNames(label, class_, frozenset(vars(class_)))


def _module_items(module: types.ModuleType) -> Iterator[_Item]:
    """A module's names; the names of its classes; the code of its functions; its tables of functions."""
    label = module.__name__
    yield from _names(label, module, lambda name, value: not name.startswith("__"))
    for name, value in list(vars(module).items()):
        if inspect.isclass(value) and value.__module__ == label:
            yield from _class_items(f"{label}.{name}", value)
            for attribute, member in vars(value).items():
                yield from _code(f"{label}.{name}.{attribute}", member, label)
        else:
            yield from _code(f"{label}.{name}", value, label)
        if isinstance(value, dict) and value and all(map(callable, value.values())):
            yield _Table(f"{label}.{name}", value, dict(value))


def _code(label: str, value: object, module: str) -> Iterator[_Code]:
    """The code of a function, and of the functions that it wraps or that make up a property."""
    match value:
        case staticmethod() | classmethod():
            wrapped: tuple[object, ...] = (value.__func__,)
        case property():
            wrapped = (value.fget, value.fset)
        case functools.cached_property():
            wrapped = (value.func,)
        case types.FunctionType():
            wrapped = (getattr(value, "__wrapped__", None),)
            if value.__module__ == module:
                yield _Code(label, value, _parts(value), _cells(value))
        case _:
            return
    for function in wrapped:
        yield from _code(label, function, module)


def _parts(function: types.FunctionType) -> _Part:
    return function.__code__, function.__defaults__, function.__kwdefaults__


def _cells(function: types.FunctionType) -> _Part:
    return tuple(_content(cell) for cell in function.__closure__ or ())


def _content(cell: types.CellType) -> object:
    try:
        return cell.cell_contents
    except ValueError:
        return _EMPTY
