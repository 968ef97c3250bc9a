"""`klab device`: a GPU, or this CPU, as a table; with `--measure`, the bandwidths and rates it reaches."""

from __future__ import annotations

import argparse
from dataclasses import asdict
from typing import TYPE_CHECKING

from kernellab.base.errors import UserError
from kernellab.cli.options import add_device_option, add_json_option, parse_device, print_json

if TYPE_CHECKING:
    from kernellab.cli.parser import Parser
    from kernellab.record.schema import GpuJson

SUMMARY = "describe the GPU as a table: the one present, or any of the database"
ORDER = 90


def arguments(parser: Parser) -> None:
    parser.add_argument(
        "--gpu", metavar="NAME", help="a GPU of the database: a100, 'rtx 4090' (default: the one present)"
    )
    parser.add_argument("--list", action="store_true", help="list the GPUs of the database")
    parser.add_argument("--measure", action="store_true", help="measure bandwidths and matmul rates here")
    add_device_option(parser, "with --measure: ")
    parser.add_argument(
        "--quick", action="store_true", help="with --measure: smaller buffers and fewer samples, less exact"
    )
    add_json_option(parser)


def run(args: argparse.Namespace) -> int:
    if sum((args.list, args.measure, args.gpu is not None)) > 1:
        raise UserError("--list, --gpu and --measure exclude each other: use one at a time")
    if not args.measure and (args.device or args.quick):
        raise UserError("--device and --quick are for --measure: klab device --measure --quick")
    if args.measure:
        return _measure(args)
    if args.list:
        return _list(args)
    return _describe_present(args) if args.gpu is None else _describe_named(args)


def _describe_named(args: argparse.Namespace) -> int:
    from kernellab.gpumodel.hierarchy import gpu_rows
    from kernellab.machine import gpus
    from kernellab.reporting.terminal import device as report
    from kernellab.reporting.text.console import console

    gpu = gpus.gpu(args.gpu)
    chip, variants = gpu.chip, [other.name for other in gpus.variants(args.gpu)]
    memory = f"{gpu.memory_gb:g} GB {gpu.memory_kind}, {gpu.bus_bits} bit, {gpu.pin_gbps:.0f} GB/s"
    rows = gpu_rows(chip, gpu.sms, gpu.l2_bytes, memory)
    if not args.json:
        report.show_named(gpu, args.gpu, variants, rows, console())
        return 0
    facts = {key: value for key, value in asdict(gpu).items() if not key.startswith("second")}
    rates = {"fp32": gpu.fp32_tflops, **{dtype: gpu.tensor_tflops(dtype) for dtype in chip.tensor_per_clock}}
    print_json(
        {
            "kind": "gpu",
            "present": False,
            "asked": args.gpu,
            "name": gpu.name,
            "variants": variants,
            "gpu": {**facts, "pin_gbps": gpu.pin_gbps, "tflops_at_boost": rates},
            "chip": asdict(chip),
            "rows": [asdict(row) for row in rows],
        }
    )
    return 0


def _describe_present(args: argparse.Namespace) -> int:
    from kernellab.running.parent.device import describe_gpu

    gpu = describe_gpu()
    if gpu is None:
        _describe_cpu(json=args.json)
    else:
        _describe_gpu(gpu, json=args.json)
    return 0


def _describe_cpu(*, json: bool) -> None:
    from kernellab.gpumodel.hierarchy import cpu_rows
    from kernellab.machine.cpu_caches import data_caches
    from kernellab.machine.environment import cpu
    from kernellab.reporting.terminal import device as report
    from kernellab.reporting.text.console import console

    facts, caches = cpu(), [asdict(cache) for cache in data_caches()]
    rows = cpu_rows(facts["cores"], facts["memory_bytes"], caches)
    if not json:
        report.show_cpu(facts, rows, console())
        return
    print_json(
        {
            "kind": "cpu",
            "present": True,
            "name": facts["name"],
            "cpu": {**facts, "caches": caches},
            "rows": [asdict(row) for row in rows],
        }
    )


def _describe_gpu(gpu: GpuJson, *, json: bool) -> None:
    from kernellab.gpumodel.hierarchy import gpu_rows
    from kernellab.machine.chips import chip
    from kernellab.reporting.terminal import device as report
    from kernellab.reporting.text.console import console

    architecture = chip(gpu["arch"])
    pins = f", {gpu['pin_gbps']:.0f} GB/s at the pins" if gpu["pin_gbps"] else ""
    memory = f"{(gpu['memory_bytes'] or 0) / 2**30:.0f} GiB{pins}"
    rows = gpu_rows(architecture, gpu["sms"], gpu["l2_bytes"], memory)
    if not json:
        report.show_present(gpu, architecture, rows, console())
        return
    print_json(
        {
            "kind": "gpu",
            "present": True,
            "name": gpu["name"],
            "gpu": gpu,
            "chip": asdict(architecture),
            "rows": [asdict(row) for row in rows],
        }
    )


def _list(args: argparse.Namespace) -> int:
    from kernellab.machine.gpus import gpus
    from kernellab.reporting.terminal import device as report
    from kernellab.reporting.text.console import console

    if args.json:
        print_json([{**asdict(gpu), "pin_gbps": gpu.pin_gbps, "fp32_tflops": gpu.fp32_tflops} for gpu in gpus()])
    else:
        report.show_list(gpus(), console())
    return 0


def _measure(args: argparse.Namespace) -> int:
    from kernellab.reporting.terminal import device as report
    from kernellab.reporting.text.console import console
    from kernellab.running.parent.device import measure

    device = measure(parse_device(args.device), quick=args.quick)
    if args.json:
        print_json(device.to_json())
    else:
        rates = device.rates
        report.show_measured(device.name, rates.rates, rates.clock_mhz, rates.doubts, console())
    return 0
