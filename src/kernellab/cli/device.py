"""`klab device`: a GPU (or this CPU) as a table; with --measure, what it really does."""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict
from typing import Any

from kernellab.base.errors import UserError


def arguments(sub: argparse.ArgumentParser, verb: str) -> None:
    sub.add_argument("--gpu", metavar="NAME", help="a GPU of the database: a100, 'rtx 4090' (default: the one present)")
    sub.add_argument("--list", action="store_true", help="the GPUs of the database")
    sub.add_argument("--measure", action="store_true", help="measure bandwidths and matmul rates of the one present")
    sub.add_argument("--device", metavar="DEV", help="with --measure: cpu, cuda or cuda:1")
    sub.add_argument("--quick", action="store_true", help="with --measure: smaller and fewer, less exact")
    sub.add_argument("--json", action="store_true", help="print one JSON document")


def run(args: argparse.Namespace, rest: list[str]) -> int:
    from kernellab.cli.options import dims_in

    dims_in(rest)
    if sum((args.list, args.measure, args.gpu is not None)) > 1:
        raise UserError("--list, --gpu and --measure are three questions: ask one at a time")
    if not args.measure and (args.device or args.quick):
        raise UserError("--device and --quick say how to measure: klab device --measure --quick")
    if args.measure:
        return _measure(args)
    if args.list:
        return _list(args)
    return _describe(args)


def _describe(args: argparse.Namespace) -> int:
    from kernellab.reporting.terminal import device as report
    from kernellab.reporting.text.console import console

    described = _from_database(args.gpu) if args.gpu is not None else _present()
    if args.json:
        print(json.dumps(described, indent=1))
    else:
        report.show(described, console())
    return 0


def _from_database(name: str) -> dict[str, Any]:
    from kernellab.gpumodel.hierarchy import gpu_rows
    from kernellab.machine import gpus

    found = gpus.gpu(name)
    chip = found.chip
    memory = f"{found.memory_gb:g} GB {found.memory_kind}, {found.bus_bits} bit, {found.pin_gbps:.0f} GB/s"
    rows = gpu_rows(chip, found.sms, found.l2_bytes, memory)
    facts = {key: value for key, value in asdict(found).items() if not key.startswith("second")}
    rates = {"fp32": found.fp32_tflops, **{d: found.tensor_tflops(d) for d in chip.tensor_per_clock}}
    return {
        "kind": "gpu",
        "present": False,
        "asked": name,
        "name": found.name,
        "variants": [other.name for other in gpus.variants(name)],
        "gpu": {**facts, "pin_gbps": found.pin_gbps, "tflops_at_boost": rates},
        "chip": asdict(chip),
        "rows": [asdict(row) for row in rows],
    }


def _present() -> dict[str, Any]:
    from kernellab.gpumodel.hierarchy import cpu_rows, gpu_rows
    from kernellab.machine.chips import chip
    from kernellab.machine.cpu_caches import data_caches
    from kernellab.machine.environment import cpu
    from kernellab.running.parent.device import present

    here = present()
    if here is None:
        facts, caches = cpu(), [asdict(cache) for cache in data_caches()]
        rows = cpu_rows(facts["cores"], facts["memory_bytes"], caches)
        return {
            "kind": "cpu",
            "present": True,
            "name": facts["name"],
            "cpu": {**facts, "caches": caches},
            "rows": [asdict(row) for row in rows],
        }
    known = chip(here["arch"])
    pins = f", {here['pin_gbps']:.0f} GB/s at the pins" if here["pin_gbps"] else ""
    memory = f"{(here['memory_bytes'] or 0) / 2**30:.0f} GiB{pins}"
    rows = gpu_rows(known, here["sms"], here["l2_bytes"], memory)
    return {
        "kind": "gpu",
        "present": True,
        "name": here["name"],
        "gpu": here,
        "chip": asdict(known),
        "rows": [asdict(row) for row in rows],
    }


def _list(args: argparse.Namespace) -> int:
    from kernellab.machine.gpus import gpus
    from kernellab.reporting.terminal import device as report
    from kernellab.reporting.text.console import console

    if args.json:
        entries = [{**asdict(g), "pin_gbps": g.pin_gbps, "fp32_tflops": g.fp32_tflops} for g in gpus()]
        print(json.dumps(entries, indent=1))
    else:
        report.show_list([{**vars(g), "pin_gbps": g.pin_gbps, "fp32_tflops": g.fp32_tflops} for g in gpus()], console())
    return 0


def _measure(args: argparse.Namespace) -> int:
    from kernellab.cli.options import device_in
    from kernellab.reporting.terminal import device as report
    from kernellab.reporting.text.console import console
    from kernellab.running.parent.device import measure

    found = measure(device_in(args.device), quick=args.quick)
    if args.json:
        print(json.dumps(found, indent=1))
    else:
        report.show_measured(found, console())
    return 0
