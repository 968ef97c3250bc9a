"""What can be declared: each mistake in a declaration is refused in a sentence that says what to write instead.

Only the form is looked at; whether what is declared is true is for the checks to find out.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

from kernellab.base.errors import UserError, nearest
from kernellab.declaration.arguments import Arg
from kernellab.declaration.case import ELLIPSIS, parse_dtype


def name_of(name: Any, reference: Any) -> str:
    """What the op is called; its reference is looked at first, as everything else is read from it."""
    if name is not None and not isinstance(name, str):
        raise UserError(f"an op cannot be named {name!r}: its name is a string")
    if not (inspect.isfunction(reference) or inspect.ismethod(reference)):
        called = f"op {name}" if name else "an op"
        what = getattr(reference, "__name__", None) or f"a {type(reference).__name__}"
        raise UserError(f"{called}: its reference, {what}, is no plain Python function: write one that calls it")
    return name or reference.__name__


def known(op: str, declared: Iterable[str], parameters: Collection[str]) -> None:
    for word in declared:
        if word not in parameters:
            raise UserError(f"op {op}: there is no {word}= to declare: {nearest(word, parameters)}")


def function(whose: str, what: str, value: Any) -> None:
    if value is not None and not callable(value):
        raise UserError(f"{whose}: {what}= is {value!r}: write a function, for example {what}=lambda case: case.N > 0")


def names(whose: str, what: str, value: Any, example: str) -> tuple[str, ...]:
    """A list of names. A lone string is taken for a mistake: it would be read letter by letter."""
    if isinstance(value, str) or not isinstance(value, Iterable):
        written = value if isinstance(value, str) else example
        raise UserError(f"{whose}: {what}={value!r} is no list: write {what}=[{written!r}]")
    return tuple(value)


def words(op: str, what: str, value: Any) -> tuple[str, ...]:
    if not isinstance(value, str):
        listed = isinstance(value, Iterable)
        example = " ".join(map(str, value)) if listed else "N"
        raise UserError(f"op {op}: {what}={value!r} is no string: write dims apart, {what}={example!r}")
    return tuple(value.split())


def dtypes(op: str, value: Any) -> tuple[str, ...]:
    found = names(f"op {op}", "dtypes", value, "float32")
    try:
        return tuple(dict.fromkeys(map(parse_dtype, found)))
    except UserError as error:
        raise UserError(f"op {op}: dtypes=: {error.message}") from None


def described(op: str, args: Any) -> dict[str, Arg]:
    for name, arg in _mapping(op, "args", args, 'x=kl.tensor("M N")').items():
        if not isinstance(arg, Arg):
            written = f"kl.tensor({arg!r})" if isinstance(arg, str) else 'kl.tensor("M N")'
            raise UserError(f"op {op}: args= describes {name} by {arg!r}: write {name}={written}")
    return dict(args)


def listed(op: str, options: Any, keywords: Collection[str]) -> dict[str, list[Any]]:
    found = {}
    for option, values in _mapping(op, "options", options, 'mode=["a", "b"]').items():
        if option not in keywords:
            raise UserError(f"op {op}: option {option} is not a keyword-only parameter of the function")
        if isinstance(values, str) or not isinstance(values, Iterable):
            raise UserError(f"op {op}: option {option} is {values!r}: list its values, {option}=[{values!r}]")
        found[option] = list(values)
        if not found[option]:
            raise UserError(f"op {op}: option {option} lists no values")
    return found


def sized(op: str, dims: Any, known_dims: Collection[str]) -> dict[str, str | int]:
    """Sizes that dims have unless they are given: a number, or another dim's."""
    found: dict[str, str | int] = {}
    named = [dim for dim in known_dims if dim != ELLIPSIS]
    for dim, size in _mapping(op, "dims", dims, 'Hk="H"').items():
        _is_a_dim(op, dim, known_dims)
        if isinstance(size, str):
            if size not in named:
                raise UserError(f"op {op}: dim {dim} is as large as {size}, which is no dim: {nearest(size, named)}")
            if size == dim or (size in dims and size not in found):
                raise UserError(f"op {op}: dim {dim} is as large as {size}, which has no size before it: give it one")
        elif isinstance(size, bool) or not isinstance(size, int) or size < 0:
            raise UserError(f"op {op}: dim {dim} is {size!r}: write another dim's name, or a whole number, 0 or more")
        found[dim] = size
    return found


def reduced(op: str, dims: Any, known_dims: Collection[str]) -> tuple[str, ...]:
    found = words(op, "reduces", dims)
    for dim in found:
        _is_a_dim(op, dim, known_dims)
    return found


def indices(op: str, args: Mapping[str, Arg], dims: Collection[str], options: Collection[str]) -> None:
    """What indices lie below, and what stands among them, must be known."""
    named = [dim for dim in dims if dim != ELLIPSIS]
    for name, arg in args.items():
        if isinstance(arg.below, str) and arg.below not in named:
            raise UserError(f"op {op}: index {name} is below {arg.below}, which is no dim: {nearest(arg.below, named)}")
        if isinstance(arg.sentinel, str) and arg.sentinel not in options:
            hint = nearest(arg.sentinel, options) if options else "write a number"
            raise UserError(f"op {op}: the sentinel of {name} is {arg.sentinel}, which is no option: {hint}")


def keywords_of(fn: Callable[..., Any]) -> list[str]:
    """What can be declared with a function: its keyword-only parameters."""
    return [p.name for p in inspect.signature(fn).parameters.values() if p.kind is p.KEYWORD_ONLY]


def _is_a_dim(op: str, dim: str, known_dims: Collection[str]) -> None:
    if dim not in known_dims:
        raise UserError(f"op {op} has no dim {dim}: {nearest(dim, known_dims)}")


def _mapping(op: str, what: str, value: Any, example: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise UserError(f"op {op}: {what}= is a {type(value).__name__}: write {what}=dict({example})")
    return value
