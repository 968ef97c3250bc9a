"""The JSON of one kernel: an entry of `code[].kernels[]` in a record, and the facts that `klab inspect --json` prints.

`worker.inspection` writes these objects; the record, the explanation and the reports read them. Keys that records of
older versions lack are `NotRequired`.
"""

from __future__ import annotations

from typing import NotRequired, TypedDict

from kernellab.base.json import JsonValue


class AccessJson(TypedDict):
    """Instructions of one class that move the same number of bytes per thread."""

    kind: str
    bytes: int
    count: int


class LoopJson(TypedDict):
    label: str
    depth: int
    first_line: int
    last_line: int
    size: int
    instructions: dict[str, int]
    sources: list[str]
    waits: bool
    hottest: bool
    turns: NotRequired[int | None]
    executed: NotRequired[dict[str, int]]


class FactsJson(TypedDict):
    """See `facts.KernelFacts`, of which this is the JSON. What the file does not contain is None."""

    name: str
    arch: str
    registers: int | None
    spill_bytes: int | None
    spill_known_by: str
    stack_bytes: int | None
    shared_bytes: int | None
    barriers: int | None
    threads: list[int] | None
    threads_required: bool
    counted_in: str
    instructions: dict[str, int]
    executed: NotRequired[dict[str, int]]
    accesses: list[AccessJson]
    widest_global_bytes: int
    narrowest_global_bytes: int
    flight_bytes: NotRequired[int]
    predicated: int
    uses: list[str]
    loops: list[LoopJson]
    remarks: list[str]


class OccupancyJson(TypedDict):
    """See `gpumodel.occupancy.Occupancy`."""

    blocks_per_sm: int
    warps_per_sm: int
    fraction: float
    limiter: str
    limiters: NotRequired[list[str]]
    limits: dict[str, int | None]
    refusal: NotRequired[str]
    remedy: str
    warps_per_block: int
    shared_split_bytes: int
    l1_bytes: int


class MatrixProductJson(TypedDict):
    """One kind of tensor-core instruction: the type it multiplies, and its operations per thread."""

    kind: str
    flops: int


class ParameterJson(TypedDict):
    """An argument of the captured launch. `special` is what the compiler assumed about it."""

    name: str
    type: str
    value: str
    special: str
    bytes: NotRequired[int | None]


class SourceJson(TypedDict):
    """Source text of a kernel, or of a function that it calls or includes; `lines` counts lines of code."""

    name: str
    file: str
    first_line: int
    lines: NotRequired[int]


class KernelJson(TypedDict):
    """One kernel of an implementation. A kernel for the CPU has no launch: only the first group of keys.

    `facts` and `occupancy` are None where there is no GPU code: for the CPU, or where `refusal` says why the kernel
    could not be compiled or launched.
    """

    kind: str  # "triton", "cuda" or "cpp"
    name: str
    config: dict[str, JsonValue]
    parameters: list[ParameterJson]
    sources: list[SourceJson]
    files: dict[str, str]  # paths in the run's folder, by level: ptx, sass, cubin, …
    refusal: str
    tuned: list[int] | None  # which of an autotuner's configurations, counted from 0, and how many there are
    facts: FactsJson | None
    occupancy: OccupancyJson | None
    # Of a captured launch:
    symbol: NotRequired[str]
    arch: NotRequired[str]
    gpu: NotRequired[str]
    grid: NotRequired[list[int]]
    block: NotRequired[list[int]]
    cluster: NotRequired[list[int]]
    shared_bytes: NotRequired[int]  # dynamic
    build_s: NotRequired[float]
    times: NotRequired[int]
    # Of its machine code:
    shared_total_bytes: NotRequired[int]
    cubin_arch: NotRequired[str]
    products: NotRequired[list[MatrixProductJson]]
    sectors: NotRequired[float | None]  # memory sectors a warp touches, relative to the minimum
    conflicts: NotRequired[float | None]  # shared-memory transactions of a warp, relative to the minimum
    # Of torch.compile: why no op file could be written
    not_exported: NotRequired[str]
