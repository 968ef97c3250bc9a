"""The JSON of what an implementation does besides computing, as records hold it."""

from __future__ import annotations

from typing import Annotated, NotRequired, TypedDict

from kernellab.base.json import JsonObject, JsonValue


class CompileJson(TypedDict, total=False):
    """What torch.compile did."""

    seconds: Annotated[float, ""]
    graphs: Annotated[int, ""]
    recompiles: Annotated[int, ""]
    graph_breaks: Annotated[int, ""]


class CandidateJson(TypedDict):
    """A kernel that torch.compile tried for an operator."""

    name: Annotated[str, ""]
    us: Annotated[float | None, "as the tuner measured it; null where it did not run"]


class TunedJson(TypedDict):
    """What an autotuner chose for a kernel, or torch.compile for an operator."""

    kernel: Annotated[str, ""]
    config: Annotated[JsonObject, "the chosen configuration"]
    file: NotRequired[Annotated[str | None, ""]]
    by: NotRequired[Annotated[str | None, ""]]
    key: NotRequired[Annotated[JsonValue, "what the choice depends on"]]
    configs: NotRequired[Annotated[JsonValue, "how many configurations there are"]]
    tried: NotRequired[Annotated[JsonValue, "how many configurations were timed"]]
    seconds: NotRequired[Annotated[float | None, ""]]
    candidates: NotRequired[Annotated[list[CandidateJson], "for an operator: the fastest first"]]


class KernelLaunch(TypedDict):
    """A kernel that one call launches, as the profiler sees it."""

    name: Annotated[str, ""]
    us: Annotated[float, "microseconds"]
    grid: NotRequired[Annotated[list[int] | None, ""]]
    block: NotRequired[Annotated[list[int] | None, ""]]
    registers: NotRequired[Annotated[int | None, "per thread"]]
    shared_bytes: NotRequired[Annotated[int | None, "per block"]]
    blocks_per_sm: NotRequired[Annotated[float | None, ""]]
    warps_per_sm: NotRequired[Annotated[float | None, ""]]
    occupancy_percent: NotRequired[Annotated[float | None, "the profiler's estimate"]]


class OperatorTraffic(TypedDict):
    """An operator of one call and the bytes it has to move."""

    op: Annotated[str | None, "null for a kernel launched past torch's dispatcher"]
    read_bytes: Annotated[int | None, ""]
    write_bytes: Annotated[int | None, ""]
    kernels: NotRequired[Annotated[list[int], "on a GPU: places in the result's `kernels`"]]


class ActivityCount(TypedDict):
    """How often something happened, and its share of the host's or the GPU's time, whichever is larger."""

    count: Annotated[int, ""]
    share: Annotated[float, "of the time"]
    of: Annotated[str, "whose time: `host` or `GPU`"]
    bytes: NotRequired[Annotated[int, ""]]
    ops: NotRequired[Annotated[list[str], "names of the operators"]]


class CallActivity(TypedDict, total=False):
    """What one call does. Empty if it could not be profiled; on the CPU the fields of the GPU are absent."""

    device: Annotated[str, "`cpu` or `cuda`"]
    host_us: Annotated[float, "time of the call on the host"]
    device_us: Annotated[float, "the GPU's work for the call"]
    allocations: Annotated[ActivityCount, "through torch's allocator"]
    random: Annotated[ActivityCount, "operators that draw random numbers"]
    raw_allocations: Annotated[ActivityCount, "past torch's cache: cudaMalloc"]
    raw_frees: Annotated[ActivityCount, "past torch's cache: cudaFree"]
    host_to_device: Annotated[ActivityCount, "copies"]
    device_to_host: Annotated[ActivityCount, "copies"]
    synchronisations: Annotated[ActivityCount, "waits for the GPU"]
