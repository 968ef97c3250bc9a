"""The JSON of one kernel: an entry of `code[].kernels[]` in a record, and the facts that `klab inspect --json` prints.

`running.worker.inspection` writes these objects; the record, the explanation and the reports read them. A key that
records of older versions lack is NotRequired.
"""

from __future__ import annotations

from typing import Annotated, NotRequired, TypedDict

from kernellab.base.json import JsonObject


class AccessJson(TypedDict):
    """Instructions of one class that move the same number of bytes per thread."""

    kind: Annotated[str, "the class of the instructions"]
    bytes: Annotated[int, "that one thread moves"]
    count: Annotated[int, "number of instructions"]


class LoopJson(TypedDict):
    """A loop of a kernel. Counts include the loops inside it."""

    label: Annotated[str, "where it begins"]
    depth: Annotated[int, "1 for a loop that is not inside another"]
    first_line: Annotated[int, "in the text of the code"]
    last_line: Annotated[int, "in the text of the code"]
    size: Annotated[int, "number of instructions"]
    instructions: Annotated[dict[str, int], "by class"]
    sources: Annotated[list[str], "the author's lines, most frequent first"]
    statement: NotRequired[Annotated[str, "the author's line of the loop statement; empty where it is not known"]]
    load_bytes: NotRequired[Annotated[float, "width of its global loads, on average"]]
    waits: Annotated[bool, "whether it only waits for a barrier, a copy or a lock"]
    hottest: Annotated[bool, "whether most time is probably spent in it"]
    turns: NotRequired[Annotated[int | None, "trip count; null where the code does not contain it"]]
    executed: NotRequired[Annotated[dict[str, int], "instructions of one iteration, by class"]]


class FactsJson(TypedDict):
    """Numbers read from a kernel's machine code; null where the file does not contain them."""

    name: Annotated[str, "the kernel's symbol"]
    arch: Annotated[str, "the architecture that it was compiled for"]
    registers: Annotated[int | None, "per thread"]
    spill_bytes: Annotated[int | None, "stored and loaded by a thread because registers ran out"]
    spill_known_by: Annotated[str, "how the spills are known"]
    stack_bytes: Annotated[int | None, "per thread"]
    shared_bytes: Annotated[int | None, "static shared memory"]
    barriers: Annotated[int | None, "named barriers"]
    threads: Annotated[list[int] | None, "the block size required, or the largest allowed; empty where any is allowed"]
    threads_required: Annotated[bool, "whether `threads` is required"]
    counted_in: Annotated[str, "`SASS`, or `PTX` where nothing was assembled"]
    instructions: Annotated[dict[str, int], "by class"]
    executed: NotRequired[Annotated[dict[str, int], "by a thread, by class; a loop of unknown trip count counts once"]]
    accesses: Annotated[list[AccessJson], "to memory, by class and width"]
    widest_global_bytes: Annotated[int, "of one access to global memory; 0 where there is none"]
    narrowest_global_bytes: Annotated[int, "of one access to global memory; 0 where there is none"]
    flight_bytes: NotRequired[Annotated[int, "that a thread requests from global memory before it waits"]]
    predicated: Annotated[int, "instructions with a guard"]
    uses: Annotated[list[str], "features of the hardware: `TMA`, `mma`, `shuffles`, …"]
    loops: Annotated[list[LoopJson], "outer before inner"]
    remarks: Annotated[list[str], "sentences about unusual properties"]


class OccupancyJson(TypedDict):
    """How many blocks fit on an SM, and what limits them."""

    blocks_per_sm: Annotated[int, "0 where it cannot be launched"]
    warps_per_sm: Annotated[int, ""]
    fraction: Annotated[float, "of the warps that an SM can hold"]
    limiter: Annotated[str, "the first of `limiters`"]
    limiters: NotRequired[Annotated[list[str], "every resource that allows no more blocks"]]
    limits: Annotated[dict[str, int | None], "blocks that each resource allows; null where it limits nothing"]
    refusal: NotRequired[Annotated[str, "why it cannot be launched"]]
    remedy: Annotated[str, "what would allow more blocks"]
    warps_per_block: Annotated[int, ""]
    shared_split_bytes: Annotated[int, "shared memory's part of the SRAM"]
    l1_bytes: Annotated[int, "the rest of the SRAM"]


class MatrixProductJson(TypedDict):
    """One kind of tensor-core instruction."""

    kind: Annotated[str, "the type that it multiplies: `bf16`"]
    flops: Annotated[int, "operations per thread; 0 where not known"]


class ParameterJson(TypedDict):
    """An argument of a captured launch."""

    name: Annotated[str, ""]
    type: Annotated[str, "`*fp32`, `i32`, `pointer`, …"]
    value: Annotated[str, "the value, or what a pointer points to"]
    special: Annotated[str, "what the compiler assumed about it"]
    bytes: NotRequired[Annotated[int | None, "size of the tensor; null for other arguments"]]


class SourceJson(TypedDict):
    """Source text of a kernel, or of a function that it calls or a file that it includes."""

    name: Annotated[str, ""]
    file: Annotated[str, ""]
    first_line: Annotated[int, ""]
    text_line: NotRequired[Annotated[int, "where it begins in the text of all sources that the run keeps"]]
    lines: NotRequired[Annotated[int, "lines of code"]]


class KernelJson(TypedDict):
    """One kernel of an implementation. Only a kernel for the GPU has the keys of a launch and of machine code."""

    kind: Annotated[str, "`triton`, `cuda` or `cpp`"]
    name: Annotated[str, "as its author wrote it"]
    config: Annotated[JsonObject, "what the author or a tuner chose"]
    parameters: Annotated[list[ParameterJson], "arguments of the launch"]
    sources: Annotated[list[SourceJson], "the kernel's own first"]
    files: Annotated[dict[str, str], "paths in the run's folder, by level: `ptx`, `sass`, `cubin`, …"]
    refusal: Annotated[str, "why it cannot be compiled or launched; empty where it can"]
    tuned: Annotated[list[int] | None, "which of an autotuner's configurations, from 0, and how many there are"]
    facts: Annotated[FactsJson | None, "null without code for a GPU"]
    occupancy: Annotated[OccupancyJson | None, "null without code for a GPU"]
    symbol: NotRequired[Annotated[str, "its name in the binary"]]
    arch: NotRequired[Annotated[str, "the requested architecture"]]
    gpu: NotRequired[Annotated[str, "the product whose properties the author's code saw"]]
    grid: NotRequired[Annotated[list[int], "in blocks, also for clusters"]]
    block: NotRequired[Annotated[list[int], "in threads"]]
    cluster: NotRequired[Annotated[list[int], "in blocks"]]
    shared_bytes: NotRequired[Annotated[int, "dynamic shared memory of the launch"]]
    shared_total_bytes: NotRequired[Annotated[int, "with the static shared memory"]]
    build_s: NotRequired[Annotated[float, "seconds of compilation; 0 where it was compiled before"]]
    times: NotRequired[Annotated[int, "number of identical launches"]]
    cubin_arch: NotRequired[Annotated[str, "as the cubin says it: `sm_90a`"]]
    products: NotRequired[Annotated[list[MatrixProductJson], "what its tensor cores multiply"]]
    sectors: NotRequired[
        Annotated[float | None, "after `klab explain`: memory sectors a warp touches, relative to the minimum"]
    ]
    conflicts: NotRequired[
        Annotated[float | None, "after `klab explain`: a warp's shared-memory transactions, relative to the minimum"]
    ]
    not_exported: NotRequired[Annotated[str, "of torch.compile: why no op file could be written"]]
