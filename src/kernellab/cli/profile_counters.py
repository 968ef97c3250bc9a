"""`klab profile --with ncu`: what the GPU's counters say of a way's launches, and of reports opened."""

from __future__ import annotations

import argparse
import csv
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kernellab.base.errors import UserError
from kernellab.base.paths import file_name
from kernellab.cli import profile_programs as programs
from kernellab.cli.begin import absolute, begun, folder_for, shown
from kernellab.declaration.case_request import parse_sizes

if TYPE_CHECKING:
    from kernellab.record.journal import Journal
    from kernellab.running.parent.nsight_compute import Counted

_SHAPE, _DTYPE = "4096x4096", "float32"  # of a sweep: one block alone still ends in a tenth of a second
_SWEPT = "square_strided"  # its kernel
_BLOCKS = "128"
_MOST_BLOCKS, _MOST_LAUNCHES = 1 << 20, 64
_THREADS = (32, 64, 128, 256, 512, 1024)


def arguments(sub: argparse.ArgumentParser) -> None:
    group = sub.add_argument_group("--with ncu")
    group.add_argument("--grids", metavar="1,8,64,512", help="square by grids of so many blocks")
    group.add_argument("--blocks", metavar="128,256", help=f"threads of their blocks (default {_BLOCKS})")


def opens(args: argparse.Namespace) -> bool:
    """Whether what is opened are reports of ncu's, or pages of them."""
    return bool(args.open and args.target) and all(Path(name).suffix in (".ncu-rep", ".csv") for name in args.target)


def refuse(args: argparse.Namespace) -> None:
    if args.tool != "ncu" and (args.grids or args.blocks):
        raise UserError("--grids and --blocks are of a sweep by Nsight Compute: add --with ncu")
    if args.blocks and not args.grids:
        raise UserError("--blocks are of a sweep over grids: add --grids 1,8,64,512")


def run(args: argparse.Namespace, rest: list[str]) -> int:
    from kernellab.running.parent import nsight_compute as ncu

    if args.module or not args.target or args.target[0] == "mlp" or programs.is_script(args.target[0]):
        raise UserError("--with ncu counts the launches of an op, each many times over: klab profile --with ncu gelu")
    if args.schedule:
        raise UserError("--schedule is of traces: ncu counts one call")
    if len(args.target) > 1:
        raise UserError(f"one op at a time, not {len(args.target)}")
    sizes = _sizes(args)
    asked = {**programs.op_asked(args, rest), **sizes, "do": "grids" if sizes else "count"}
    name = asked["target"]["op"] or Path(args.target[0]).stem
    path = ncu.needed(asked, name)
    journal = begun(args.out, programs.settings_of(args, absolute(args.target[0])), "profile-ncu-")
    try:
        document = (_swept if sizes else _ways)(asked, journal.folder / "artifacts", name, path)
    except UserError:
        if not list((journal.folder / "artifacts").glob("*.log")):
            journal.remove()  # nothing was run
        else:
            journal.close()
        raise
    return _kept(args, document, journal)


def read(args: argparse.Namespace, rest: list[str]) -> int:
    """What comes back from another machine."""
    from kernellab.running.parent import nsight_compute as ncu

    if rest or args.words or args.compare:
        raise UserError("a report is read as it is: give --open files only, and how to show them")
    document = _plain(ncu.opened([Path(name) for name in args.target]))
    if args.out:
        _write(document, folder_for(args.out))
    _tell(args, document)
    return 0


def _sizes(args: argparse.Namespace) -> dict[str, list[int]]:
    if not args.grids:
        return {}
    if args.target[0] != "square":
        raise UserError("--grids is of square, whose kernel takes a grid of any size: klab profile --with ncu square")
    if args.impl or args.passes:
        raise UserError("--grids counts a kernel of its own: leave out --impl and --pass")
    grids, blocks = parse_sizes("grids", args.grids), parse_sizes("blocks", args.blocks or _BLOCKS)
    for size in grids:
        if not 1 <= size <= _MOST_BLOCKS:
            raise UserError(f"--grids {size}: from 1 to {_MOST_BLOCKS} blocks")
    for size in blocks:
        if size not in _THREADS:
            raise UserError(f"--blocks {size}: one of {', '.join(map(str, _THREADS))} threads")
    if len(grids) * len(blocks) > _MOST_LAUNCHES:
        raise UserError(f"{len(grids) * len(blocks)} launches are too many to count: at most {_MOST_LAUNCHES}")
    args.shape, args.dtype = args.shape or [_SHAPE], args.dtype or [_DTYPE]
    return {"grids": list(dict.fromkeys(grids)), "blocks": list(dict.fromkeys(blocks))}


