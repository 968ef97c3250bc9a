"""Reads the kernels of an implementation from a record's `code` entry: launches and facts of their machine code."""

from __future__ import annotations

import math
from collections.abc import Sequence

from kernellab.activity.documents import TunedJson
from kernellab.codeanalysis.kernel_json import AccessJson, FactsJson, KernelJson, LoopJson, OccupancyJson
from kernellab.gpumodel.kernel import (
    GLOBAL_LOADS,
    LOCAL_ACCESSES,
    SHARED_ACCESSES,
    TRIGONOMETRY_STACK_BYTES,
    Kernel,
    count,
)
from kernellab.gpumodel.occupancy import describe_limiters, grid_refusal
from kernellab.record.schema import CodeJson

_GLOBAL_ACCESSES = (*GLOBAL_LOADS, "global_store")
_WITHOUT_WIDTH = ("bulk_copy", "generic_load", "generic_store", "global_atomic")


def read_kernels(entry: CodeJson | None, choices: Sequence[TunedJson] = ()) -> list[Kernel]:
    """Of an autotuned kernel only the configuration in `choices`, or every one where the choice is not known."""
    kernels = [kernel for kernel in entry["kernels"] if _has_launch(kernel)] if entry else []
    compiled = [(k, facts, fits) for k in kernels if (facts := k.get("facts")) and (fits := k["occupancy"])]
    chosen = {k["name"] for k, _, _ in compiled if k.get("tuned") and _is_chosen(k, choices)}
    return [
        _read_kernel(k, facts, fits) for k, facts, fits in compiled if k["name"] not in chosen or _is_chosen(k, choices)
    ]


def _has_launch(kernel: KernelJson) -> bool:
    """Whether it is known how many blocks and threads were launched: nothing can be explained without them."""
    grid, block = kernel.get("grid"), kernel.get("block")
    return bool(grid) and bool(block) and min(*(grid or [0]), *(block or [0])) > 0


def unfit_kernels(entry: CodeJson) -> list[str]:
    """Autotuned kernels without a configuration that fits, each with the reason."""
    # A kernel that CUDA would refuse was compiled all the same, and is explained.
    fit = {k["name"] for k in entry["kernels"] if not k.get("refusal") or k.get("facts")}
    reasons = [f"{k['name']} does not fit: {k['refusal']}" for k in entry["kernels"] if k["name"] not in fit]
    return list(dict.fromkeys(reasons))


def _is_chosen(kernel: KernelJson, choices: Sequence[TunedJson]) -> bool:
    config = kernel.get("config") or {}
    constexprs = config.get("constexprs")
    flat = {**config, **constexprs} if isinstance(constexprs, dict) else config
    chosen = [choice["config"] for choice in choices if choice["kernel"] == kernel["name"]]
    return any(all(flat.get(name) == value for name, value in wanted.items()) for wanted in chosen)


