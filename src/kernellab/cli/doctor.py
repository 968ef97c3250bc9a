"""`klab doctor`: what was found, what each missing thing costs, how to get it."""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict


def arguments(sub: argparse.ArgumentParser, verb: str) -> None:
    sub.add_argument("--json", action="store_true", help="print one JSON document")


def run(args: argparse.Namespace, rest: list[str]) -> int:
    from kernellab.cli.options import dims_in
    from kernellab.machine.doctor import examine

    dims_in(rest)
    findings = examine()
    if args.json:
        print(json.dumps([asdict(finding) for finding in findings], indent=1))
        return 0
    for finding in findings:
        if finding.found:
            print(f"  {finding.name:<16} {finding.found}")
        else:
            remedy = f"; {finding.remedy}" if finding.remedy else ""
            print(f"✗ {finding.name:<16} not found: {finding.cost}{remedy}")
    return 0
