"""`klab history --prune` and `--prune-caches`: shows what would go, and removes it with `--yes`."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from kernellab.base.errors import UserError
from kernellab.base.text import printable
from kernellab.cli.options import print_json, refuse_options
from kernellab.cli.run_folder import display_path

if TYPE_CHECKING:
    from kernellab.cli.parser import Parser
    from kernellab.history.pruning import Removal

_UNUSED_S = 30 * 86400.0  # compiled code that was not used for so long


def add_options(parser: Parser) -> None:
    group = parser.add_argument_group("removing")
    group.add_argument("--prune", action="store_true", help="show the old runs that --yes removes")
    group.add_argument("--prune-caches", action="store_true", help="the same for compiled code that nobody uses")
    group.add_argument("--older", metavar="WHEN", help="runs older, or code unused for longer, than this: 90d")
    group.add_argument("--keep", type=int, metavar="N", help="keep the last N runs of each op and machine")
    group.add_argument("--yes", action="store_true", help="remove what is shown")


def is_given(args: argparse.Namespace) -> bool:
    if args.prune and args.prune_caches:
        raise UserError("--prune removes runs and --prune-caches compiled code: give one of them")
    if not (args.prune or args.prune_caches):
        refuse_options(args, ["older", "keep", "yes"], "goes with --prune or --prune-caches")
    return bool(args.prune or args.prune_caches)


def run(args: argparse.Namespace, before: float | None, folder: Callable[[], Path]) -> int:
    """`before`: what `--older` says. `folder`: finds that of the runs, which caches do not need."""
    from kernellab.history import pruning
    from kernellab.history.index import Index

    refuse_options(args, ["op", "impl", "dtype", "since", "all", "export"], "does not choose what is removed")
    if args.prune_caches:
        refuse_options(args, ["keep", "branch", "machine", "runs"], "is about runs: it goes with --prune")
        found = pruning.unused_cache(time.time() - _UNUSED_S if before is None else before)
        return _carry_out(args, found, pruning.remove_entry)
    if before is None and args.keep is None:
        raise UserError("--prune: which runs? --older 90d, or --keep 20 of each op and machine, or both")
    if args.keep is not None and args.keep < 0:
        raise UserError(f"--keep {args.keep}: must be at least 0")
    with Index(folder()) as index:
        index.refresh()
        found = pruning.old_runs(index, before=before, keep=args.keep or 0, branch=args.branch, machine=args.machine)
        code = _carry_out(args, found, lambda removal: pruning.remove_run(removal, index))
        index.refresh()
    return code


def _carry_out(args: argparse.Namespace, found: Sequence[Removal], remove: Callable[[Removal], str | None]) -> int:
    """Shows what was found and removes it with `--yes`. Exit code 1 if something of it could not be removed."""
    from kernellab.history.pruning import total_bytes
    from kernellab.reporting.text.numbers import count, memory

    kept = {removal.paths: removal.kept for removal in found}
    failed = 0
    for removal in found if args.yes else []:
        kept[removal.paths] = remove(removal)
        failed += bool(kept[removal.paths]) and not removal.kept
    going = [removal for removal in found if not kept[removal.paths]]
    if args.json:
        entries = [
            {"path": str(removal.paths[0]), "bytes": removal.bytes, "kept": kept[removal.paths]} for removal in found
        ]
        print_json({"removed": args.yes, "entries": entries})
        return 1 if failed else 0
    for removal in found:
        why = kept[removal.paths]
        print(f"{printable(display_path(removal.paths[0]))}  {memory(removal.bytes)}"
              f"{f'  stays: {printable(why)}' if why else ''}")  # fmt: skip
    what = count(len(going), "run" if args.prune else "cached item")
    size = memory(total_bytes(going))
    print(
        f"removed: {what}, {size}" if args.yes else f"{what}, {size}. Nothing was removed: --yes removes what is listed"
    )
    return 1 if failed else 0
