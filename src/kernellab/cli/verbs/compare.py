"""`klab compare A B`: what became faster, slower or wrong from one run to another."""

from __future__ import annotations

import argparse
import secrets
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from kernellab.base.errors import UserError
from kernellab.base.text import plural
from kernellab.cli.options import (
    add_json_option,
    parse_precision,
    print_json,
    refuse_options,
    require_positive,
    write_file,
)
from kernellab.cli.run_folder import create_folder, display_path, runs_folder

if TYPE_CHECKING:
    from kernellab.cli.parser import Parser
    from kernellab.comparison.compare import Comparison, Side
    from kernellab.remeasuring.remeasure import Versions

SUMMARY = "say what became faster, slower or wrong from one run to another"
ORDER = 76

_BLOCKS, _TIME_LIMIT_S, _SECONDS = 32, 600.0, 0.5
_VERSIONS = ("before_src", "after_src", "before_python", "after_python")
_RERUN_OPTIONS = (*_VERSIONS, "blocks", "time_limit", "seconds", "seed", "out")


def arguments(parser: Parser) -> None:
    parser.usage = "klab compare BEFORE AFTER [options] | klab compare AFTER… --against BEFORE…|BRANCH|COMMIT"
    parser.add_argument("run", nargs="*", metavar="RUN", help="the run before and the run after; folders or run.json")
    parser.add_argument(
        "--against",
        nargs="+",
        metavar="BEFORE",
        help="the runs before, or a branch or commit in the history; the other runs named are those after",
    )
    parser.add_argument("--precision", metavar="P", help="times that differ by less are the same (default 0.5%%)")
    parser.add_argument(
        "--across-machines", action="store_true", help="compare runs of different machines, which is refused otherwise"
    )
    parser.add_argument("--verbose", action="store_true", help="also show the times that are the same")
    add_json_option(parser)
    parser.add_argument("--markdown", metavar="FILE", help="write it as Markdown for a pull request; - prints it")
    parser.add_argument("--html", metavar="FILE", help="write it as a page")
    _add_rerun_options(parser)


def _add_rerun_options(parser: Parser) -> None:
    group = parser.add_argument_group("measuring again")
    group.add_argument(
        "--rerun", action="store_true", help="measure what is not resolved again: both versions of the code in turn"
    )
    for side in ("before", "after"):
        group.add_argument(
            f"--{side}-src",
            metavar="PATH",
            help=f"the folder or op file of the version {side} (default: the current folder)",
        )
        group.add_argument(
            f"--{side}-python", metavar="FILE", help=f"the Python interpreter of the version {side} (default: this one)"
        )
    group.add_argument(
        "--blocks", type=int, metavar="N", help=f"at most N pairs of processes for each time (default {_BLOCKS})"
    )
    group.add_argument(
        "--time-limit", type=float, metavar="S", help=f"begin nothing after S seconds (default {_TIME_LIMIT_S:.0f})"
    )
    group.add_argument(
        "--seconds",
        type=float,
        metavar="S",
        help=f"time to spend on each implementation in a process (default {_SECONDS})",
    )
    group.add_argument("--seed", type=int, metavar="N", help="seed of the order of processes (default: drawn, printed)")
    group.add_argument("--out", metavar="DIR", help="keep the runs of these processes in this folder")


def run(args: argparse.Namespace) -> int:
    from kernellab.comparison.compare import PRECISION, compare

    if args.json and args.markdown == "-":
        raise UserError("--json and --markdown - both print to standard output: name a file for one of them")
    if not args.rerun:
        refuse_options(args, _RERUN_OPTIONS, "is an option of --rerun: add --rerun")
    precision = PRECISION if args.precision is None else parse_precision(args.precision)
    paths_before, paths_after = _paths(args)
    comparison = compare(
        _load(paths_before), _load(paths_after), precision=precision, across_machines=args.across_machines
    )
    if args.rerun and comparison.with_verdict("not resolved"):
        comparison = _rerun(args, comparison, paths_before, paths_after)
    _show(args, comparison)
    return 130 if comparison.rerun is not None and comparison.rerun.interrupted else comparison.exit_code


def _paths(args: argparse.Namespace) -> tuple[list[str], list[str]]:
    """The runs before and after."""
    if args.against:
        if not args.run:
            raise UserError("no run to compare: klab compare runs/after --against runs/before")
        return [_find(name, args.run[0]) for name in args.against], args.run
    if len(args.run) != 2:
        raise UserError(
            f"{plural(len(args.run), 'run')} named, two are compared: klab compare runs/before runs/after. "
            "Several on a side: klab compare AFTER… --against BEFORE…"
        )
    return args.run[:1], args.run[1:]


