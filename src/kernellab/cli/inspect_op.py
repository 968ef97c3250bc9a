"""`klab inspect OP`: what an op's ways compile to, for any architecture, from their own launches."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kernellab.base.errors import UserError, nearest
from kernellab.cli.begin import absolute, begun, progress_bar, shown
from kernellab.cli.options import case_arguments, case_request, positive

if TYPE_CHECKING:
    from kernellab.codeanalysis.code_files import Listing
    from kernellab.record.schema import Record
    from kernellab.record.settings import Settings
    from kernellab.reporting.terminal.inspection import InspectedKernel

LEVELS = ("ttir", "ttgir", "llir", "ptx", "sass", "source")
SHOWN = ("facts", "explain", *LEVELS)
_OLDEST = (7, 5)
_SOURCES = ("py", "cu", "cpp")


def arguments(sub: argparse.ArgumentParser) -> None:
    case_arguments(sub)
    sub.add_argument(
        "--arch", metavar="sm_90,…", help="architectures, sm_75 to sm_121 (default: the GPU's, else sm_90)"
    )
    sub.add_argument("--pass", dest="passes", metavar="P", help="forward, backward, both (default forward)")
    sub.add_argument(
        "--timeout", type=float, metavar="S", help="seconds without a sign of life (60, with --export 300)"
    )
    sub.add_argument("--out", metavar="DIR", help="the run's folder (default: runs/WHEN-inspect-NAME)")
    sub.add_argument("--export", metavar="FILE", help="write an op file of the Triton that torch.compile generates")
    sub.add_argument("--timings", metavar="RUN", help="with --diff: how long the two took in an earlier run")
    sub.epilog = "Named dims are options too: --N 1024. No GPU is needed, nor a CUDA toolkit."


def run(args: argparse.Namespace, rest: list[str]) -> int:
    from kernellab.record.verdict import BAD

    show = args.show or "facts"
    if show not in SHOWN:
        raise UserError(f"--show {show}: {nearest(show, SHOWN)}")
    if args.diff is not None:
        from kernellab.cli import inspect_diff

        return inspect_diff.run(args, lambda impls, archs: _inspected(args, _settings(args, rest, impls, archs)))
    if args.timings is not None:
        raise UserError("--timings tells how long two kernels took: name them, --diff triton cuda")
    record, folder = _inspected(args, _settings(args, rest))
    if args.kernel is not None:
        _keep(record, args.kernel)
    if args.export:
        _export(record, folder, Path(args.export))
    if args.html:
        _write_page(record, folder, Path(args.html))
    if args.json:
        json.dump(_document(record, folder), sys.stdout, indent=1, allow_nan=False)
        print()
    elif show == "explain":
        _explain(record, folder)
    elif show in LEVELS:
        _print_level(record, folder, show)
    else:
        _print_facts(record, folder)
    return 1 if any(entry["status"] in BAD for entry in record["code"]) else 0


def _inspected(args: argparse.Namespace, settings: Settings) -> tuple[Record, Path]:
    """The record of one inspection, and the folder its files are in."""
    from kernellab.running.parent.inspection import Inspection

    journal = begun(args.out, settings, "inspect-")
    progress = progress_bar()
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


def _settings(
    args: argparse.Namespace, rest: list[str], impls: list[str] | None = None, archs: list[str] | None = None
) -> Settings:
    from kernellab.declaration.targets import resolve
    from kernellab.record.settings import Settings

    if not args.target:
        raise UserError("no op named: klab inspect gelu --diff triton cuda")
    if len(args.target) > 1:
        raise UserError(f"klab inspect takes one op at a time, not {len(args.target)}: {' '.join(args.target)}")
    resolve(args.target[0])
    args.quick = False
    request = case_request(args, rest)
    return Settings(
        targets=[absolute(args.target[0])],
        stages=["inspect"],
        # Without sizes the first case is meant: every further one is another compilation.
        request={**request.to_json(), "quick": not (request.shapes or request.dims)},
        impls=impls or ([name.strip() for name in args.impl.split(",")] if args.impl else []),
        archs=archs or _archs(args.arch),
        passes=_passes(args.passes),
        timeout_s=positive("--timeout", _patience(args)),
    )


def _patience(args: argparse.Namespace) -> float:
    """Seconds. What is exported is torch.compile's, which is silent for as long as it takes."""
    if args.timeout is not None:
        return float(args.timeout)
    return 300.0 if args.export else 60.0


def _archs(text: str | None) -> list[str]:
    from kernellab.machine.chips import chip

    found = list(dict.fromkeys(chip(part) for part in text.split(","))) if text else []
    for one in found:
        if one.capability < _OLDEST:
            raise UserError(f"--arch {one.arch}: CUDA 13's compiler and disassembler know sm_75 and later")
    return [one.arch for one in found]


def _passes(text: str | None) -> list[str]:
    known = ("forward", "backward", "both")
    chosen = [part.strip() for part in (text or "forward").split(",")]
    for part in chosen:
        if part not in known:
            raise UserError(f"--pass {part}: {nearest(part, known)}")
    return list(dict.fromkeys(chosen))


