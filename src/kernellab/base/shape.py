"""Compares a JSON document with its declared type, and describes the first difference in a sentence.

Unknown fields are ignored, because a newer version of kernellab may have written them.
"""

from __future__ import annotations

import functools
import types
import typing
from collections.abc import Iterable, Mapping
from typing import Annotated, Literal, NamedTuple, NotRequired, Required, Union, get_args, get_origin

from kernellab.base.json import JsonValue


def difference(value: object, declared: object, where: str = "") -> str | None:
    """How `value` differs from the declared type, as in "results[2] has no `case`"; None if it does not."""
    kind, declared, arguments, exact = _kind(declared)
    if type(value) in exact:
        return None
    if kind == "document":
        return _difference_in_document(value, typing.cast(type, declared), where)
    if kind == "union":
        return _difference_in_union(value, arguments, where)
    if kind == "list":
        return _difference_in_list(value, arguments[0], where)
    if kind == "mapping":
        return _difference_in_mapping(value, arguments[1], where)
    if isinstance(declared, type) and not _is_scalar(value, declared):
        return f"{where} is {_describe(value)}, not {_NAMES.get(declared, declared.__name__)}"
    return None  # a forward reference to any JSON value


class _Kind(NamedTuple):
    """Which of the comparisons is for a declared type; the type without its description, and its arguments."""

    name: Literal["document", "union", "list", "mapping", "scalar"]
    declared: object
    arguments: tuple[object, ...] = ()
    exact: frozenset[type] = frozenset()  # values of exactly these types need no closer look


_EXACT: dict[object, frozenset[type]] = {
    str: frozenset({str}),
    int: frozenset({int}),
    float: frozenset({float, int}),
    bool: frozenset({bool}),
    type(None): frozenset({type(None)}),
}


@functools.cache  # the same few types are asked for at every value of a document
def _kind(declared: object) -> _Kind:
    declared = _plain(declared)
    if typing.is_typeddict(declared):
        return _Kind("document", declared)
    origin, arguments = get_origin(declared), get_args(declared)
    if origin in (Union, types.UnionType):
        exact = frozenset().union(*(_EXACT.get(_plain(choice), frozenset()) for choice in arguments))
        return _Kind("union", declared, arguments, exact)
    if origin is list:
        return _Kind("list", declared, arguments)
    if origin is dict:
        return _Kind("mapping", declared, arguments)
    return _Kind("scalar", declared, exact=_EXACT.get(declared, frozenset()))


@functools.cache
def fields(document: type) -> Mapping[str, object]:
    """The fields of a TypedDict or dataclass with their declared types."""
    # `JsonValue` refers to itself by name, and a module that uses it need not have imported that name.
    return typing.get_type_hints(document, localns={"JsonValue": JsonValue}, include_extras=True)


def is_required(document: type, key: str) -> bool:
    """Whether a TypedDict requires a field. `__required_keys__` is wrong where annotations are postponed."""
    return bool(getattr(document, "__total__", True)) and get_origin(fields(document)[key]) is not NotRequired


_NAMES: dict[type, str] = {str: "a string", int: "an integer", float: "a number", bool: "true or false"}


@functools.cache
def _fields_with_kinds(document: type) -> list[tuple[str, object, frozenset[type], bool]]:
    """Each field of a TypedDict: its type, the types of values that need no closer look, whether it is required."""
    return [
        (key, declared, _kind(declared).exact, is_required(document, key)) for key, declared in fields(document).items()
    ]


def _plain(declared: object) -> object:
    """A type without its description and without NotRequired."""
    while get_origin(declared) in (Annotated, NotRequired, Required):
        declared = get_args(declared)[0]
    return declared


def _is_scalar(value: object, declared: type) -> bool:
    if declared is float:
        return isinstance(value, (int, float)) and not isinstance(value, bool)
    if declared is int:
        return isinstance(value, int) and not isinstance(value, bool)
    return isinstance(value, declared)


def _difference_in_document(value: object, document: type, where: str) -> str | None:
    if not isinstance(value, dict):
        return f"{where} is {_describe(value)}, not an object"
    for key, declared, exact, required in _fields_with_kinds(document):
        if key not in value:
            if required:
                return f"{where or 'it'} has no `{key}`"
            continue
        if type(value[key]) in exact:
            continue
        problem = difference(value[key], declared, f"{where}.{key}" if where else key)
        if problem:
            return problem
    return None


def _difference_in_union(value: object, choices: tuple[object, ...], where: str) -> str | None:
    problems = []
    for choice in choices:
        problem = difference(value, choice, where)
        if problem is None:
            return None
        problems.append(problem)
    # "has no `case`" says more than "is an object, not null".
    return next((p for p, choice in zip(problems, choices, strict=True) if choice is not type(None)), problems[0])


def _difference_in_list(value: object, declared: object, where: str) -> str | None:
    if not isinstance(value, list):
        return f"{where} is {_describe(value)}, not a list"
    if _are_exact(value, declared):
        return None
    problems = (difference(entry, declared, f"{where}[{i}]") for i, entry in enumerate(value))
    return next((problem for problem in problems if problem), None)


def _difference_in_mapping(value: object, declared: object, where: str) -> str | None:
    if not isinstance(value, dict):
        return f"{where} is {_describe(value)}, not an object"
    if _are_exact(value.values(), declared):
        return None
    problems = (difference(entry, declared, f"{where}.{key}") for key, entry in value.items())
    return next((problem for problem in problems if problem), None)


def _are_exact(values: Iterable[object], declared: object) -> bool:
    """Whether none of the values, which may be thousands of samples, needs a closer look."""
    exact = _kind(declared).exact
    return bool(exact) and all(type(value) in exact for value in values)


def _describe(value: object) -> str:
    if value is None:
        return "null"
    return "an object" if isinstance(value, dict) else "a list" if isinstance(value, list) else repr(value)[:40]