def _find(name: str, like: str) -> str:
    """A run's path, or that of the newest run of a branch or commit that is comparable with the run `like`."""
    from kernellab.history.baseline import baseline_run

    if Path(name).exists():
        return name
    return display_path(baseline_run(name, Path(like), runs_folder()))


def _load(paths: list[str]) -> Side:
    from kernellab.comparison.compare import Side
    from kernellab.record.reading import load

    return Side(", ".join(paths), [load(Path(path)) for path in paths])


# Measuring again ---------------------------------------------------------------------------------------


def _rerun(args: argparse.Namespace, comparison: Comparison, before: list[str], after: list[str]) -> Comparison:
    from kernellab.remeasuring.remeasure import Limits, remeasure

    limits = Limits(
        blocks=int(require_positive("--blocks", _BLOCKS if args.blocks is None else args.blocks, 1000)),
        seconds=require_positive("--time-limit", _TIME_LIMIT_S if args.time_limit is None else args.time_limit),
    )
    seconds = require_positive("--seconds", _SECONDS if args.seconds is None else args.seconds)
    seed = secrets.randbelow(1 << 31) if args.seed is None else args.seed
    versions = _find_versions(args, comparison, Path(before[0]), Path(after[0]))
    for version in versions.values():
        _say(f"before: {version.before}")
        _say(f"after: {version.after}")
    unresolved = plural(len(comparison.with_verdict("not resolved")), "time")
    _say(f"measuring {unresolved} again, order of processes by seed {seed}; Ctrl-C ends it and keeps what was measured")
    with tempfile.TemporaryDirectory(prefix="kernellab-compare-") as scratch:
        folder = create_folder(args.out) if args.out else Path(scratch)
        return remeasure(comparison, versions, limits, seed=seed, seconds=seconds, folder=folder, say=_say)


def _find_versions(args: argparse.Namespace, comparison: Comparison, before: Path, after: Path) -> dict[str, Versions]:
    """The code of both versions, by op."""
    from kernellab.remeasuring.code import Installation, find_code, recorded_targets
    from kernellab.remeasuring.remeasure import Versions

    if not any(getattr(args, name) for name in _VERSIONS):
        raise UserError(
            f"--rerun needs both versions of the code{_worktree_hint(comparison)}: --before-src ../before names the "
            "folder of the older one, --before-python an interpreter with other packages"
        )
    versions = {}
    for op in dict.fromkeys(pair.key.result.op for pair in comparison.with_verdict("not resolved")):
        codes = {}
        for side, path in (("before", before), ("after", after)):
            source, python = getattr(args, f"{side}_src"), getattr(args, f"{side}_python")
            installation = Installation(python, Path(source) if source else None)
            codes[side] = find_code(op, recorded_targets(path), installation, sys.executable, f"--{side}-src")
        if codes["before"] == codes["after"] and not (args.before_src and args.after_src):
            raise UserError(f"both versions of {op} would be {codes['after']}: --before-src names the older one")
        versions[op] = Versions(codes["before"], codes["after"])
    return versions


def _worktree_hint(comparison: Comparison) -> str:
    commits = [commit.partition("+")[0] for commit in comparison.before.commits]
    is_commit = len(commits) == 1 and commits[0].isalnum()
    return f" (git worktree add ../before {commits[0][:12]} checks the older one out)" if is_commit else ""


def _say(text: str) -> None:
    from kernellab.base.text import printable

    print(printable(text), file=sys.stderr, flush=True)


# Output ------------------------------------------------------------------------------------------------


def _show(args: argparse.Namespace, comparison: Comparison) -> None:
    from kernellab.reporting.comparisons import markdown, page, terminal
    from kernellab.reporting.text.console import console

    if args.html:
        write_file("--html", Path(args.html), page.document(comparison))
    if args.markdown and args.markdown != "-":
        write_file("--markdown", Path(args.markdown), markdown.document(comparison))
    if args.markdown == "-":
        print(markdown.document(comparison), end="")
    elif args.json:
        from kernellab.comparison.document import to_json

        print_json(to_json(comparison))
    else:
        terminal.show(comparison, console(), verbose=args.verbose)
