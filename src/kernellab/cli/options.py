"""Options several verbs share, and the defaults a project sets for them in `[tool.kernellab]`."""

from __future__ import annotations

import argparse
import re
import tomllib
from pathlib import Path
from typing import Any

from kernellab.base.errors import UserError, nearest
from kernellab.declaration.case import parse_dtype
from kernellab.declaration.case_request import CaseRequest, parse_shapes, parse_sizes

# Option name in [tool.kernellab] → the type it must have there.
_DEFAULTS: dict[str, type | tuple[type, ...]] = {
    "impl": str,
    "dtype": str,
    "device": str,
    "seed": int,
    "timeout": (int, float),
    "runs": str,
    "seconds": (int, float),
}


def project_defaults(start: Path | None = None) -> dict[str, Any]:
    """`[tool.kernellab]` of the nearest pyproject.toml at or above the current folder."""
    here = (start or Path.cwd()).resolve()
    for folder in (here, *here.parents):
        file = folder / "pyproject.toml"
        if file.is_file():
            break
    else:
        return {}
    try:
        table = tomllib.loads(file.read_text()).get("tool", {}).get("kernellab", {})
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, OSError) as error:
        raise UserError(f"{file} cannot be read: {error}") from None
    if not isinstance(table, dict):
        raise UserError(f"{file}: [tool.kernellab] is not a table")
    for name, value in table.items():
        if name not in _DEFAULTS:
            raise UserError(f"{file}: [tool.kernellab] has no setting {name!r}: {nearest(name, _DEFAULTS)}")
        if not isinstance(value, _DEFAULTS[name]) or isinstance(value, bool):
            raise UserError(f"{file}: [tool.kernellab] {name} cannot be {value!r}")
    return dict(table)


def case_arguments(sub: argparse._ActionsContainer, sizes: str = "sizes (default: the op's first case)") -> None:
    """Which ways of an op are meant, and at which cases: see `case_request`."""
    sub.add_argument("--impl", metavar="A,B", help="only these ways; shell patterns too: 'triton*'")
    sub.add_argument("--shape", action="append", metavar="4096x4096,…", help=sizes)
    sub.add_argument("--dtype", action="append", metavar="float32,…", help="float32, float16, bfloat16, float64")
    sub.add_argument("--opt", action="append", metavar="NAME=VALUE", help="an option of the op, several by commas")


def case_request(args: argparse.Namespace, rest: list[str]) -> CaseRequest:
    """The cases a command line asks for. What the parser did not know are dims: `--V 1024:8192:x2`."""
    shapes = [shape for text in args.shape or [] for shape in parse_shapes(text)]
    dtypes = [parse_dtype(t.strip()) for text in args.dtype or [] for t in text.split(",")]
    return CaseRequest(shapes, list(dict.fromkeys(dtypes)), dims_in(rest), options_in(args.opt or []), args.quick)


def split_words(argv: list[str]) -> tuple[list[str], list[str]]:
    """What a profiled script is given, after `--`, apart from our own."""
    if argv[:1] != ["profile"] or "--" not in argv:
        return argv, []
    at = argv.index("--")
    return argv[:at], argv[at + 1 :]


def split_dims(argv: list[str]) -> tuple[list[str], list[str]]:
    """Named dims, `--N 1024`, apart from everything else: argparse would take their values for targets."""
    others, dims = [], []
    words = iter(argv)
    for word in words:
        if re.match(r"--[A-Z]", word):
            dims += [word] if "=" in word else [word, *(w for w in [next(words, None)] if w is not None)]
        else:
            others.append(word)
    return others, dims


def dims_in(rest: list[str]) -> dict[str, list[int]]:
    dims: dict[str, list[int]] = {}
    words = list(rest)
    while words:
        word = words.pop(0)
        name, equals, value = word.removeprefix("--").partition("=")
        if not word.startswith("--") or not name.isidentifier():
            raise UserError(f"cannot understand {word!r}: klab VERB --help lists the options")
        if not equals:
            if not words:
                raise UserError(f"no value for {word}: dims are given as --{name} 1024")
            value = words.pop(0)
        if not name[0].isupper():
            raise UserError(f"no option {word.partition('=')[0]}: {nearest(name, KNOWN)} (dims begin with a capital)")
        dims[name] = parse_sizes(name, value)
    return dims


def device_in(text: str | None) -> str:
    """`cpu`, `cuda` or `cuda:1`; `auto` where nothing is said."""
    device = text or "auto"
    if not re.fullmatch(r"auto|cpu|cuda(:\d+)?", device):
        raise UserError(f"no device {device!r}: cpu, cuda or cuda:1")
    return device


def write_to(option: str, path: Path, text: str) -> None:
    """A file the user named with an option."""
    try:
        path.write_text(text)
    except OSError as error:
        raise UserError(f"{option} {path} cannot be written: {error.strerror}") from None


def positive(name: str, value: float, most: float = 1e9) -> float:
    if not 0 < value <= most:
        raise UserError(f"{name} {value:g}: must be above 0 and at most {most:g}")
    return value


def options_in(texts: list[str]) -> dict[str, list[str]]:
    options: dict[str, list[str]] = {}
    for text in texts:
        name, equals, values = text.partition("=")
        if not equals or not name or not values:
            raise UserError(f"cannot read --opt {text!r}: write --opt name=value")
        options[name] = [v.strip() for v in values.split(",")]
    return options


KNOWN = (
    *("impl", "shape", "dtype", "opt", "device", "seed", "timeout", "seconds", "rounds", "cells", "out", "quick"),
    *(
        "debug",
        "json",
        "resume",
        "refresh-ceilings",
        "break",
        "arch",
        "show",
        "gpu",
        "plot",
        "static",
        "diff",
        "export",
        *("schedule", "dim", "layers", "batch", "steps", "optimizer", "ranks", "sort", "rows", "name-width", "open"),
    ),
)
