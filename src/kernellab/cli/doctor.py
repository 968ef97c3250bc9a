"""`klab doctor`: what was found, what each missing thing costs, how to get it; with `--aa`, how well it measures."""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import Any

from kernellab.base.errors import UserError

_AA_RUNS = 10


def arguments(sub: argparse.ArgumentParser, verb: str) -> None:
    sub.add_argument("--json", action="store_true", help="print one JSON document")
    sub.add_argument("--aa", action="store_true", help="measure equal ways, and known differences of 1, 2 and 5 %%")
    sub.add_argument("--runs", type=int, metavar="N", help=f"with --aa: runs, each a process (default {_AA_RUNS})")
    sub.add_argument("--seconds", type=float, metavar="S", help="with --aa: time to spend timing each way")
    sub.add_argument("--device", metavar="DEV", help="with --aa: cpu, cuda or cuda:1")
    sub.add_argument("--out", metavar="DIR", help="with --aa: keep the runs' records there")


def run(args: argparse.Namespace, rest: list[str]) -> int:
    from kernellab.cli.options import dims_in

    dims_in(rest)
    if args.aa:
        return _measure_equals(args)
    for name in ("runs", "seconds", "device", "out"):
        if getattr(args, name) is not None:
            raise UserError(f"--{name} says how to run --aa: klab doctor --aa --{name} {getattr(args, name)}")
    return _examine(args)


def _examine(args: argparse.Namespace) -> int:
    from kernellab.doctor.installation import examine

    findings = examine()
    if args.json:
        print(json.dumps([asdict(finding) for finding in findings], indent=1))
        return 0
    for finding in findings:
        if finding.found:
            print(f"  {finding.name:<17} {finding.found}")
        else:
            remedy = f"; {finding.remedy}" if finding.remedy else ""
            print(f"✗ {finding.name:<17} not found: {finding.cost}{remedy}")
    return 0


def _measure_equals(args: argparse.Namespace) -> int:
    from kernellab.cli.options import device_in, positive
    from kernellab.doctor.aa_runs import repeat
    from kernellab.doctor.aa_summary import summarise, variations
    from kernellab.machine import variation

    runs = args.runs if args.runs is not None else _AA_RUNS
    for name, value in (("--runs", runs), ("--seconds", args.seconds)):
        if value is not None:
            positive(name, value)
    device = device_in(args.device)
    with tempfile.TemporaryDirectory(prefix="kernellab-aa-") as scratch:
        folder = Path(args.out or scratch)
        found = repeat(runs, folder, device=device, seconds=args.seconds, say=_say)
    summary = summarise(found.records)
    known = variations(summary)
    if known:
        variation.store_variation(summary["machine"], summary["versions"], summary["runs"], known)
    _report(summary, as_json=args.json)
    if found.interrupted:
        return 130
    return 0 if found.records else 3


def _report(summary: dict[str, Any], *, as_json: bool) -> None:
    if as_json:
        json.dump(summary, sys.stdout, indent=1, allow_nan=False)
        print()
        return
    from kernellab.reporting.terminal import aa as validation
    from kernellab.reporting.text.console import console

    if summary["runs"]:
        validation.show(summary, console())
    else:
        print("no run could be completed")


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
