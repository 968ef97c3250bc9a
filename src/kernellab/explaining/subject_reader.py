"""Reads the subjects of explanations from a record: its timed results, and kernels that were compiled and not timed."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence

from kernellab.activity import documents as activity
from kernellab.base.errors import UserError
from kernellab.declaration.documents import CaseJson
from kernellab.explaining.kernel_reader import read_kernels, unfit_kernels
from kernellab.gpumodel.device import SUSTAINED_SHARE, Device
from kernellab.gpumodel.fusion import DispatchedOperator
from kernellab.gpumodel.roofline import roofline
from kernellab.gpumodel.subject import Subject
from kernellab.machine.chips import chip
from kernellab.machine.description import Ceilings
from kernellab.machine.gpus import gpu
from kernellab.record.derived import DerivedRecord, DerivedResult
from kernellab.record.schema import CodeJson, MachineJson, TimeSeries
from kernellab.record.statuses import RIGHT
from kernellab.record.timed_series import TimedSeries
from kernellab.timing.timers import is_duration

# Where the machine's peak rate is not known, and with it the clock.
_DEFAULT_CLOCK_MHZ = 1500.0


def read_subjects(record: DerivedRecord, gpu_name: str | None = None) -> list[Subject]:
    """Everything of a record that can be explained: timed results first, then what was only compiled.

    Compiled kernels are explained for `gpu_name`, a GPU of the database of an architecture they were compiled for, or
    else for the GPU they were compiled for.
    """
    timed = [result for result in record["results"] if _main_series(result) is not None]
    subjects = [read_timed_subject(record, result) for result in timed]
    timed_keys = {(r["op"], r["impl"], str(r["case"])) for r in timed}
    for entry in _entries_for(record, gpu_name):
        was_timed = (entry["op"], entry["impl"], str(entry["case"])) in timed_keys
        if _is_explainable(entry) and not (was_timed and _is_for_this_gpu(record, entry)):
            subject = _read_compiled_subject(entry, entry["case"], gpu_name)
            if subject is not None:
                subjects.append(subject)
    return subjects


def read_timed_subject(record: DerivedRecord, result: DerivedResult) -> Subject:
    machine = record.get("machine", {})
    ceilings = machine.get("ceilings")
    main = _main_series(result)
    assert main is not None
    medians_us = {(s["timer"], s["cache"]): statistics.median(s["samples_us"]) for s in _forward_series(result)}
    # A record with verdicts has the median over rounds.
    verdict_time = result["derived"]["time"] if "derived" in result else None
    time_us = (verdict_time["median_us"] if verdict_time else None) or medians_us[main["timer"], main["cache"]]
    timed = TimedSeries(result["impl"], result["case"]["device"], main)
    cost = result["cost"].get("forward")
    profiled_call = result.get("inside") or {}
    built = result.get("built")
    others = dict(_other_impls(record, result))
    return Subject(
        op=result["op"],
        impl=result["impl"],
        kind=result.get("kind") or "python",
        case=result["case"],
        cost=cost,
        device=_measured_device(machine) if result["case"]["device"] == "cuda" else None,
        gbps=ceilings["copy_gbps"] if ceilings else None,
        limit=roofline(cost, result["case"]["dtype"], time_us, ceilings, timed.clock_mhz) if cost else None,
        time_us=time_us,
        cache=main["cache"],
        warm_us=medians_us.get((main["timer"], "warm")) if main["cache"] == "cold" else None,
        empty_kernel_us=main.get("floor_us"),
        launch_us=medians_us.get(("launch", "warm")),
        profiled_host_us=profiled_call.get("host_us"),
        profiled_gpu_us=profiled_call.get("device_us"),
        kernels=read_kernels(_code_entry(record, result), built["tuned"] if built else ()),
        profiled_kernels=[kernel["name"] for kernel in result.get("kernels") or ()],
        operators=_read_operators(result.get("traffic")),
        other_times_us={impl: time_us for impl, (time_us, _) in others.items()},
        fused_impls=[impl for impl, (_, fused) in others.items() if fused],
    )


def _read_compiled_subject(entry: CodeJson, case: CaseJson | None, gpu_name: str | None) -> Subject | None:
    name = gpu_name or entry["gpu"]
    if case is None or case["device"] != "cuda" or name is None:
        return None
    try:
        device = Device.from_database(name)
    except UserError:  # a GPU that is not in the database
        return None
    cost = entry.get("cost")
    ceilings: Ceilings = {"copy_gbps": device.gbps, "matmul_tflops": device.peak_matmul_tflops}
    return Subject(
        op=entry["op"],
        impl=entry["impl"],
        kind=entry["kind"],
        case=case,
        cost=cost,
        device=device,
        gbps=device.gbps,
        limit=roofline(cost, case["dtype"], None, ceilings) if cost else None,
        kernels=read_kernels(entry),
        operators=_read_operators(entry.get("traffic")),
    )


# Compiled code -----------------------------------------------------------------------------------------


def _entries_for(record: DerivedRecord, gpu_name: str | None) -> list[CodeJson]:
    """What was compiled for the architecture of this GPU; everything where none is named."""
    entries: list[CodeJson] = list(record.get("code", ()))
    if gpu_name is None or not entries:
        return entries
    wanted, archs = gpu(gpu_name), {entry["arch"] for entry in entries}
    if wanted.arch not in archs:
        compiled_for = ", ".join(sorted(archs))
        raise UserError(f"{wanted.name} is {wanted.arch}, and the kernels of this run are compiled for {compiled_for}")
    return [entry for entry in entries if entry["arch"] == wanted.arch]


def _is_explainable(entry: CodeJson) -> bool:
    forward = entry.get("pass") == "forward" and bool(entry["case"])
    return forward and entry["status"] in ("ok", "none") and not unfit_kernels(entry)


def _code_entry(record: DerivedRecord, result: DerivedResult) -> CodeJson | None:
    """What the implementation was compiled to at this case, for the GPU it was timed on."""
    entries: Sequence[CodeJson] = record.get("code", ())
    for entry in entries:
        same = all(entry[key] == result[key] for key in ("op", "impl", "case")) and entry["pass"] == "forward"
        if same and _is_for_this_gpu(record, entry):
            return entry
    return None


def _is_for_this_gpu(record: DerivedRecord, entry: CodeJson) -> bool:
    """Whether it was compiled for the GPU that was timed. Another GPU of the architecture may get other launches."""
    here = record["machine"].get("gpu")
    return here is not None and (entry["arch"], entry["gpu"]) == (here["arch"], here["name"])


# Results -----------------------------------------------------------------------------------------------


def _measured_device(machine: MachineJson) -> Device | None:
    here = machine.get("gpu")
    if not here:
        return None
    ceilings, peaks, pin_gbps = machine.get("ceilings"), machine.get("peaks"), here["pin_gbps"]
    gbps = (ceilings["copy_gbps"] if ceilings else 0.0) or SUSTAINED_SHARE * (pin_gbps or 0.0)
    if not gbps:
        return None
    try:
        this_chip = chip(here["arch"])
    except UserError:  # an architecture newer than the table
        return None
    peak_tflops = peaks["tflops"]["fp32"] if peaks and peaks["tflops"] else None
    clock_mhz = peak_tflops * 1e6 / here["sms"] / this_chip.fp32_per_clock if peak_tflops else _DEFAULT_CLOCK_MHZ
    return Device(here["name"], this_chip, here["sms"], here["l2_bytes"] or 0, clock_mhz, gbps)


def _forward_series(result: DerivedResult) -> Iterator[TimeSeries]:
    return (series for series in result["times"] if series["pass"] == "forward" and series["samples_us"])


def _main_series(result: DerivedResult) -> TimeSeries | None:
    """The first series that measures a duration, of an implementation that is correct."""
    check = result["check"]
    if check is None or check["status"] not in RIGHT:
        return None
    return next((series for series in _forward_series(result) if is_duration(series["timer"])), None)


def _other_impls(record: DerivedRecord, result: DerivedResult) -> Iterator[tuple[str, tuple[float, bool]]]:
    """The other correct implementations of this op and case: the time of each, and whether it is fused."""
    for other in record["results"]:
        same = other["op"] == result["op"] and other["case"] == result["case"] and other is not result
        series = _main_series(other) if same else None
        if series is not None:
            yield other["impl"], (statistics.median(series["samples_us"]), _is_fused(other))


def _is_fused(result: DerivedResult) -> bool:
    """At most one operator was dispatched. Where torch saw none, a compiler's or the author's own kernel is fused."""
    traffic = result.get("traffic")
    return result.get("kind") in ("compile", "triton", "cuda", "cpp") if traffic is None else len(traffic) < 2


def _read_operators(traffic: Sequence[activity.OperatorTraffic] | None) -> list[DispatchedOperator] | None:
    if traffic is None:
        return None
    return [
        DispatchedOperator(
            op=str(operator["op"]),
            read_bytes=operator["read_bytes"],
            write_bytes=operator["write_bytes"],
            kernels=len(operator["kernels"]) if "kernels" in operator else 1,
        )
        for operator in traffic
    ]
