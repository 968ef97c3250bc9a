"""`klab inspect`: machine code, of an op's implementations or of files."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from kernellab.base.errors import UserError
from kernellab.cli import inspect_diff, inspect_files, inspect_op
from kernellab.cli.options import add_json_option

if TYPE_CHECKING:
    from kernellab.cli.parser import Parser

SUMMARY = "read machine code, of an op's implementations or of files: facts, PTX in words, differences"
ORDER = 40


def arguments(parser: Parser) -> None:
    parser.takes_dims = True
    parser.add_argument("target", nargs="*", help="an op, as for other verbs, or files: .ptx, .cubin, .sass")
    parser.add_argument(
        "--show", metavar="WHAT", help="facts (default), explain, source, sass; for an op also ttir, ttgir, llir, ptx"
    )
    parser.add_argument("--kernel", metavar="NAME", help="only this kernel")
    parser.add_argument(
        "--diff", nargs="*", metavar="A", help="compare two files, or two kernels: triton@sm_90, cuda, RUN:triton"
    )
    parser.add_argument("--html", metavar="FILE", help="write the explained PTX as a page")
    add_json_option(parser)
    inspect_op.add_options(parser)
    parser.epilog = "Named dims are options too: --N 1024. Neither a GPU nor a CUDA toolkit is needed."


def run(args: argparse.Namespace) -> int:
    from kernellab.codeanalysis.code_files import is_code_file

    if args.diff and any(is_code_file(name) for name in args.diff):  # `--diff a.ptx b.ptx`: argparse gives it the files
        args.target, args.diff = [*args.target, *args.diff], []
    if not args.target and not args.diff:
        raise UserError("nothing to inspect: name an op, klab inspect gelu, or a .ptx, .cubin or .sass file")
    others = [target for target in args.target if not is_code_file(target)]
    for target in others:
        _refuse_other_files(target)
    if len(others) == len(args.target):
        return inspect_diff.run(args) if args.diff is not None else inspect_op.run(args)
    if others:
        raise UserError(f"{others[0]!r} is not a file of machine code, but other targets are: name an op alone")
    return inspect_files.run(args)


def _refuse_other_files(target: str) -> None:
    """Refuses a file that is neither machine code nor Python: loading it as an op file would hide the reason."""
    from kernellab.codeanalysis.code_files import SUFFIXES, guess_suffix

    path = Path(target)
    if path.suffix == ".py" or not path.is_file():
        return
    suffix = guess_suffix(path)
    if suffix:
        raise UserError(f"{target} looks like a {suffix} file: rename it to {path.name}{suffix}")
    if path.suffix in (".cu", ".cuh"):
        raise UserError(f"{target} is CUDA C++: klab inspect reads an op file that calls kl.cuda.kernel on it")
    raise UserError(
        f"{target} holds nothing to inspect: the names of op files end in .py, of machine code in {', '.join(SUFFIXES)}"
    )
