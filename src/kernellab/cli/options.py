"""Options that several verbs share: how they are declared, read and refused."""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Collection, Iterable
from pathlib import Path

from kernellab.base.errors import UserError, nearest
from kernellab.declaration.case import parse_dtype
from kernellab.declaration.case_request import CaseRequest, parse_shapes

PASSES = ("forward", "backward", "both")


def add_case_options(
    parser: argparse._ActionsContainer, shape_help: str = "sizes (default: the op's first case)"
) -> None:
    """Options for the implementations and cases of an op; `case_request` reads the cases."""
    parser.add_argument("--impl", metavar="A,B", help="only these implementations; shell patterns too: 'triton*'")
    parser.add_argument("--shape", action="append", metavar="4096x4096,…", help=shape_help)
    parser.add_argument("--dtype", action="append", metavar="float32,…", help="float32, float16, bfloat16, float64")
    parser.add_argument(
        "--opt", action="append", metavar="NAME=VALUE", help="an option of the op; several values separated by commas"
    )


def case_request(args: argparse.Namespace, *, quick: bool = False) -> CaseRequest:
    """The cases that `--shape`, `--dtype`, `--opt` and named dims ask for."""
    shapes = [shape for text in args.shape or [] for shape in parse_shapes(text)]
    dtypes = [parse_dtype(name) for text in args.dtype or [] for name in split_commas(text)]
    return CaseRequest(shapes, list(dict.fromkeys(dtypes)), args.dims, _parse_options(args.opt or []), quick)


def sized_request(args: argparse.Namespace) -> CaseRequest:
    """The same for verbs that use the op's first case if no sizes are given, because every case takes long."""
    return case_request(args, quick=not (args.shape or args.dims))


def _parse_options(texts: Iterable[str]) -> dict[str, list[str]]:
    options: dict[str, list[str]] = {}
    for text in texts:
        name, equals, values = text.partition("=")
        if not equals or not name or not values:
            raise UserError(f"cannot read --opt {text!r}: write --opt name=value")
        options[name] = split_commas(values)
    return options


def add_device_option(parser: argparse._ActionsContainer, condition: str = "") -> None:
    text = f"{condition}cpu, cuda or cuda:1 (default: the GPU if there is one)"
    parser.add_argument("--device", metavar="DEV", help=text)


def parse_device(text: str | None) -> str:
    """`cpu`, `cuda` or `cuda:1`; `auto` where none is named."""
    device = text or "auto"
    if not re.fullmatch(r"auto|cpu|cuda(:\d+)?", device):
        raise UserError(f"no device {device!r}: write cpu, cuda or cuda:1")
    return device


def split_commas(text: str | None) -> list[str]:
    return [part.strip() for part in text.split(",")] if text else []


def choose(option: str, text: str, allowed: Collection[str]) -> str:
    """The text, if it is allowed; otherwise a UserError that suggests the nearest choice."""
    if text not in allowed:
        raise UserError(f"{option} {text}: {nearest(text, allowed)}")
    return text


def choose_several(option: str, text: str, allowed: Collection[str]) -> list[str]:
    return list(dict.fromkeys(choose(option, part, allowed) for part in split_commas(text)))


def require_positive(option: str, value: float, most: float = 1e9) -> float:
    if not 0 < value <= most:
        raise UserError(f"{option} {value:g}: must be above 0 and at most {most:g}")
    return value


def parse_precision(text: str) -> float:
    """`0.5%` or `0.005`."""
    try:
        value = float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
    except ValueError:
        raise UserError(f"cannot read --precision {text!r}: write 0.005 or 0.5%") from None
    return require_positive("--precision", value, 1.0)


def refuse_options(args: argparse.Namespace, names: Iterable[str], reason: str) -> None:
    """A UserError where one of these options was given. `reason` follows the option's spelling."""
    for name in names:
        if name in args.given:
            raise UserError(f"{args.given[name]} {reason}")


def write_file(option: str, path: Path, text: str) -> None:
    """Writes a file that the user named with an option."""
    try:
        path.write_text(text)
    except OSError as error:
        raise UserError(f"{option} {path} cannot be written: {error.strerror}") from None


def absolute_target(target: str) -> str:
    """A file is stored with its full path, so that a run can be resumed from anywhere."""
    path, colon, op = target.partition(":")
    return f"{Path(path).resolve()}{colon}{op}" if path.endswith(".py") and Path(path).is_file() else target


def add_json_option(parser: argparse._ActionsContainer) -> None:
    parser.add_argument("--json", action="store_true", help="print one JSON document")


def print_json(document: object) -> None:
    json.dump(document, sys.stdout, indent=1, allow_nan=False)
    print()
