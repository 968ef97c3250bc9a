"""What there is to explain: one way at one case with everything a record knows of it, as plain data.

Put together from a record's results (what was measured) and its `code` (what was compiled). A way that was compiled
and not timed is a subject too, without a time.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from kernellab.base.errors import UserError
from kernellab.gpumodel.occupancy import grid_refusal, in_words
from kernellab.gpumodel.roofline import Roofline, roofline
from kernellab.machine.chips import Chip, chip
from kernellab.machine.gpus import gpu
from kernellab.timing.timers import is_duration

# What a GPU sustains of its pins' bandwidth, where nothing was measured: H200, copy 4273 of 4917 GB/s (2026-11-15).
SUSTAINED = 0.87

# An empty kernel among others, on an H200 (docs/results/timing-h200.md).
IN_A_ROW_US = 1.6


# Local memory of a thread up to which it is the slow path of sin, cos and tan, taken by huge arguments alone: it goes
# over a table of digits of pi, 32 bytes in float, 40 in double.
TRIGONOMETRY_BYTES = 40

_PRODUCTS = ("mm", "addmm", "bmm", "baddbmm", "matmul", "linear", "_scaled_mm", "convolution", "_int_mm")
_GLOBAL = ("global_load", "global_store", "async_copy")
_WITHOUT_WIDTH = ("bulk_copy", "generic_load", "generic_store", "global_atomic")
_TENSOR = ("tensor_mma", "tensor_wgmma", "tensor_tcgen05")


@dataclass(frozen=True)
class Device:
    """A GPU: the one measured on, or one of the database."""

    name: str
    chip: Chip
    sms: int
    l2_bytes: int
    clock_mhz: float
    gbps: float  # measured copy bandwidth; without one, what the pins would sustain


@dataclass(frozen=True)
class Kernel:
    """One launch of a way. What was not read from a binary or seen by a profiler is None or empty."""

    name: str
    times: int
    blocks: int
    threads: int
    kind: str = ""  # triton or cuda: who shares a tile out over threads, a compiler or the author
    config: Mapping[str, Any] = field(default_factory=dict)  # what the author or a tuner chose
    tuned: Sequence[int] | None = None  # which of a tuner's configurations it is, from 0, and of how many
    registers: int | None = None
    shared_bytes: int | None = None
    spill_bytes: int | None = None
    flight_bytes: int = 0  # what a thread asks of memory before it waits; 0: not known
    sectors: float | None = None  # of 32 bytes that a warp's accesses touch, over the fewest that would do
    conflicts: float | None = None  # goes shared memory takes for a warp's accesses, over the fewest
    shared_goes: float = 1.0  # the fewest for one of its accesses, on average: 4 bytes of each lane in a go
    stack_bytes: int = 0  # of local memory per thread
    local_bytes: int = 0  # moved to and from it by the code, gone through once
    instructions: Mapping[str, int] = field(default_factory=dict)
    executed: Mapping[str, int] = field(default_factory=dict)  # loops as often as the code says, or once
    loop: Mapping[str, int] | None = None  # the same of the innermost loop that loads
    unknown_turns: Mapping[str, int] = field(default_factory=dict)  # the same of loops that load nothing
    once_loops: int = 0  # without loads, and with turns that are not in the code: counted once
    loading_loops: int = 0  # loops with loads of their own, each from other lines of the source
    load_bytes: float = 0.0  # of one global load, on average
    widest_bytes: int = 0  # of a global load; of a store, where it loads nothing
    blocks_per_sm: int | None = None
    occupancy: float | None = None
    limiter: str = ""
    remedy: str = ""
    refusal: str = ""  # why CUDA would not launch it
    products: Sequence[str] = ()  # what its tensor cores multiply: bf16, tf32
    product_flops: int = 0  # operations per thread of one such instruction; 0 where they differ or are not known
    l1_bytes: int = 0
    pointer_bytes: int | None = None  # of the tensors it is given

    @property
    def all_threads(self) -> int:
        return self.blocks * self.threads

    @property
    def code(self) -> Mapping[str, int]:
        """What decides its time: one turn of the loop that loads, or all of it where there is none."""
        return self.loop or self.executed or self.instructions

    @property
    def on_tensor_cores(self) -> bool:
        return any(self.instructions.get(name) for name in _TENSOR)


@dataclass(frozen=True)
class Subject:
    op: str
    impl: str
    kind: str
    case: Mapping[str, Any]
    cost: Mapping[str, Any] | None
    device: Device | None  # None: the CPU
    gbps: float | None  # copy bandwidth of where it runs
    limit: Roofline | None
    time_us: float | None = None
    cache: str | None = None  # the cache's state while timed
    floor_us: float | None = None  # what a kernel that does nothing takes
    launch_us: float | None = None  # what the host takes per call
    host_us: float | None = None  # the same in one profiled call, which is slower
    gpu_us: float | None = None  # of one profiled call, all its kernels
    warm_us: float | None = None  # where it was timed with its data in cache as well
    kernels: Sequence[Kernel] = ()  # of its own: Triton, CUDA C++, inductor's
    launched: Sequence[Mapping[str, Any]] = ()  # what a profiler saw on the GPU, in order
    traffic: Sequence[Mapping[str, Any]] | None = None
    others: Mapping[str, float] = field(default_factory=dict)  # the other right ways' times at this case
    fused: Sequence[str] = ()  # which of these are no chain of operators

    @property
    def dtype(self) -> str:
        return str(self.case["dtype"])

    @property
    def measured(self) -> bool:
        return self.time_us is not None

    @property
    def fewest_bytes(self) -> int:
        return self.limit.bytes if self.limit else 0

    def multiplies(self, kernel: Kernel) -> bool:
        """Whether the op's products are this kernel's: not where an operator beside it does them, or another kernel."""
        if any(is_product(str(one["op"])) for one in self.traffic or ()):
            return False
        if any(k.on_tensor_cores for k in self.kernels):
            return kernel.on_tensor_cores
        return any(kernel.instructions.get(name) for name in ("fp32", "fp16"))

    @property
    def row_floor_us(self) -> float:
        """What a kernel that does nothing takes in a row of others: less than alone in a timed window."""
        return min(self.floor_us or IN_A_ROW_US, IN_A_ROW_US) if self.device else 0.0

    @property
    def headroom(self) -> float | None:
        """How many times as fast it would be at the roof; None where there is no time or no roof."""
        return 1 / self.limit.fraction if self.limit and self.limit.fraction else None


def is_product(operator: str) -> bool:
    """Of `aten::mm` and its like."""
    return operator.rpartition("::")[2].partition(".")[0] in _PRODUCTS


# From a record ------------------------------------------------------------------------------------------


def subjects(record: Mapping[str, Any], gpu_name: str | None = None) -> list[Subject]:
    """Everything of a record that can be explained: timed ways first, then what was only compiled.

    `gpu_name` is a GPU of the database to explain the latter for, of an architecture they were compiled for; otherwise
    the one they were compiled for.
    """
    timed = [r for r in record["results"] if _main(r) is not None]
    found = [subject(record, result) for result in timed]
    known = {(r["op"], r["impl"], str(r["case"])) for r in timed}
    for entry in _compiled(record, gpu_name):
        explained = entry.get("pass") == "forward" and entry["case"] and entry["status"] in ("ok", "none")
        explained = explained and not refusals(entry)
        told = _for_here(record, entry) and (entry["op"], entry["impl"], str(entry["case"])) in known
        if explained and not told:
            one = _unmeasured(entry, gpu_name)
            if one is not None:
                found.append(one)
    return found


def refusals(entry: Mapping[str, Any]) -> list[str]:
    """Autotuned kernels of which no configuration fits, and why."""
    # What CUDA would not launch was compiled all the same, and is explained.
    fit = {k["name"] for k in entry["kernels"] if not k.get("refusal") or k.get("facts")}
    found = [f"{k['name']} does not fit: {k['refusal']}" for k in entry["kernels"] if k["name"] not in fit]
    return list(dict.fromkeys(found))


def _compiled(record: Mapping[str, Any], gpu_name: str | None) -> list[Mapping[str, Any]]:
    """What was compiled for the architecture of the GPU named; all of it where none is."""
    code: list[Mapping[str, Any]] = list(record.get("code", ()))
    if gpu_name is None or not code:
        return code
    asked, archs = gpu(gpu_name), {entry["arch"] for entry in code}
    if asked.arch not in archs:
        made = ", ".join(sorted(archs))
        raise UserError(f"{asked.name} is {asked.arch}, and the kernels of this run are compiled for {made}")
    return [entry for entry in code if entry["arch"] == asked.arch]


def subject(record: Mapping[str, Any], result: Mapping[str, Any]) -> Subject:
    """A timed result."""
    machine = record.get("machine", {})
    ceilings = machine.get("ceilings")
    entry = _main(result)
    assert entry is not None
    series = {(e["timer"], e["cache"]): statistics.median(e["samples_us"]) for e in _forward(result)}
    # Where verdicts are at hand their median is meant, which is over rounds.
    time = (result.get("derived") or {}).get("time") or {}
    time_us = time.get("median_us") or series[entry["timer"], entry["cache"]]
    cost = result["cost"].get("forward")
    inside = result.get("inside") or {}
    return Subject(
        op=result["op"],
        impl=result["impl"],
        kind=result.get("kind") or "python",
        case=result["case"],
        cost=cost,
        device=_present(machine) if result["case"]["device"] == "cuda" else None,
        gbps=ceilings["copy_gbps"] if ceilings else None,
        limit=roofline(cost, result["case"]["dtype"], time_us, ceilings) if cost else None,
        time_us=time_us,
        cache=entry["cache"],
        floor_us=entry.get("floor_us"),
        launch_us=series.get(("launch", "warm")),
        host_us=inside.get("host_us"),
        gpu_us=inside.get("device_us"),
        warm_us=series.get((entry["timer"], "warm")) if entry["cache"] == "cold" else None,
        kernels=_kernels(_code(record, result), (result.get("built") or {}).get("tuned") or ()),
        launched=result.get("kernels") or (),
        traffic=result.get("traffic"),
        others={other["impl"]: time for other, time in _others(record, result)},
        fused=[other["impl"] for other, _ in _others(record, result) if _is_fused(other)],
    )


def _unmeasured(entry: Mapping[str, Any], gpu_name: str | None) -> Subject | None:
    if entry["case"]["device"] != "cuda":
        return None
    try:
        device = of_database(gpu_name or entry["gpu"])
    except UserError:
        return None
    cost = entry.get("cost")
    bare = {"copy_gbps": device.gbps, "matmul_tflops": _vendor_matmul(device)}
    return Subject(
        op=entry["op"],
        impl=entry["impl"],
        kind=entry["kind"],
        case=entry["case"],
        cost=cost,
        device=device,
        gbps=device.gbps,
        limit=roofline(cost, entry["case"]["dtype"], None, bare) if cost else None,
        kernels=_kernels(entry),
        traffic=entry.get("traffic"),
    )


def of_database(name: str) -> Device:
    """A GPU by its name, with what it would sustain of its bandwidth."""
    known = gpu(name)
    gbps = SUSTAINED * known.pin_gbps
    return Device(known.name, known.chip, known.sms, known.l2_bytes or 0, known.boost_mhz, gbps)


def _present(machine: Mapping[str, Any]) -> Device | None:
    here = machine.get("gpu")
    if not here:
        return None
    measured = (machine.get("ceilings") or {}).get("copy_gbps")
    pins = here.get("pin_gbps")
    if not measured and not pins:
        return None
    try:
        known = chip(here["arch"])
    except UserError:  # an architecture newer than the table
        return None
    peak = ((machine.get("peaks") or {}).get("tflops") or {}).get("fp32")
    clock = peak * 1e6 / here["sms"] / known.fp32_per_clock if peak else 1500.0
    gbps = measured or SUSTAINED * pins
    return Device(here["name"], known, here["sms"], here["l2_bytes"] or 0, clock, gbps)


_TENSOR_NAMES = {"bfloat16": "bf16", "float16": "fp16", "float32": "tf32"}


def _vendor_matmul(device: Device) -> dict[str, float]:
    rates = device.chip.tensor_per_clock
    found = {d: device.sms * rates[n] * device.clock_mhz / 1e6 for d, n in _TENSOR_NAMES.items() if n in rates}
    # float32 products are not rounded to tf32 unless asked for.
    return {**found, "float32": device.sms * device.chip.fp32_per_clock * device.clock_mhz / 1e6}


def _forward(result: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    return (e for e in result["times"] if e["pass"] == "forward" and e["samples_us"])


def _main(result: Mapping[str, Any]) -> Mapping[str, Any] | None:
    if (result.get("check") or {}).get("status") != "ok":
        return None
    return next((e for e in _forward(result) if is_duration(e["timer"])), None)


def _others(record: Mapping[str, Any], result: Mapping[str, Any]) -> Iterator[tuple[Mapping[str, Any], float]]:
    for other in record["results"]:
        same = other["op"] == result["op"] and other["case"] == result["case"] and other is not result
        entry = _main(other) if same else None
        if entry is not None:
            yield other, statistics.median(entry["samples_us"])


def _is_fused(result: Mapping[str, Any]) -> bool:
    """Torch's dispatcher sees one operator at most; what it never saw is a compiler's or somebody's own kernel."""
    traffic = result.get("traffic")
    return result.get("kind") in ("compile", "triton", "cuda", "cpp") if traffic is None else len(traffic) < 2


