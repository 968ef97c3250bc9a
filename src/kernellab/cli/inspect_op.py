"""`klab inspect OP`: what an op's implementations compile to, for any architecture, from their own launches."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from kernellab.base.errors import UserError, nearest
from kernellab.cli.inspect_files import explain_lines, problem_lines
from kernellab.cli.options import (
    PASSES,
    absolute_target,
    add_case_options,
    choose,
    choose_several,
    print_json,
    require_positive,
    sized_request,
    split_commas,
    write_file,
)
from kernellab.cli.run_folder import create_journal, display_path

if TYPE_CHECKING:
    from kernellab.codeanalysis.code_files import Listing
    from kernellab.record.schema import Record
    from kernellab.record.settings import Settings
    from kernellab.reporting.terminal.inspection import InspectedKernel

_LEVELS = ("ttir", "ttgir", "llir", "ptx", "sass", "source")
SHOW_CHOICES = ("facts", "explain", *_LEVELS)
_OLDEST = (7, 5)  # the lowest compute capability that CUDA 13 compiles for
_SOURCE_SUFFIXES = ("py", "cu", "cpp")
_TIMEOUT_S = 60.0
_EXPORT_TIMEOUT_S = 300.0  # torch.compile, which an export runs, reports nothing while it works


def add_options(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("options for an op")
    add_case_options(group)
    group.add_argument(
        "--arch", metavar="sm_90,…", help="architectures, sm_75 to sm_121 (default: the GPU's, else sm_90)"
    )
    group.add_argument("--pass", dest="passes", metavar="P", help="forward, backward, both (default forward)")
    group.add_argument(
        "--timeout",
        type=float,
        metavar="S",
        help="seconds an implementation may take without reporting anything (default 60, with --export 300)",
    )
    group.add_argument("--out", metavar="DIR", help="the run's folder (default: runs/WHEN-inspect-NAME)")
    group.add_argument(
        "--export", metavar="FILE", help="write the Triton code that torch.compile generates as an op file"
    )
    group.add_argument(
        "--timings", metavar="RUN", help="with --diff: also show how long the two took in an earlier run"
    )


def run(args: argparse.Namespace) -> int:
    from kernellab.record.statuses import FAILED

    show = choose("--show", args.show or "facts", SHOW_CHOICES)
    if args.timings is not None:
        raise UserError("--timings shows how long two kernels took: name them, --diff triton cuda")
    record, folder = inspect(args)
    if args.kernel is not None:
        _keep_kernels(record, args.kernel)
    if args.export:
        _export(record, folder, Path(args.export))
    if args.html:
        _write_page(record, folder, Path(args.html))
    if args.json:
        print_json(_document(record, folder))
    elif show == "explain":
        _explain(record, folder)
    elif show in _LEVELS:
        _print_level(record, folder, show)
    else:
        _print_facts(record, folder)
    return 1 if any(entry["status"] in FAILED for entry in record["code"]) else 0


def inspect(
    args: argparse.Namespace, impls: list[str] | None = None, archs: list[str] | None = None
) -> tuple[Record, Path]:
    """Captures and reads an op's kernels: the record, and the folder of its files.

    `impls` and `archs` take the place of `--impl` and `--arch`.
    """
    from kernellab.reporting.terminal.progress import stderr_progress
    from kernellab.running.parent.inspection import Inspection

    settings = _settings(args, impls, archs)
    journal = create_journal(args.out, settings, "inspect-")
    progress = stderr_progress()
    try:
        Inspection(settings, journal, progress.say).run()
    except UserError:
        if not journal.record["code"]:
            journal.remove()
        raise
    finally:
        progress.stop()
    journal.save()
    journal.close()
    return journal.record, journal.folder


def _settings(args: argparse.Namespace, impls: list[str] | None, archs: list[str] | None) -> Settings:
    from kernellab.declaration.targets import resolve
    from kernellab.record.settings import Settings

    if not args.target:
        raise UserError("no op named: klab inspect gelu --diff triton cuda")
    if len(args.target) > 1:
        raise UserError(f"klab inspect takes one op at a time, not {len(args.target)}: {' '.join(args.target)}")
    resolve(args.target[0])
    return Settings(
        targets=[absolute_target(args.target[0])],
        stages=["inspect"],
        request=sized_request(args).to_json(),
        impls=impls or split_commas(args.impl),
        archs=archs or _parse_archs(args.arch),
        passes=choose_several("--pass", args.passes or "forward", PASSES),
        timeout_s=require_positive("--timeout", timeout_s(args)),
    )


def timeout_s(args: argparse.Namespace) -> float:
    if args.timeout is not None:
        return float(args.timeout)
    return _EXPORT_TIMEOUT_S if args.export else _TIMEOUT_S


def _parse_archs(text: str | None) -> list[str]:
    from kernellab.machine.chips import chip

    chips = list(dict.fromkeys(chip(part) for part in split_commas(text)))
    for architecture in chips:
        if architecture.capability < _OLDEST:
            raise UserError(f"--arch {architecture.arch}: CUDA 13 compiles for sm_75 and later only")
    return [architecture.arch for architecture in chips]


def _document(record: Record, folder: Path) -> dict[str, object]:
    from kernellab.reporting.terminal.inspection import list_failures, list_kernels

    return {
        "schema": record["schema"],
        "command": record["command"],
        "environment": record["environment"],
        "folder": display_path(folder),
        "kernels": list_kernels(record),
        "others": list_failures(record),
    }


def _keep_kernels(record: Record, name: str) -> None:
    """Drops all kernels but those of a name, which may lack template arguments or be a part of the whole name."""
    from kernellab.machinecode.kernel_names import match_symbols

    names = {kernel["name"] for entry in record["code"] for kernel in entry["kernels"]}
    matching = match_symbols(name, names)
    if not matching:
        raise UserError(f"no kernel {name!r}: {nearest(name, names)}")
    for entry in record["code"]:
        entry["kernels"] = [kernel for kernel in entry["kernels"] if kernel["name"] in matching]


def _print_facts(record: Record, folder: Path) -> None:
    from kernellab.reporting.terminal import inspection
    from kernellab.reporting.text.console import console

    out = console()
    inspection.show_inspection(record, out)
    out.print(f"files: {display_path(folder / 'artifacts')}", style="dim")


def listing_of(kernel: InspectedKernel, folder: Path) -> Listing:
    """A captured kernel's machine code: its cubin, with the PTX it was assembled from."""
    from kernellab.codeanalysis.code_files import listing_from_cubin

    if "cubin" not in kernel["files"]:
        raise UserError(f"{kernel['impl']} {kernel['name']} has no machine code for a GPU")
    files = {level: folder / file for level, file in kernel["files"].items()}
    ptx = files["ptx"].read_text() if "ptx" in files else ""
    name = " ".join(filter(None, (f"{kernel['impl']}@{kernel['arch']}", kernel["name"], _configuration(kernel))))
    listing = listing_from_cubin(name, files["cubin"].read_bytes(), ptx)
    listing.facts = [facts for facts in listing.facts if facts.name == kernel.get("symbol", facts.name)]
    return listing


