"""`klab profile --with ncu`: counts the launches of an op with Nsight Compute, and opens its reports."""

from __future__ import annotations

import argparse
import csv
import io
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from kernellab.base.errors import UserError
from kernellab.base.paths import file_name, replace_file
from kernellab.cli.options import absolute_target, print_json
from kernellab.cli.profiling import programs
from kernellab.cli.run_folder import create_folder, create_journal, display_path
from kernellab.declaration.case_request import parse_sizes

if TYPE_CHECKING:
    from kernellab.counters.tables import CountersDocument, ImplRow, KernelRow
    from kernellab.profiler.protocol import OpRequest, SkippedImpl
    from kernellab.record.journal import Journal
    from kernellab.running.parent.nsight_compute import CounterReport

_SHAPE, _DTYPE = "4096x4096", "float32"  # of a sweep over grids: a single block still ends in a tenth of a second
_SWEPT_KERNEL = "square_strided"
_THREADS = "128"
_ALLOWED_THREADS = (32, 64, 128, 256, 512, 1024)
_MOST_BLOCKS, _MOST_LAUNCHES = 1 << 20, 64


def add_options(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("options for --with ncu")
    group.add_argument("--grids", metavar="1,8,64,512", help="count square with grids of these numbers of blocks")
    group.add_argument("--blocks", metavar="128,256", help=f"with --grids: threads per block (default {_THREADS})")


def opens_reports(args: argparse.Namespace) -> bool:
    """Whether the files to open are reports of ncu or their CSV pages."""
    return bool(args.open and args.target) and all(Path(name).suffix in (".ncu-rep", ".csv") for name in args.target)


def check_options(args: argparse.Namespace) -> None:
    if args.tool != "ncu" and (args.grids or args.blocks):
        raise UserError("--grids and --blocks are for Nsight Compute: add --with ncu")
    if args.blocks and not args.grids:
        raise UserError("--blocks is for a sweep over grids: add --grids 1,8,64,512")


def run(args: argparse.Namespace) -> int:
    from kernellab.running.parent import nsight_compute as ncu

    if args.module or not args.target or args.target[0] == "mlp" or programs.is_script(args.target[0]):
        raise UserError("--with ncu counts the launches of an op: klab profile --with ncu gelu")
    if args.schedule:
        raise UserError("--schedule is for traces: ncu counts one call")
    if len(args.target) > 1:
        raise UserError(f"one op at a time, not {len(args.target)}")
    request = _request(args)
    name = request["target"]["op"] or Path(args.target[0]).stem
    path = ncu.require_tool(request, name)
    settings = programs.settings_for(args, absolute_target(args.target[0]))
    journal = create_journal(args.out, settings, "profile-ncu-")
    artifacts = journal.folder / "artifacts"
    count = _count_grids if "grids" in request else _count_impls
    try:
        artifacts.mkdir(parents=True, exist_ok=True)
        document = count(request, artifacts, name, path)
    except UserError:
        if not list(artifacts.glob("*.log")):
            journal.remove()  # nothing was run
        else:
            journal.close()
        raise
    return _finish(args, document, journal)


def open_reports(args: argparse.Namespace) -> int:
    """Reads reports that were made elsewhere."""
    from kernellab.running.parent import nsight_compute as ncu

    if args.dims or args.script_arguments or args.compare:
        raise UserError("--open reads reports and runs nothing: leave out dims, --compare and arguments after --")
    document = _report_document(ncu.read_files([Path(name) for name in args.target]))
    if args.out:
        _write_files(document, create_folder(args.out))
    _print(args, document)
    return 0


def _request(args: argparse.Namespace) -> OpRequest:
    """The request to count one call of each implementation, or a sweep over grids."""
    if not args.grids:
        request = programs.op_request(args)
        request["do"] = "count"
        return request
    if args.target[0] != "square":
        raise UserError("--grids is for square, whose kernel takes any grid: klab profile --with ncu square")
    if args.impl or args.passes:
        raise UserError("--grids counts a kernel of its own: leave out --impl and --pass")
    grids, threads = parse_sizes("grids", args.grids), parse_sizes("blocks", args.blocks or _THREADS)
    for size in grids:
        if not 1 <= size <= _MOST_BLOCKS:
            raise UserError(f"--grids {size}: must be from 1 to {_MOST_BLOCKS} blocks")
    for size in threads:
        if size not in _ALLOWED_THREADS:
            raise UserError(f"--blocks {size}: must be one of {', '.join(map(str, _ALLOWED_THREADS))} threads")
    if len(grids) * len(threads) > _MOST_LAUNCHES:
        raise UserError(f"{len(grids) * len(threads)} launches are too many to count: at most {_MOST_LAUNCHES}")
    args.shape, args.dtype = args.shape or [_SHAPE], args.dtype or [_DTYPE]
    request = programs.op_request(args)
    request |= {"do": "grids", "grids": list(dict.fromkeys(grids)), "blocks": list(dict.fromkeys(threads))}
    return request


def _count_impls(request: OpRequest, folder: Path, name: str, path: str) -> CountersDocument:
    from kernellab.counters.tables import impl_row
    from kernellab.running.parent import nsight_compute as ncu

    rows: list[ImplRow] = []
    skipped: list[SkippedImpl] = []
    for listing in ncu.list_impls(request, folder / "impls.json"):
        impl, case = listing["impl"], listing["case"]
        if listing["reason"]:
            skipped.append({"impl": impl, "reason": listing["reason"]})
            continue
        print(f"counting {name} {impl}", file=sys.stderr)
        report = folder / f"{file_name(name)}-{file_name(impl)}{ncu.SUFFIX}"
        try:
            counted = ncu.count({**request, "impls": [impl]}, report, path)
        except ncu.NothingCounted as error:
            skipped.append({"impl": impl, "reason": error.message})
            continue
        cost = counted.answers[0].get("cost") if counted.answers else None
        row = impl_row(impl, counted.launches, counted.rules, cost, case["dtype"])
        row |= {"case": case, "report": counted.report}
        rows.append(row)
    if not rows:
        reasons = "\n".join(f"  {entry['impl']}: {entry['reason']}" for entry in skipped)
        raise UserError(f"nothing of {name} could be counted", reasons)
    return {"op": name, "impls": rows, "skipped": skipped}


def _count_grids(request: OpRequest, folder: Path, name: str, path: str) -> CountersDocument:
    from kernellab.counters.tables import sweep_rows
    from kernellab.running.parent import nsight_compute as ncu

    counted = ncu.count(request, folder / f"{file_name(name)}-grids{ncu.SUFFIX}", path)
    case = counted.answers[0].get("case") if counted.answers else None
    rows = sweep_rows(counted.launches, counted.rules)
    return {"op": name, "case": case, "sweep": rows, "report": counted.report}


def _report_document(counted: CounterReport) -> CountersDocument:
    from kernellab.counters.tables import impl_row, sweep_rows

    if len(counted.launches) > 1 and all(launch.function == _SWEPT_KERNEL for launch in counted.launches):
        return {"op": "square", "case": None, "sweep": sweep_rows(counted.launches, counted.rules)}
    return {"op": None, "impls": [impl_row("", counted.launches, counted.rules, None, "")], "skipped": []}


def _finish(args: argparse.Namespace, document: CountersDocument, journal: Journal) -> int:
    from kernellab.record.run_events import LaunchesCounted, RunCompleted

    journal.write(LaunchesCounted(op=document["op"], skipped=document.get("skipped")))
    journal.write(RunCompleted())
    journal.save()
    journal.close()
    document["folder"] = display_path(journal.folder)
    _write_files(document, journal.folder)
    _print(args, document)
    return 0


def _write_files(document: CountersDocument, folder: Path) -> None:
    from kernellab.counters.tables import COLUMNS, csv_rows

    replace_file(folder / "counters.json", json.dumps(document, indent=1, allow_nan=False).encode())
    table = io.StringIO()
    writer = csv.DictWriter(table, COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(csv_rows(_kernels(document)))
    replace_file(folder / "counters.csv", table.getvalue().encode())


def _kernels(document: CountersDocument) -> Sequence[KernelRow]:
    if "sweep" in document:
        return document["sweep"]
    return [kernel for impl in document["impls"] for kernel in impl["kernels"]]


def _print(args: argparse.Namespace, document: CountersDocument) -> None:
    from kernellab.reporting.profiles.counters import lines

    if args.json:
        print_json(document)
        return
    for line in lines(document, name_width=args.name_width):
        print(line)
    if "folder" in document:
        print(f"record: {document['folder']}")