def _ways(asked: Mapping[str, Any], folder: Path, name: str, path: str) -> dict[str, Any]:
    from kernellab.analysis.counters import impl_counters
    from kernellab.running.parent import nsight_compute as ncu

    folder.mkdir(parents=True, exist_ok=True)
    found, skipped = [], []
    for one in ncu.ways(asked, folder / "ways.json"):
        if one["reason"]:
            skipped.append({"impl": one["impl"], "reason": one["reason"]})
            continue
        print(f"counting {name} {one['impl']}", file=sys.stderr)
        report = folder / f"{file_name(name)}-{file_name(one['impl'])}{ncu.SUFFIX}"
        try:
            counted = ncu.count({**asked, "impls": [one["impl"]]}, report, path)
        except ncu.WayFailed as error:
            skipped.append({"impl": one["impl"], "reason": error.message})
            continue
        said = counted.answer[0] if counted.answer else {}
        made = impl_counters(one["impl"], counted.launches, counted.rules, said.get("cost"), one["case"]["dtype"])
        found.append({**made, "case": one["case"], "report": counted.report})
    if not found:
        reasons = "\n".join(f"  {one['impl']}: {one['reason']}" for one in skipped)
        raise UserError(f"nothing of {name} could be counted", reasons)
    return {"op": name, "ways": found, "skipped": skipped}


def _swept(asked: Mapping[str, Any], folder: Path, name: str, path: str) -> dict[str, Any]:
    from kernellab.analysis.counters import sweep
    from kernellab.running.parent import nsight_compute as ncu

    folder.mkdir(parents=True, exist_ok=True)
    counted = ncu.count(asked, folder / f"{file_name(name)}-grids{ncu.SUFFIX}", path)
    case = counted.answer[0]["case"] if counted.answer else None
    return {"op": name, "case": case, "sweep": sweep(counted.launches, counted.rules), "report": counted.report}


def _plain(counted: Counted) -> dict[str, Any]:
    from kernellab.analysis.counters import impl_counters, sweep

    if len(counted.launches) > 1 and all(launch.function == _SWEPT for launch in counted.launches):
        return {"op": "square", "case": None, "sweep": sweep(counted.launches, counted.rules)}
    return {"op": None, "ways": [impl_counters("", counted.launches, counted.rules, None, "")], "skipped": []}


def _kept(args: argparse.Namespace, document: dict[str, Any], journal: Journal) -> int:
    from kernellab.record.run_events import LaunchesCounted, RunCompleted

    journal.write(LaunchesCounted(op=document.get("op"), skipped=document.get("skipped")))
    journal.write(RunCompleted())
    journal.save()
    journal.close()
    document["folder"] = shown(journal.folder)
    _write(document, journal.folder)
    _tell(args, document)
    return 0


def _write(document: Mapping[str, Any], folder: Path) -> None:
    from kernellab.analysis.counters import COLUMNS, csv_rows

    (folder / "counters.json").write_text(json.dumps(document, indent=1, allow_nan=False))
    with (folder / "counters.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(csv_rows(_kernels(document)))


def _kernels(document: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    if "sweep" in document:
        return document["sweep"]  # type: ignore[no-any-return]
    return [row for one in document["ways"] for row in one["kernels"]]


def _tell(args: argparse.Namespace, document: Mapping[str, Any]) -> None:
    from kernellab.reporting.profiles.counters import lines

    if args.json:
        json.dump(document, sys.stdout, indent=1, allow_nan=False)
        print()
        return
    for line in lines(document, name_width=args.name_width):
        print(line)
    if "folder" in document:
        print(f"record: {document['folder']}")