def _document(record: Record, folder: Path) -> dict[str, Any]:
    from kernellab.reporting.terminal.inspection import list_failures, list_kernels

    head = {key: record[key] for key in ("schema", "command", "environment")}
    return {**head, "folder": shown(folder), "kernels": list_kernels(record), "others": list_failures(record)}


def _keep(record: Record, name: str) -> None:
    """Only the kernels of one name, with or without the arguments of a template, or of a part of it."""
    from kernellab.machinecode.kernel_names import match_symbols

    known = {kernel["name"] for entry in record["code"] for kernel in entry["kernels"]}
    found = match_symbols(name, known)
    if not found:
        raise UserError(f"no kernel {name!r}: {nearest(name, known)}")
    for entry in record["code"]:
        entry["kernels"] = [k for k in entry["kernels"] if k["name"] in found]


def _print_facts(record: Record, folder: Path) -> None:
    from kernellab.reporting.terminal import inspection
    from kernellab.reporting.text.console import console

    out = console()
    inspection.show_inspection(record, out)
    out.print(f"files: {shown(folder / 'artifacts')}", style="dim")


def listing_of(kernel: InspectedKernel, folder: Path) -> Listing:
    """A captured kernel as a file of machine code is: its cubin with the PTX it was made from."""
    from kernellab.codeanalysis.code_files import listing_from_cubin
    from kernellab.reporting.terminal.inspection import describe_configuration

    if "cubin" not in kernel["files"]:
        raise UserError(f"{kernel['impl']} {kernel['name']} has no machine code of a GPU")
    files = {level: folder / file for level, file in kernel["files"].items()}
    ptx = files["ptx"].read_text() if "ptx" in files else ""
    configuration = describe_configuration(kernel["tuned"], kernel["config"])
    name = " ".join(filter(None, (f"{kernel['impl']}@{kernel['arch']}", kernel["name"], configuration)))
    found = listing_from_cubin(name, files["cubin"].read_bytes(), ptx)
    found.facts = [one for one in found.facts if one.name == kernel["symbol"]]
    return found


def _read(record: Record, folder: Path) -> list[tuple[InspectedKernel, Listing]]:
    from kernellab.reporting.terminal.inspection import list_kernels

    found = [(k, listing_of(k, folder)) for k in list_kernels(record) if "cubin" in k["files"]]
    if not found:
        raise UserError(f"no PTX to explain: {_reasons(record)}")
    return found


def _explain(record: Record, folder: Path) -> None:
    from kernellab.cli.inspect_files import explained
    from kernellab.reporting.terminal import code, inspection
    from kernellab.reporting.text.console import console

    out = console()
    for kernel, listing in _read(record, folder):
        out.print(listing.name, style="bold")
        for line in inspection.describe_parameters(kernel):
            out.print(f" {line}", soft_wrap=True)
        code.show_explained(explained(listing), out)


def _write_page(record: Record, folder: Path, path: Path) -> None:
    from kernellab.cli.inspect_files import explained, problems
    from kernellab.cli.options import write_to
    from kernellab.reporting.pages.ptx import write_page
    from kernellab.reporting.terminal.inspection import describe_parameters

    found = _read(record, folder)
    if len(found) != 1:
        raise UserError(f"--html writes one kernel's page, {len(found)} were read: --impl, --arch and --kernel choose")
    ((kernel, one),) = found
    text = write_page(one.name, explained(one), one.facts, [*describe_parameters(kernel), *one.notes, *problems(one)])
    write_to("--html", path, text)


def _export(record: Record, folder: Path, path: Path) -> None:
    from kernellab.reporting.terminal.inspection import list_kernels

    found = list_kernels(record)
    files = list(dict.fromkeys(k["files"]["export"] for k in found if "export" in k["files"]))
    if len(files) != 1:
        why = next((k["not_exported"] for k in found if k.get("not_exported")), None) or _reasons(record)
        several = f"{len(files)} could be written: --impl, --arch and one case choose" if files else why
        raise UserError(f"--export writes one op file of a way of torch.compile: {several}")
    if path.exists():
        raise UserError(f"--export {path}: there is such a file already; name another")
    path.write_text((folder / files[0]).read_text())
    print(f"wrote {path}: klab run {path} checks and times it", file=sys.stderr)


def _reasons(record: Record) -> str:
    said = dict.fromkeys(f"{entry['impl']}: {entry['reason']}" for entry in record["code"] if entry["reason"])
    return "; ".join(said) or "the ways asked for have none"


def _print_level(record: Record, folder: Path, level: str) -> None:
    """The text itself, to be read or piped; between kernels a line that is a comment in each of these languages."""
    from kernellab.reporting.terminal.inspection import describe_configuration, list_kernels

    found = 0
    for k in list_kernels(record):
        endings = _SOURCES if level == "source" else (level,)
        file = next((k["files"][end] for end in endings if end in k["files"]), None)
        if file is None:
            continue
        found += 1
        head = " ".join(
            filter(None, (k["impl"], k["name"], k["arch"], describe_configuration(k["tuned"], k["config"])))
        )
        print(f"// {head}\n{(folder / file).read_text().rstrip()}\n")
    if not found:
        raise UserError(f"no {level} to show: {_reasons(record)}")
