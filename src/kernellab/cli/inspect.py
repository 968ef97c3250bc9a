"""`klab inspect`: machine code, of an op's ways or of files that hold it."""

from __future__ import annotations

import argparse
from pathlib import Path

from kernellab.base.errors import UserError
from kernellab.cli import inspect_files, inspect_op


def arguments(sub: argparse.ArgumentParser, verb: str) -> None:
    sub.add_argument("target", nargs="*", help="an op, as for other verbs, or files: .ptx, .cubin, .sass")
    sub.add_argument("--show", metavar="WHAT", help="facts (default), explain, source, sass; of an op ptx, ttgir… too")
    sub.add_argument("--kernel", metavar="NAME", help="only this kernel")
    sub.add_argument("--diff", nargs="*", metavar="A", help="compare two files, or two of triton@sm_90, cuda, RUN")
    sub.add_argument("--html", metavar="FILE", help="write the explained PTX as a page")
    sub.add_argument("--json", action="store_true", help="print one JSON document")
    inspect_op.arguments(sub)


def run(args: argparse.Namespace, rest: list[str]) -> int:
    from kernellab.codeanalysis.code_files import is_code_file

    if args.diff and any(is_code_file(name) for name in args.diff):  # `--diff a.ptx b.ptx` takes the files for its own
        args.target, args.diff = [*args.target, *args.diff], []
    if not args.target and not args.diff:
        raise UserError("nothing to inspect: klab inspect gelu, or a file: kernel.ptx, a .cubin or .sass")
    for target in args.target:
        if not is_code_file(target):
            _refuse_other_files(target)
    if not args.target or not any(is_code_file(target) for target in args.target):
        return inspect_op.run(args, rest)
    for target in args.target:
        if not is_code_file(target):
            raise UserError(f"{target!r} is no file of machine code, and the others are: name an op alone")
    return inspect_files.run(args, rest)


def _refuse_other_files(target: str) -> None:
    """A file that is neither machine code nor Python would be run as an op file, and fail far from the reason."""
    from kernellab.codeanalysis.code_files import SUFFIXES, guess_suffix

    path = Path(target)
    if path.suffix == ".py" or not path.is_file():
        return
    suffix = guess_suffix(path)
    if suffix:
        raise UserError(f"{target} looks like a {suffix}: its name has to end so, as {path.name}{suffix}")
    if path.suffix in (".cu", ".cuh"):
        raise UserError(f"{target} is CUDA C++: an op file that calls kl.cuda.kernel on it is what klab inspect reads")
    raise UserError(f"{target} holds nothing to inspect: an op file ends in .py, machine code in {', '.join(SUFFIXES)}")
