"""The command `klab`: one thin module per verb.

Help and listings answer at once, so nothing heavy is imported before a verb is known.
"""

from __future__ import annotations

import argparse
import errno
import importlib
import io
import os
import signal
import sys
from collections.abc import Collection, Sequence
from types import ModuleType
from typing import NoReturn

from kernellab.base.errors import UserError
from kernellab.base.version import VERSION
from kernellab.cli.options import split_dims, split_words

VERBS = {
    "run": "check every way of an op, time the right ones, say which to use",
    "check": "say which ways are right",
    "bench": "time the right ways",
    "inspect": "read machine code, of an op's ways or of files: facts, PTX in words, differences",
    "explain": "say why each way is as fast as it is, and what to do next",
    "profile": "say where the time of an op, a script or a trace goes",
    "curves": "draw the sweeps of a run again",
    "merge": "join runs of one kind of machine into one",
    "device": "describe the GPU as a table: its own, or any of the database",
    "waves": "say how a grid fills a GPU, and what its last round costs",
    "new": "write an op file to start from",
    "list": "show the ops, their ways, and which can run here",
    "doctor": "show what was found on this machine and what is missing",
}

EPILOG = "klab VERB --help explains a verb. Op files are Python and are executed: run only those you trust."


class Parser(argparse.ArgumentParser):
    """argparse whose complaints are one sentence, like everybody else's."""

    def error(self, message: str) -> NoReturn:
        raise UserError(f"{message} ({self.prog} --help explains)")


def parser(words: Collection[str] = VERBS) -> argparse.ArgumentParser:
    """Of a command line of these words: verbs that are not among them need not know their options."""
    top = Parser(
        prog="klab",
        description="Write one operation several ways; get one honest answer: which is right, which is fastest.",
        epilog=EPILOG,
    )
    top.add_argument("--version", action="version", version=f"kernellab {VERSION}")
    verbs = top.add_subparsers(dest="verb", metavar="VERB", title="verbs")
    for verb, about in VERBS.items():
        sub = verbs.add_parser(verb, help=about, description=about[0].upper() + about[1:] + ".")
        sub.add_argument("--debug", action="store_true", help="show tracebacks instead of one sentence")
        if verb in words:
            _module(verb).arguments(sub, verb)
    return top


def _module(verb: str) -> ModuleType:
    return importlib.import_module(f"kernellab.cli.{_MODULES.get(verb, verb)}")


_MODULES = {"run": "measure", "check": "measure", "bench": "measure", "list": "listing"}


def main(argv: Sequence[str] | None = None) -> None:
    sys.exit(run(list(sys.argv[1:] if argv is None else argv)))


def run(argv: list[str]) -> int:
    """Carry out a command line; returns the exit code."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal without × still gets its table
    # SIGTERM is an interruption like Ctrl-C: what was measured is kept.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    top = parser(argv)
    try:
        argv, words = split_words(argv)
        argv, dims = split_dims(argv)
        args, rest = top.parse_known_args(argv)
        args.words = words
        rest += dims
        if args.verb is None:
            top.print_help()
            return 0
        code = _module(args.verb).run(args, rest)
        sys.stdout.flush()
        return int(code)
    except UserError as error:
        if "--debug" in argv:
            raise
        error.report()
        return 2
    except KeyboardInterrupt:
        return 130
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EBADF, errno.EPIPE) or "--debug" in argv:
            raise
        if error.errno != errno.EPIPE:
            print(f"klab: cannot write to standard output: {error.strerror}", file=sys.stderr)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # so that Python's own flush at exit does not complain
        return 0 if error.errno == errno.EPIPE else 2
