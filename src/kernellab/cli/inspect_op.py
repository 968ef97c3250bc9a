"""`klab inspect OP`: what an op's ways compile to, for any architecture, from their own launches."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from kernellab.cli.begin import absolute, begun, progress_bar, shown
from kernellab.cli.options import case_request, positive
from kernellab.errors import UserError, nearest

LEVELS = ("ttir", "ttgir", "llir", "ptx", "sass", "source")
SHOWN = ("facts", *LEVELS)
_BAD = ("error", "crashed", "timeout", "oom")
_SOURCES = ("py", "cu", "cpp")


def arguments(sub: argparse.ArgumentParser) -> None:
    sub.add_argument("--impl", metavar="A,B", help="only these ways; shell patterns too: 'triton*'")
    sub.add_argument(
        "--arch", metavar="sm_90,…", help="architectures, sm_75 to sm_121 (default: the GPU's, else sm_90)"
    )
    sub.add_argument("--shape", action="append", metavar="4096x4096,…", help="sizes (default: the op's first case)")
    sub.add_argument("--dtype", action="append", metavar="float32,…", help="float32, float16, bfloat16, float64")
    sub.add_argument("--opt", action="append", metavar="NAME=VALUE", help="an option of the op, several by commas")
    sub.add_argument("--pass", dest="passes", metavar="P", help="forward, backward, both (default forward)")
    sub.add_argument("--timeout", type=float, default=60.0, metavar="S", help="seconds without a sign of life (60)")
    sub.add_argument("--out", metavar="DIR", help="the run's folder (default: runs/WHEN-inspect-NAME)")
    sub.epilog = "Named dims are options too: --N 1024. No GPU is needed, nor a CUDA toolkit."


def run(args: argparse.Namespace, rest: list[str]) -> int:
    from kernellab.reporting import inspected, terminal
    from kernellab.running.inspecting import Inspection

    show = args.show or "facts"
    if show not in SHOWN:
        raise UserError(f"--show {show}: {nearest(show, SHOWN)}")
    settings = _settings(args, rest)
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
    record, folder = journal.record, journal.folder
    out = terminal.console()
    if args.json:
        json.dump(_document(record, folder), sys.stdout, indent=1, allow_nan=False)
        print()
    elif show in LEVELS:
        _print_level(record, folder, show)
    else:
        inspected.show(record, out)
        out.print(f"files: {shown(folder / 'artifacts')}", style="dim")
    return 1 if any(entry["status"] in _BAD for entry in record["code"]) else 0


def _settings(args: argparse.Namespace, rest: list[str]) -> Any:
    from kernellab.running.settings import Settings
    from kernellab.targets import resolve

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
        impls=[name.strip() for name in args.impl.split(",")] if args.impl else [],
        archs=_archs(args.arch),
        passes=_passes(args.passes),
        timeout_s=positive("--timeout", args.timeout),
    )


def _archs(text: str | None) -> list[str]:
    from kernellab.machine.chips import chip

    return list(dict.fromkeys(chip(part).arch for part in text.split(","))) if text else []


def _passes(text: str | None) -> list[str]:
    known = ("forward", "backward", "both")
    chosen = [part.strip() for part in (text or "forward").split(",")]
    for part in chosen:
        if part not in known:
            raise UserError(f"--pass {part}: {nearest(part, known)}")
    return list(dict.fromkeys(chosen))


def _document(record: dict[str, Any], folder: Path) -> dict[str, Any]:
    from kernellab.reporting.inspected import kernels, others

    head = {key: record[key] for key in ("schema", "command", "environment")}
    return {**head, "folder": shown(folder), "kernels": kernels(record), "others": others(record)}


def _print_level(record: dict[str, Any], folder: Path, level: str) -> None:
    """The text itself, to be read or piped; between kernels a line that is a comment in each of these languages."""
    from kernellab.reporting.inspected import configuration, kernels

    found = 0
    for k in kernels(record):
        endings = _SOURCES if level == "source" else (level,)
        file = next((k["files"][end] for end in endings if end in k["files"]), None)
        if file is None:
            continue
        found += 1
        head = " ".join(filter(None, (k["impl"], k["name"], k["arch"], configuration(k))))
        print(f"// {head}\n{(folder / file).read_text().rstrip()}\n")
    if not found:
        reasons = "; ".join(f"{entry['impl']}: {entry['reason']}" for entry in record["code"] if entry["reason"])
        raise UserError(f"no {level} to show{': ' + reasons if reasons else ' for the ways asked for'}")
