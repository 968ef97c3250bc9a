"""The launches of a run that have a grid, and how each fills its GPU by the model of waves."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from kernellab.base.errors import UserError
from kernellab.declaration.documents import CaseJson
from kernellab.gpumodel.occupancy import Occupancy, occupancy
from kernellab.gpumodel.waves import Waves, waves
from kernellab.machine.chips import Chip, chip
from kernellab.machine.gpus import gpu
from kernellab.record.derived import DerivedRecord
from kernellab.reporting.text.numbers import case_label


@dataclass(frozen=True)
class WaveGpu:
    """What the model of waves knows of a GPU."""

    name: str
    chip: Chip
    sms: int


@dataclass(frozen=True)
class Launch:
    """One launch, and how its grid fills the GPU if its blocks are bound by arithmetic, or mostly wait."""

    op: str
    impl: str
    case: str
    kernel: str
    us: float | None  # of the launch, where a profiler measured it
    gpu: WaveGpu
    threads: int  # per block
    occupancy: Occupancy
    compute: Waves
    latency: Waves


def read_launches(record: DerivedRecord) -> list[Launch]:
    """Each launch once: those that ran on a GPU first, then those that were compiled for one."""
    launches: dict[tuple[str, str, str, str, int], Launch] = {}
    for launch in (*_that_ran(record), *_that_were_compiled(record)):
        launches.setdefault((launch.op, launch.impl, launch.case, launch.kernel, launch.compute.blocks), launch)
    return list(launches.values())


def _that_ran(record: DerivedRecord) -> Iterator[Launch]:
    present = record["machine"].get("gpu")
    device = _wave_gpu(present["name"], present["arch"], present["sms"]) if present else None
    if device is None:
        return
    clusters = _clusters(record)
    for result in record["results"]:
        for kernel in result["kernels"] or ():
            launch = _launch(
                (result["op"], result["impl"], result["case"], kernel["name"]),
                device,
                kernel.get("grid"),
                kernel.get("block"),
                kernel.get("registers"),
                kernel.get("shared_bytes") or 0,
                clusters.get((result["op"], result["impl"], kernel["name"].partition("<")[0].removeprefix("void ")), 1),
                kernel["us"],
            )
            if launch is not None:
                yield launch


def _that_were_compiled(record: DerivedRecord) -> Iterator[Launch]:
    ran = {(result["op"], result["impl"]) for result in record["results"] if result["kernels"]}
    for entry in record["code"]:
        if (entry["op"], entry["impl"]) in ran or entry["case"] is None:
            continue
        device = _wave_gpu(entry["gpu"] or "", entry["arch"], None)
        for kernel in entry["kernels"]:
            facts = kernel["facts"]
            if device is None or facts is None:
                continue
            launch = _launch(
                (entry["op"], entry["impl"], entry["case"], kernel["name"]),
                device,
                kernel.get("grid"),
                kernel.get("block"),
                facts["registers"],
                kernel.get("shared_total_bytes") or 0,
                math.prod(kernel.get("cluster") or ()),
                None,
            )
            if launch is not None:
                yield launch


def _clusters(record: DerivedRecord) -> dict[tuple[str, str, str], int]:
    """The size of clusters by op, implementation and kernel: a profiler does not see it, the captured launch has it."""
    return {
        (entry["op"], entry["impl"], kernel["name"].partition("<")[0]): math.prod(kernel.get("cluster") or ())
        for entry in record["code"]
        for kernel in entry["kernels"]
    }


def _wave_gpu(name: str, arch: str, sms: int | None) -> WaveGpu | None:
    """None for a GPU that the model does not know."""
    try:
        return WaveGpu(name, chip(arch), sms if sms is not None else gpu(name).sms)
    except UserError:
        return None


def _launch(
    names: tuple[str, str, CaseJson, str],
    device: WaveGpu,
    grid: Sequence[int] | None,
    block: Sequence[int] | None,
    registers: int | None,
    shared_bytes: int,
    cluster: int,
    us: float | None,
) -> Launch | None:
    """None for a copy or a fill, which has no grid, and for numbers that no launch can have."""
    if not grid or not block or registers is None:
        return None
    op, impl, case, kernel = names
    blocks, threads = math.prod(grid), math.prod(block)
    try:
        fits = occupancy(device.chip, threads, registers, shared_bytes, cluster)
        compute, latency = (
            waves(blocks, device.sms, fits, device.chip, bound=bound, cluster=cluster)
            for bound in ("compute", "latency")
        )
    except (UserError, OverflowError):
        return None
    return Launch(op, impl, case_label(case), kernel, us, device, threads, fits, compute, latency)
