"""Validates a declaration: each mistake raises a UserError that says what to write instead.

Only the form is validated; the check of the op finds out whether a declaration is true. `read_*` returns the value in
the form in which the op keeps it, `require_*` and `check_*` return nothing.
"""

from __future__ import annotations

import inspect
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace

from kernellab.base.errors import UserError, nearest
from kernellab.base.functions import AnyFunction
from kernellab.declaration.arguments import Arg
from kernellab.declaration.case import ELLIPSIS, parse_dtype
from kernellab.vocabulary.dims import names_in


def read_name(name: object, reference: object) -> str:
    """The op's name. The reference is checked first, because everything else is read from it."""
    if name is not None and not isinstance(name, str):
        raise UserError(f"an op cannot be named {name!r}: its name is a string")
    if not (inspect.isfunction(reference) or inspect.ismethod(reference)):
        label = f"op {name}" if name else "an op"
        reference_name = getattr(reference, "__name__", None) or f"a {type(reference).__name__}"
        raise UserError(
            f"{label}: its reference, {reference_name}, is not a plain Python function: write one that calls it"
        )
    return name or str(reference.__name__)


def require_known(op: str, keywords: Iterable[str], parameters: Collection[str]) -> None:
    for keyword in keywords:
        if keyword not in parameters:
            raise UserError(f"op {op}: {keyword}= cannot be declared: {nearest(keyword, parameters)}")


def require_function(label: str, keyword: str, value: object) -> None:
    if value is not None and not callable(value):
        example = f"{keyword}=lambda case: case.N > 0"
        raise UserError(f"{label}: {keyword}= is {value!r}: write a function, for example {example}")


def read_names(label: str, keyword: str, value: object, example: str) -> tuple[str, ...]:
    """A list of names. A single string is refused, because it would be read letter by letter."""
    if isinstance(value, str) or not isinstance(value, Iterable):
        name = value if isinstance(value, str) else example
        raise UserError(f"{label}: {keyword}={value!r} is not a list: write {keyword}=[{name!r}]")
    return tuple(value)


def read_dtypes(op: str, value: object) -> tuple[str, ...]:
    names = read_names(f"op {op}", "dtypes", value, "float32")
    try:
        return tuple(dict.fromkeys(map(parse_dtype, names)))
    except UserError as error:
        raise UserError(f"op {op}: dtypes=: {error.message}") from None


def read_args(op: str, args: object) -> dict[str, Arg]:
    read: dict[str, Arg] = {}
    for name, arg in _require_mapping(op, "args", args, 'x=kl.tensor("M N")').items():
        if not isinstance(arg, Arg):
            example = f"kl.tensor({arg!r})" if isinstance(arg, str) else 'kl.tensor("M N")'
            raise UserError(f"op {op}: args= describes {name} by {arg!r}: write {name}={example}")
        read[name] = arg
    return read


def read_values(op: str, values: object, args: Mapping[str, Arg]) -> dict[str, Arg]:
    """The arguments with the values that `values=` declares for some of them."""
    described = dict(args)
    for name, function in _require_mapping(op, "values", values, "x=kl.positive").items():
        if name not in described:
            raise UserError(f"op {op}: values= describes {name}: {nearest(name, described)}")
        if not callable(function):
            raise UserError(f"op {op}: values= of {name} is {function!r}: write {name}=kl.positive, or a function")
        described[name] = replace(described[name], values=function)
    for name, arg in described.items():
        vocabulary = getattr(arg.values, "expression", None)
        if arg.is_index and arg.values is not None:
            raise UserError(f"op {op}: {name} is an index, whose values follow from below=: values= cannot be declared")
        if vocabulary is not None and not arg.is_float:
            raise UserError(f"op {op}: values={vocabulary} makes floats, but {name} is {arg.dtype}: write a function")
    return described