def _configuration(kernel: InspectedKernel) -> str:
    from kernellab.reporting.sentences.configuration import describe_configuration

    return describe_configuration(kernel["tuned"], kernel["config"])


def _listings(record: Record, folder: Path) -> list[tuple[InspectedKernel, Listing]]:
    """Every kernel that has machine code for a GPU, with its listing."""
    from kernellab.reporting.terminal.inspection import list_kernels

    listings = [(kernel, listing_of(kernel, folder)) for kernel in list_kernels(record) if "cubin" in kernel["files"]]
    if not listings:
        raise UserError(f"no PTX to explain: {_reasons(record)}")
    return listings


def _explain(record: Record, folder: Path) -> None:
    from kernellab.reporting.terminal import code, inspection
    from kernellab.reporting.text.console import console

    out = console()
    for kernel, listing in _listings(record, folder):
        out.print(listing.name, style="bold")
        for line in inspection.describe_parameters(kernel):
            out.print(f" {line}", soft_wrap=True)
        code.show_explained(explain_lines(listing), out)


def _write_page(record: Record, folder: Path, path: Path) -> None:
    from kernellab.reporting.pages.ptx import write_page
    from kernellab.reporting.terminal.inspection import describe_parameters

    listings = _listings(record, folder)
    if len(listings) != 1:
        raise UserError(
            f"--html writes the page of one kernel, not of {len(listings)}: --impl, --arch and --kernel choose one"
        )
    ((kernel, listing),) = listings
    notes = [*describe_parameters(kernel), *listing.notes, *problem_lines(listing)]
    write_file("--html", path, write_page(listing.name, explain_lines(listing), listing.facts, notes))


def _export(record: Record, folder: Path, path: Path) -> None:
    from kernellab.reporting.terminal.inspection import list_kernels

    entries = list_kernels(record)
    files = list(dict.fromkeys(kernel["files"]["export"] for kernel in entries if "export" in kernel["files"]))
    if len(files) != 1:
        refusals = (kernel["not_exported"] for kernel in entries if kernel.get("not_exported"))
        reason = next(refusals, None) or _reasons(record)
        if files:
            reason = f"there are {len(files)}: --impl, --arch and one case choose one"
        raise UserError(f"--export writes one op file of an implementation by torch.compile: {reason}")
    if path.exists():
        raise UserError(f"--export {path}: the file exists already: name another")
    path.write_text((folder / files[0]).read_text())
    print(f"wrote {path}: klab run {path} checks and times it", file=sys.stderr)


def _reasons(record: Record) -> str:
    reasons = dict.fromkeys(f"{entry['impl']}: {entry['reason']}" for entry in record["code"] if entry["reason"])
    return "; ".join(reasons) or "these implementations have none"


def _print_level(record: Record, folder: Path, level: str) -> None:
    """Prints the text of every kernel, to be read or piped. The heading of each is a comment in all these languages."""
    from kernellab.reporting.terminal.inspection import list_kernels

    suffixes = _SOURCE_SUFFIXES if level == "source" else (level,)
    count = 0
    for kernel in list_kernels(record):
        file = next((kernel["files"][suffix] for suffix in suffixes if suffix in kernel["files"]), None)
        if file is None:
            continue
        count += 1
        title = " ".join(filter(None, (kernel["impl"], kernel["name"], kernel["arch"], _configuration(kernel))))
        print(f"// {title}\n{(folder / file).read_text().rstrip()}\n")
    if not count:
        raise UserError(f"no {level} to show: {_reasons(record)}")
