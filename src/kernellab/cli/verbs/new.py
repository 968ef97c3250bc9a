"""`klab new NAME`: a working op file to start from."""

from __future__ import annotations

import argparse
import importlib.util
import keyword
from pathlib import Path

from kernellab.base.errors import UserError
from kernellab.base.user_code import PACKAGE


def arguments(sub: argparse.ArgumentParser, verb: str) -> None:
    sub.add_argument("name", help="the op's name; the file is NAME.py")
    sub.add_argument("--out", metavar="DIR", default=".", help="the folder to write it to (default: here)")


def run(args: argparse.Namespace, rest: list[str]) -> int:
    from kernellab.cli.options import dims_in

    dims_in(rest)
    name = args.name.removesuffix(".py")
    if not name.isidentifier() or keyword.iskeyword(name):
        raise UserError(f"{name!r} cannot name an op: use letters, digits and _, for example swish")
    if name in ("tl", "kl", "_kernel") or importlib.util.find_spec(name) is not None:
        raise UserError(f"{name!r} is the name of an installed module or of something in the template: choose another")
    path = Path(args.out) / f"{name}.py"
    text = (PACKAGE / "cli" / "verbs" / "new.tmpl").read_text().replace("$NAME", name)
    try:
        with path.open("x") as f:
            f.write(text)
    except FileExistsError:
        raise UserError(f"{path} exists already: choose another name, or remove it") from None
    except OSError as error:
        raise UserError(f"cannot write {path}: {error.strerror}") from None
    print(f"wrote {path}; klab run {path} checks and times it")
    return 0
