"""`klab new NAME`: writes a working op file to start from."""

from __future__ import annotations

import argparse
import importlib.util
import keyword
from pathlib import Path
from typing import TYPE_CHECKING

from kernellab.base.errors import UserError

if TYPE_CHECKING:
    from kernellab.cli.parser import Parser

SUMMARY = "write an op file to start from"
ORDER = 110

_TEMPLATE = Path(__file__).with_name("new.tmpl")
_NAMES_IN_TEMPLATE = ("tl", "kl", "_kernel")


def arguments(parser: Parser) -> None:
    parser.add_argument("name", help="the op's name; the file is NAME.py")
    parser.add_argument("--out", metavar="DIR", default=".", help="the folder to write it to (default: here)")


def run(args: argparse.Namespace) -> int:
    name = args.name.removesuffix(".py")
    if not name.isidentifier() or keyword.iskeyword(name):
        raise UserError(f"{name!r} cannot name an op: use letters, digits and _, for example swish")
    if name in _NAMES_IN_TEMPLATE or importlib.util.find_spec(name) is not None:
        raise UserError(f"{name!r} names an installed module or something in the template: choose another")
    path = Path(args.out) / f"{name}.py"
    text = _TEMPLATE.read_text().replace("$NAME", name)
    try:
        with path.open("x") as file:
            file.write(text)
    except FileExistsError:
        raise UserError(f"{path} exists already: choose another name, or remove it") from None
    except OSError as error:
        raise UserError(f"cannot write {path}: {error.strerror}") from None
    print(f"wrote {path}; klab run {path} checks and times it")
    return 0