def read_options(op: str, options: object, keywords: Collection[str]) -> dict[str, list[object]]:
    lists: dict[str, list[object]] = {}
    for option, values in _require_mapping(op, "options", options, 'mode=["a", "b"]').items():
        if option not in keywords:
            raise UserError(f"op {op}: option {option} is not a keyword-only parameter of the function")
        if isinstance(values, str) or not isinstance(values, Iterable):
            raise UserError(f"op {op}: option {option} is {values!r}: list its values, {option}=[{values!r}]")
        lists[option] = list(values)
        if not lists[option]:
            raise UserError(f"op {op}: option {option} lists no values")
    return lists


def read_dim_defaults(op: str, dims: object, known_dims: Collection[str]) -> dict[str, str | int]:
    """The default sizes of dims: a number, or another dim that has the same size."""
    defaults: dict[str, str | int] = {}
    named = [dim for dim in known_dims if dim != ELLIPSIS]
    declared = _require_mapping(op, "dims", dims, 'Hk="H"')
    for dim, size in declared.items():
        _require_dim(op, dim, known_dims)
        if isinstance(size, str):
            if size not in named:
                raise UserError(
                    f"op {op}: dim {dim} is declared as large as {size}, which is not a dim: {nearest(size, named)}"
                )
            if size == dim or (size in declared and size not in defaults):
                raise UserError(
                    f"op {op}: dim {dim} is declared as large as {size}, which has no size before it: give it one"
                )
        elif isinstance(size, bool) or not isinstance(size, int) or size < 0:
            raise UserError(f"op {op}: dim {dim} is {size!r}: write another dim's name, or an integer, 0 or more")
        defaults[dim] = size
    return defaults


def read_reduced_dims(op: str, value: object, known_dims: Collection[str]) -> tuple[str, ...]:
    if not isinstance(value, str):
        example = " ".join(map(str, value)) if isinstance(value, Iterable) else "N"
        raise UserError(f"op {op}: reduces={value!r} is not a string: separate dims by spaces, reduces={example!r}")
    dims = tuple(value.split())
    for dim in dims:
        _require_dim(op, dim, known_dims)
    return dims


def check_indices(op: str, args: Mapping[str, Arg], dims: Collection[str], options: Collection[str]) -> None:
    """The bound and the sentinel of an index must be declared."""
    named = [dim for dim in dims if dim != ELLIPSIS]
    for name, arg in args.items():
        for dim in names_in(arg.below) if isinstance(arg.below, str) else ():
            if dim not in named:
                raise UserError(f"op {op}: index {name} is below {dim}, which is not a dim: {nearest(dim, named)}")
        if isinstance(arg.sentinel, str) and arg.sentinel not in options:
            hint = nearest(arg.sentinel, options) if options else "write a number"
            raise UserError(f"op {op}: the sentinel of {name} is {arg.sentinel}, which is not an option: {hint}")


def read_seed(op: str, value: object, options: Collection[str]) -> str | None:
    """The option that seeds the random numbers of the reference, if it draws any."""
    if value is None or value in options:
        return value  # type: ignore[return-value]  # the names of options are strings
    hint = nearest(str(value), options) if options else "it has no options"
    raise UserError(f"op {op}: seed={value!r} is not an option: {hint}")


def keywords_of(fn: AnyFunction) -> list[str]:
    """The keyword-only parameters of a function."""
    return [p.name for p in inspect.signature(fn).parameters.values() if p.kind is p.KEYWORD_ONLY]


def _require_dim(op: str, dim: str, known_dims: Collection[str]) -> None:
    if dim not in known_dims:
        raise UserError(f"op {op} has no dim {dim}: {nearest(dim, known_dims)}")


def _require_mapping(op: str, keyword: str, value: object, example: str) -> Mapping[str, object]:
    if not isinstance(value, Mapping):
        raise UserError(f"op {op}: {keyword}= is a {type(value).__name__}: write {keyword}=dict({example})")
    return value
