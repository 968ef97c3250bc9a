"""The JSON that describes a machine, as records hold it."""

from __future__ import annotations

from typing import Annotated, NotRequired, TypedDict


class CpuJson(TypedDict):
    """The CPU."""

    name: Annotated[str, ""]
    cores: NotRequired[Annotated[int, ""]]
    memory_bytes: NotRequired[Annotated[int, ""]]


class GpuBoard(TypedDict):
    """A GPU as its driver describes it."""

    name: Annotated[str, ""]
    uuid: Annotated[str, ""]
    memory_bytes: NotRequired[Annotated[int | None, ""]]
    driver: Annotated[str, ""]
    max_sm_mhz: NotRequired[Annotated[int | None, ""]]
    max_memory_mhz: NotRequired[Annotated[int | None, ""]]


class EnvironmentJson(TypedDict):
    """Where a run was made."""

    python: Annotated[str, ""]
    system: NotRequired[Annotated[str, ""]]
    packages: Annotated[dict[str, str | None], "versions by name"]
    cpu: Annotated[CpuJson, ""]
    gpus: Annotated[list[GpuBoard], ""]
    commit: NotRequired[
        Annotated[str | None, "of the working directory, with `+changes` where files differ from the commit"]
    ]
    committed: NotRequired[Annotated[str | None, "the time of the commit"]]
    branch: NotRequired[Annotated[str | None, "the branch that is checked out, or that the CI system names"]]


class PeakTflops(TypedDict):
    """Arithmetic by unit."""

    fp32: Annotated[float, "ordinary arithmetic"]
    matmul: Annotated[dict[str, float], "by dtype"]


class Peaks(TypedDict):
    """Upper bounds of a GPU by the vendor's numbers."""

    pin_gbps: Annotated[float | None, ""]
    l2_bytes: Annotated[int, ""]
    tflops: Annotated[PeakTflops | None, "`fp32`, and `matmul` by dtype"]


class MatmulRate(TypedDict):
    """A matmul rate in one power state of a GPU."""

    tflops: Annotated[float, ""]
    clock_mhz: Annotated[float, "of the SMs meanwhile"]
    power_w: Annotated[float | None, "of the GPU meanwhile"]


class MeasuredCeilings(TypedDict):
    """What this machine can do at most, measured."""

    copy_gbps: Annotated[float, ""]
    matmul_tflops: Annotated[dict[str, float], "by dtype"]
    matmul_by_clock: NotRequired[
        Annotated[dict[str, list[MatmulRate]], "by dtype, on a GPU: after a pause, and for seconds without one"]
    ]
    threads: NotRequired[Annotated[int | None, "of torch, on the CPU"]]
    measured_at: NotRequired[Annotated[str, ""]]


class Ceilings(MeasuredCeilings):
    """The ceilings of this machine, as a record holds them."""

    doubts: NotRequired[Annotated[list[str], "why the figures are not kept for later runs"]]
