"""`klab device`: a GPU, or this CPU, as a table; with `--measure`, the bandwidths and rates it reaches."""

from __future__ import annotations

import argparse
from dataclasses import asdict
from typing import TYPE_CHECKING

from kernellab.base.errors import UserError
from kernellab.cli.options import add_device_option, add_json_option, parse_device, print_json

if TYPE_CHECKING:
    from kernellab.cli.parser import Parser
    from kernellab.gpumodel.described_device import KnownGpu, PresentCpu, PresentGpu

SUMMARY = "describe the GPU as a table: the one present, or any of the database"
ORDER = 90


def arguments(parser: Parser) -> None:
    parser.add_argument(
        "--gpu", metavar="NAME", help="a GPU of the database: a100, 'rtx 4090' (default: the one present)"
    )
    parser.add_argument("--list", action="store_true", help="list the GPUs of the database")
    parser.add_argument("--measure", action="store_true", help="measure bandwidths and matmul rates here")
    add_device_option(parser, "with --measure: ")
    parser.add_argument("--quick", action="store_true", help="with --measure: fewer and smaller, less exact")
    add_json_option(parser)


def run(args: argparse.Namespace) -> int:
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

    device = _find_known(args.gpu) if args.gpu is not None else _find_present()
    if args.json:
        print_json(device.to_json())
    else:
        report.show(device, console())
    return 0


def _find_known(name: str) -> KnownGpu:
    from kernellab.gpumodel.described_device import KnownGpu
    from kernellab.machine import gpus

    return KnownGpu(name, gpus.gpu(name), [other.name for other in gpus.variants(name)])


def _find_present() -> PresentGpu | PresentCpu:
    from kernellab.gpumodel.described_device import PresentCpu, PresentGpu
    from kernellab.machine.chips import chip
    from kernellab.machine.cpu_caches import data_caches
    from kernellab.machine.environment import cpu
    from kernellab.running.parent.device import present

    gpu = present()
    if gpu is None:
        return PresentCpu(cpu(), data_caches())
    return PresentGpu(gpu["name"], chip(gpu["arch"]), gpu["sms"], gpu["l2_bytes"], gpu["memory_bytes"], gpu["pin_gbps"])


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

    rates = measure(parse_device(args.device), quick=args.quick)
    if args.json:
        print_json(rates.to_json())
    else:
        measured = rates.measured
        report.show_measured(rates.name, measured.rates, measured.clock_mhz, measured.doubts, console())
    return 0