def _read_kernel(k: KernelJson, facts: FactsJson, fits: OccupancyJson) -> Kernel:
    loads = [a for a in facts["accesses"] if a["kind"] in GLOBAL_LOADS and a["bytes"]]
    load_count = sum(a["count"] for a in loads)
    tensor_bytes = [p.get("bytes") for p in k["parameters"]]
    products = k.get("products") or []
    shape_refusal, shape_remedy = grid_refusal(k["grid"], k["block"])
    local = [a for a in facts["accesses"] if a["kind"] in LOCAL_ACCESSES]
    loops = [loop for loop in facts["loops"] if not _is_trigonometric(loop, facts["stack_bytes"] or 0)]
    hot_loop = _innermost_loading_loop(loops)
    average = sum(a["bytes"] * a["count"] for a in loads) / load_count if load_count else 0.0
    return Kernel(
        name=k["name"],
        times=k.get("times", 1),
        blocks=math.prod(k["grid"]),
        threads=math.prod(k["block"]),
        kind=k.get("kind") or "",
        config=k.get("config") or {},
        tuned=k.get("tuned"),
        registers=facts["registers"],
        shared_bytes=k.get("shared_total_bytes"),
        spill_bytes=facts["spill_bytes"],
        flight_bytes=facts.get("flight_bytes") or 0,
        sectors=k.get("sectors"),
        conflicts=k.get("conflicts"),
        shared_goes=_shared_transactions(facts["accesses"]),
        stack_bytes=facts["stack_bytes"] or 0,
        local_bytes=sum(a["bytes"] * a["count"] for a in local),
        instructions=facts["instructions"],
        executed=facts.get("executed") or facts["instructions"],
        loop=(hot_loop.get("executed") or hot_loop["instructions"]) if hot_loop else None,
        unknown_turns=_loops_of_unknown_length(loops),
        once_loops=_count_once_loops(loops),
        loading_loops=_count_loading_loops(loops),
        load_bytes=(hot_loop.get("load_bytes") if hot_loop else None) or average,
        widest_bytes=max((a["bytes"] for a in loads), default=facts["widest_global_bytes"]),
        blocks_per_sm=fits["blocks_per_sm"],
        occupancy=fits["fraction"],
        limiter=describe_limiters(fits.get("limiters") or [fits["limiter"]]),
        remedy=fits["remedy"] if fits.get("refusal") or not shape_refusal else shape_remedy,
        refusal=fits.get("refusal") or shape_refusal,
        products=list(dict.fromkeys(product["kind"] for product in products)),
        product_flops=products[0]["flops"] if len(products) == 1 else 0,
        l1_bytes=fits["l1_bytes"],
        pointer_bytes=_touched_bytes(k, facts, sum(b for b in tensor_bytes if b)) if any(tensor_bytes) else None,
    )


def _shared_transactions(accesses: Sequence[AccessJson]) -> float:
    """The fewest shared-memory transactions per access, on average: one moves 4 bytes for each lane."""
    shared = [a for a in accesses if a["kind"] in SHARED_ACCESSES]
    access_count = sum(a["count"] for a in shared)
    return sum(max(1.0, a["bytes"] / 4) * a["count"] for a in shared) / access_count if access_count else 1.0


def _touched_bytes(k: KernelJson, facts: FactsJson, tensor_bytes: int) -> int:
    """The size of its tensors, at most what its threads can request: a launch may get a whole tensor and use a part."""
    if facts["loops"] or count(facts["instructions"], _WITHOUT_WIDTH):
        return tensor_bytes
    per_thread = sum(a["bytes"] * a["count"] for a in facts["accesses"] if a["kind"] in _GLOBAL_ACCESSES)
    return min(tensor_bytes, per_thread * math.prod(k["grid"]) * math.prod(k["block"]) or tensor_bytes)


# Loops -------------------------------------------------------------------------------------------------


def _is_trigonometric(loop: LoopJson, stack_bytes: int) -> bool:
    """Whether it belongs to the slow path of sin, cos or tan, which only huge arguments take."""
    return 0 < stack_bytes <= TRIGONOMETRY_STACK_BYTES and bool(loop["instructions"].get("local_store"))


def _loads(loop: LoopJson) -> bool:
    return count(loop["instructions"], GLOBAL_LOADS) > 0


def _innermost_loading_loop(loops: Sequence[LoopJson]) -> LoopJson | None:
    """The deepest loop with a load of its own."""
    return max(filter(_loads, loops), key=lambda loop: (loop["depth"], loop["size"]), default=None)


def _loops_of_unknown_length(loops: Sequence[LoopJson]) -> dict[str, int]:
    """The instructions of one iteration of loops without loads, of unknown length: the maximum by class."""
    largest: dict[str, int] = {}
    for loop in loops:
        if not _loads(loop) and loop.get("turns") is None:
            for name, number in loop["instructions"].items():
                largest[name] = max(largest.get(name, 0), number)
    return largest


def _count_once_loops(loops: Sequence[LoopJson]) -> int:
    return sum(not _loads(loop) and not loop["waits"] and loop.get("turns") is None for loop in loops)


def _count_loading_loops(loops: Sequence[LoopJson]) -> int:
    """Outermost loops with loads, by their statements in the source: a compiler splits a loop."""
    outermost = [loop for loop in loops if _loads(loop) and loop["depth"] == 1]
    return len({loop.get("statement") or loop["sources"][0] for loop in outermost if loop["sources"]})
