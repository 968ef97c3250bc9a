"""Arguments of Python as the words of a command line, so that both are read, checked and recorded in one way."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TypeAlias

from kernellab.base.errors import UserError
from kernellab.base.user_code import PACKAGE
from kernellab.declaration.op import Impl, Op

Target: TypeAlias = str | Path | Op


def command_words(targets: Sequence[Target], options: Mapping[str, object], dims: Mapping[str, object]) -> list[str]:
    """The words after a verb: `["gelu", "--shape=256x256", "--N=1024"]`. Options that are None, False or empty are left
    out; `opt` is a mapping of names to values."""
    words = [target_text(target) for target in targets]
    for name, value in options.items():
        flag = f"--{name.replace('_', '-')}"
        if isinstance(value, Mapping):
            words += [f"{flag}={option}={_text(choice)}" for option, choice in value.items()]
        elif value is True:
            words.append(flag)
        elif value is not None and value is not False and value not in ("", (), []):
            words.append(f"{flag}={_shapes(value) if name == 'shape' else _text(value)}")
    for name, value in dims.items():
        if not name[:1].isupper():
            raise UserError(f"no argument {name!r}: dims begin with a capital letter, as in N=1024")
        words.append(f"--{name}={_text(value)}")
    return words


def _text(value: object) -> str:
    """`a,b` for several values; a dtype of torch by its name."""
    if isinstance(value, (list, tuple, set, frozenset, range)):
        return ",".join(map(_text, value))
    return str(value).removeprefix("torch.")


def _shapes(value: object) -> str:
    """`256x256,16x4096` for a text, one shape or several."""
    if isinstance(value, Iterable) and not isinstance(value, str):
        sizes = list(value)
        if all(isinstance(size, int) for size in sizes):
            return "x".join(map(str, sizes))
        return ",".join(map(_shapes, sizes))
    return str(value)


def target_text(target: Target) -> str:
    """The target as a command line names it. The op of a file is named by the file: workers load it from there."""
    if isinstance(target, Path):
        return str(target)
    if not isinstance(target, Op):
        if not isinstance(target, str) or target.startswith("-"):
            raise UserError(
                f"{target!r:.80} names no op: write a name, a file, package.module:op, or pass the op itself"
            )
        return target
    added = {impl.file for impl in target.impls.values() if _is_added(impl)}
    if len(added) > 1:
        raise UserError(f"implementations of {target.name} are in several files: run a file that declares all of them")
    file = added.pop() if added else target.file
    if not file.is_file():
        raise UserError(
            f"{target.name} is declared where workers cannot load it, in a notebook perhaps: write the cell to a file "
            "with %%writefile ops.py, and run that file"
        )
    if PACKAGE in file.parents:
        return target.name
    return f"{file}:{target.name}"


def _is_added(impl: Impl) -> bool:
    """Whether another file than the op's own has added it."""
    return impl.file != impl.op.file and PACKAGE not in impl.file.parents and impl.name not in impl.op.peers