def _code(record: Mapping[str, Any], result: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """What the way compiled to at this case for the GPU it was timed on."""
    for entry in record.get("code", ()):
        same = all(entry[k] == result[k] for k in ("op", "impl", "case")) and entry["pass"] == "forward"
        if same and _for_here(record, entry):
            found: Mapping[str, Any] = entry
            return found
    return None


def _for_here(record: Mapping[str, Any], entry: Mapping[str, Any]) -> bool:
    """Whether it was compiled for the GPU that was timed: another one of its architecture may get other launches."""
    here = (record.get("machine") or {}).get("gpu") or {}
    return (entry["arch"], entry["gpu"]) == (here.get("arch"), here.get("name"))


def _kernels(entry: Mapping[str, Any] | None, choices: Sequence[Mapping[str, Any]] = ()) -> list[Kernel]:
    """Of an autotuned kernel what its tuner chose, or every configuration where that is not known."""
    read = [k for k in entry["kernels"] if k.get("facts")] if entry else []
    settled = {k["name"] for k in read if k.get("tuned") and _is_chosen(k, choices)}
    return [_kernel(k) for k in read if k["name"] not in settled or _is_chosen(k, choices)]


def _is_chosen(k: Mapping[str, Any], choices: Sequence[Mapping[str, Any]]) -> bool:
    config = k.get("config") or {}
    flat = {**config, **config.get("constexprs", {})}
    chosen = [choice["config"] for choice in choices if choice["kernel"] == k["name"]]
    return any(all(flat.get(name) == value for name, value in one.items()) for one in chosen)


def _kernel(k: Mapping[str, Any]) -> Kernel:
    facts, fits = k["facts"], k["occupancy"]
    loads = [a for a in facts["accesses"] if a["kind"] in ("global_load", "async_copy") and a["bytes"]]
    count = sum(a["count"] for a in loads)
    given = [p.get("bytes") for p in k["parameters"]]
    multiplied = k.get("products") or []
    misshapen, fold = grid_refusal(k["grid"], k["block"])
    local = [a for a in facts["accesses"] if a["kind"] in ("local_load", "local_store")]
    loops = [one for one in facts["loops"] if not _trigonometric(one, facts["stack_bytes"] or 0)]
    return Kernel(
        name=k["name"],
        times=k["times"],
        blocks=_product(k["grid"]),
        threads=_product(k["block"]),
        kind=k.get("kind") or "",
        config=k.get("config") or {},
        tuned=k.get("tuned"),
        registers=facts["registers"],
        shared_bytes=k["shared_total_bytes"],
        spill_bytes=facts["spill_bytes"],
        flight_bytes=facts.get("flight_bytes") or 0,
        sectors=k.get("sectors"),
        conflicts=k.get("conflicts"),
        shared_goes=_shared_goes(facts["accesses"]),
        stack_bytes=facts["stack_bytes"] or 0,
        local_bytes=sum(a["bytes"] * a["count"] for a in local),
        instructions=facts["instructions"],
        executed=facts.get("executed") or facts["instructions"],
        loop=_loop(loops),
        unknown_turns=_unknown_turns(loops),
        once_loops=_once_loops(loops),
        loading_loops=_loading_loops(loops),
        load_bytes=sum(a["bytes"] * a["count"] for a in loads) / count if count else 0.0,
        widest_bytes=max((a["bytes"] for a in loads), default=facts["widest_global_bytes"]),
        blocks_per_sm=fits["blocks_per_sm"],
        occupancy=fits["fraction"],
        limiter=in_words(fits.get("limiters") or [fits["limiter"]]),
        remedy=fits["remedy"] if fits.get("refusal") or not misshapen else fold,
        refusal=fits.get("refusal") or misshapen,
        products=list(dict.fromkeys(one["kind"] for one in multiplied)),
        product_flops=multiplied[0]["flops"] if len(multiplied) == 1 else 0,
        l1_bytes=fits["l1_bytes"],
        pointer_bytes=_touched(k, sum(b for b in given if b)) if any(given) else None,
    )


def _shared_goes(accesses: Sequence[Mapping[str, Any]]) -> float:
    shared = [a for a in accesses if a["kind"] in ("shared_load", "shared_store")]
    count = sum(a["count"] for a in shared)
    return sum(max(1.0, a["bytes"] / 4) * a["count"] for a in shared) / count if count else 1.0


def _touched(k: Mapping[str, Any], given_bytes: int) -> int:
    """No more of its tensors than its threads can ask for: a launch may be given a whole tensor and take a part."""
    facts = k["facts"]
    if facts["loops"] or any(facts["instructions"].get(name) for name in _WITHOUT_WIDTH):
        return given_bytes
    asked = sum(a["bytes"] * a["count"] for a in facts["accesses"] if a["kind"] in _GLOBAL)
    return min(given_bytes, asked * _product(k["grid"]) * _product(k["block"]) or given_bytes)


def _loop(loops: Sequence[Mapping[str, Any]]) -> Mapping[str, int] | None:
    """The deepest loop with a load of its own in it."""
    found = max(_loading(loops), key=lambda one: (one["depth"], one["size"]), default=None)
    return (found.get("executed") or found["instructions"]) if found else None


def _trigonometric(loop: Mapping[str, Any], stack_bytes: int) -> bool:
    return 0 < stack_bytes <= TRIGONOMETRY_BYTES and bool(loop["instructions"].get("local_store"))


def _unknown_turns(loops: Sequence[Mapping[str, Any]]) -> dict[str, int]:
    """Nothing says how often a loop without loads turns: by class, the most of any."""
    loading, found = _loading(loops), dict[str, int]()
    for one in (one for one in loops if one not in loading and one.get("turns") is None):
        for name, count in one["instructions"].items():
            found[name] = max(found.get(name, 0), count)
    return found


def _loading(loops: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    return [one for one in loops if any(one["instructions"].get(c) for c in ("global_load", "async_copy"))]


def _once_loops(loops: Sequence[Mapping[str, Any]]) -> int:
    loading = _loading(loops)
    return sum(one not in loading and not one["waits"] and one.get("turns") is None for one in loops)


def _loading_loops(loops: Sequence[Mapping[str, Any]]) -> int:
    """A compiler makes several loops of one (unrolled, and what is left over): those come from the same lines."""
    outermost = [one for one in _loading(loops) if one["depth"] == 1]
    seen: list[set[str]] = []
    for sources in (set(one["sources"]) for one in outermost):
        if sources and all(sources.isdisjoint(other) for other in seen):
            seen.append(sources)
    return len(seen)


def _product(dims: Sequence[int]) -> int:
    x, y, z = dims
    return x * y * z
