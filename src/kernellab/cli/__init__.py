"""The command `klab`: turns a command line into an exit code.

`parse` finds the verb and reads its options; the verb's module in `verbs/` does the work. The other modules here are
what verbs share. Errors a user can correct are one sentence and exit code 2. No torch: what executes op files runs in
processes of its own. Imports, mostly inside functions, every package of the parent process.
"""

from __future__ import annotations

import argparse
import errno
import io
import os
import signal
import sys
from collections.abc import Sequence

from kernellab.base.errors import UserError, nearest
from kernellab.base.version import VERSION
from kernellab.cli.discovery import Verb, find_verb, find_verbs, verb_names
from kernellab.cli.parser import Parser

_EPILOG = "klab VERB --help explains a verb. Op files are Python and are executed: run only those you trust."


def main(argv: Sequence[str] | None = None) -> None:
    sys.exit(run(list(sys.argv[1:] if argv is None else argv)))


def run(argv: list[str]) -> int:
    """Carries out a command line; returns the exit code."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal without × still gets its table
    # SIGTERM interrupts as Ctrl-C does: what was measured is kept.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        verb, args = parse(argv)
        code = verb.run(args)
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
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # so that Python's own flush at exit does not fail
        return 0 if error.errno == errno.EPIPE else 2


def parse(argv: list[str]) -> tuple[Verb, argparse.Namespace]:
    """The verb of a command line and its arguments. Help and the version are printed here, and end the process."""
    if not argv or argv[0].startswith("-"):
        top = _top_parser(find_verbs())
        top.parse_args(argv)
        top.exit(0, top.format_help())
    name, *words = argv
    if name not in verb_names():
        raise UserError(f"unknown verb {name!r}: {nearest(name, verb_names())}")
    verb = find_verb(name)
    args = verb_parser(verb).parse_words(words)
    args.verb = name
    return verb, args


def _top_parser(verbs: dict[str, Verb]) -> Parser:
    top = Parser(
        prog="klab",
        usage="klab [-h] [--version] VERB ...",
        description="Implement one operation several times; get one honest answer: which is right, which is fastest.",
        epilog=_EPILOG,
    )
    top.add_argument("--version", action="version", version=f"kernellab {VERSION}")
    listing = top.add_subparsers(metavar="VERB", title="verbs")
    for verb in verbs.values():
        listing.add_parser(verb.name, help=verb.summary)
    return top


def verb_parser(verb: Verb) -> Parser:
    parser = Parser(prog=f"klab {verb.name}", description=f"{verb.summary[0].upper()}{verb.summary[1:]}.")
    parser.add_argument("--debug", action="store_true", help="show the traceback of an error instead of one sentence")
    verb.arguments(parser)
    return parser
