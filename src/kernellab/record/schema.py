"""The JSON of a record, declared once: every field with its type and what it means.

The loader checks records against these declarations (`shape`), and docs/record.md's tables are written from them
(`tables`). A field marked NotRequired may be absent; every other field is there, null where its type allows None.
"""

from __future__ import annotations

from typing import Annotated, NotRequired, TypeAlias, TypedDict

from kernellab.activity.documents import CallActivity, CompileJson, KernelLaunch, OperatorTraffic, TunedJson
from kernellab.base.json import JsonObject, JsonValue
from kernellab.codeanalysis.kernel_json import KernelJson
from kernellab.declaration.documents import CaseJson, CostJson, PeerLibraryJson
from kernellab.energy.documents import EnergyJson
from kernellab.machine.description import Ceilings, EnvironmentJson, Peaks

SCHEMA = 3  # the version of this format


# Checks ------------------------------------------------------------------------------------------------


class ErrorsJson(TypedDict):
    """How far a result is from the oracle, in roundings of the dtype at the result's scale."""

    max: Annotated[float | None, "the largest error"]
    q999: Annotated[float | None, "the 99.9 % quantile"]
    rel_l2: Annotated[float | None, "2-norm of the error relative to the oracle's"]
    max_abs: Annotated[float | None, "the largest absolute error"]
    at: NotRequired[Annotated[list[int], "the indices of the largest error"]]


class PeerJson(ErrorsJson):
    """The implementation whose own errors set the limit, and those errors."""

    impl: Annotated[str, "PyTorch's own op, or `manual`"]


class CheckedAtJson(TypedDict):
    """The case that was checked: in Triton's interpreter it may be smaller than the declared one."""

    interpreter: Annotated[bool, "whether Triton's interpreter ran it"]
    dims: NotRequired[Annotated[dict[str, int | list[int]], "sizes by name"]]
    dtype: NotRequired[Annotated[str, ""]]
    options: NotRequired[Annotated[JsonObject, ""]]
    layout: NotRequired[Annotated[str, ""]]
    device: NotRequired[Annotated[str, ""]]


class OutsideJson(TypedDict):
    """A case that an implementation's `supports=` refuses."""

    case: Annotated[CaseJson, "the case"]
    reason: Annotated[str, "what `supports=` returned"]


class CheckOutcome(TypedDict):
    """The outcome of checking an implementation at a case."""

    status: Annotated[str, "`ok`, `wrong`, `error`, `crashed`, `timeout`, `oom`, `skipped`, `unknown`"]
    reason: Annotated[str | None, "why, for everything but `ok`"]
    checked_at: NotRequired[Annotated[CheckedAtJson, "the case that was checked, and `interpreter`"]]
    trials: NotRequired[Annotated[int, "calls that were compared with the oracle"]]
    outside: NotRequired[Annotated[list[OutsideJson], "cases outside its domain"]]
    errors: NotRequired[Annotated[ErrorsJson | None, "how far the result is from the oracle"]]
    peer: NotRequired[Annotated[PeerJson | None, "the errors that set the limit"]]
    draws: NotRequired[
        Annotated[int, "calls whose distribution was compared, of an implementation that draws its own random numbers"]
    ]
    first_call_s: NotRequired[Annotated[float | None, "seconds of the first call: building, compiling, loading"]]
    notes: NotRequired[Annotated[list[str], "what else was noticed"]]
    flaw: NotRequired[Annotated[str, "what is wrong with the implementation on purpose, as its `flaw=` declares"]]
    traceback: NotRequired[Annotated[str | None, "the author's own frames"]]
    needed_bytes: NotRequired[Annotated[int | None, "memory that was missing, for `oom`"]]


class TrialJson(TypedDict):
    """One trial: what an implementation was called with."""

    kind: Annotated[str, "which part of the battery it belongs to, or `search`, or `stored`"]
    case: Annotated[CaseJson, ""]
    layouts: Annotated[dict[str, str], "layout by input"]
    values: Annotated[dict[str, str], "kind of values by input"]
    of: Annotated[str, "the pass"]
    upstream: NotRequired[Annotated[str | None, "the kind of upstream gradient"]]
    call: NotRequired[Annotated[str | None, "how the call is made"]]
    wrt: NotRequired[Annotated[list[str], "inputs that require a gradient; empty for all"]]
    loss_on: NotRequired[Annotated[int | None, "the number of the only result that the loss depends on"]]
    draw: NotRequired[Annotated[int, "which draw of the values, where it is not the first"]]
    same: NotRequired[Annotated[list[str], "inputs that are one and the same tensor"]]
    label: NotRequired[Annotated[str, "the trial in a few words"]]


class TrialOutcome(TypedDict):
    """The outcome of one trial of an implementation."""

    op: Annotated[str, ""]
    impl: Annotated[str, ""]
    number: Annotated[int, "place in the battery; negative for trials stored from earlier runs"]
    interpreter: Annotated[bool, "whether Triton's interpreter ran it"]
    trial: Annotated[TrialJson, "what was tried"]
    status: Annotated[str, "`ok`, `wrong`, `error`, `crashed`, `timeout`, `oom`, `outside`, `unknown`"]
    reason: Annotated[str | None, "why, for everything but `ok`"]
    errors: NotRequired[Annotated[ErrorsJson | None, ""]]
    peer: NotRequired[Annotated[PeerJson | None, ""]]
    draws: NotRequired[Annotated[int, "calls whose distribution was compared, in place of values"]]
    notes: NotRequired[Annotated[list[str] | None, ""]]
    traceback: NotRequired[Annotated[str | None, ""]]


class SearchOutcome(TypedDict):
    """How many trials were drawn for an implementation beyond its battery; a failing one is among the trials."""

    op: Annotated[str, ""]
    impl: Annotated[str, ""]
    drawn: Annotated[int, "trials drawn"]
    outside: Annotated[int, "how many of them were outside its domain"]
    seconds: Annotated[float, ""]
    shrinking: NotRequired[Annotated[int, "trials spent on making the failing one smaller"]]
    script: NotRequired[Annotated[list[str], "the lines of the script that are about the failing trial"]]
    file: NotRequired[Annotated[str, "the whole script, in the run's folder"]]


class SanitizerFinding(TypedDict):
    """One report of compute-sanitizer."""

    kind: Annotated[str, ""]
    severity: Annotated[str, "`error` or `warning`"]
    kernel: Annotated[str | None, ""]
    file: Annotated[str | None, ""]
    line: Annotated[int | None, ""]
    bytes: Annotated[int | None, "size of the access"]
    detail: Annotated[str | None, ""]
    count: Annotated[int, "how often"]
    trial: Annotated[str | None, "the trial that was running"]
    own: Annotated[bool, "whether the kernel is the implementation's own"]
    said: NotRequired[Annotated[str, "derived: the report as a sentence"]]


class SanitizerOutcome(TypedDict):
    """What one tool of compute-sanitizer reported about an implementation."""

    op: Annotated[str, ""]
    impl: Annotated[str, ""]
    tool: Annotated[str, "`memcheck`, `racecheck`, `initcheck`, `synccheck`"]
    planned: Annotated[int, "trials chosen"]
    cases: Annotated[int, "calls that returned"]
    raised: Annotated[dict[str, int], "calls that raised, by reason"]
    findings: Annotated[list[SanitizerFinding], ""]
    errors: Annotated[int | None, "errors that the tool counted"]
    complaints: Annotated[list[str], "the tool's messages about its own problems"]
    exit: Annotated[int | None, "exit code of the process"]
    unfinished: Annotated[str | None, "why it did not finish"]
    seconds: Annotated[float, ""]
    log: Annotated[str, "its output, in the run's folder"]
    status: NotRequired[Annotated[str, "derived: `ok`, `wrong` or `unknown`"]]
    reason: NotRequired[Annotated[str | None, "derived"]]


# Times -------------------------------------------------------------------------------------------------

Telemetry: TypeAlias = dict[str, list[JsonValue]]  # readings by column, one of them `t`

# `pass` is a keyword of Python: a class cannot declare such a key.
SeriesJson = TypedDict(
    "SeriesJson",
    {
        "pass": Annotated[str, "`forward`, `backward` or `both`"],
        "timer": Annotated[str | None, "which timer"],
        "cache": Annotated[str | None, "`cold` or `warm`"],
    },
)


class CrossCheckJson(TypedDict):
    """Whether a time agrees with the clock of the process that started the worker."""

    verdict: Annotated[str, "`agrees`, `disagrees` or `not cross-checked`"]
    reason: Annotated[str | None, "why, for everything but `agrees`"]
    outside_us: Annotated[float | None, "microseconds per call in the batch that decided"]
    calls: Annotated[int | None, "calls in that batch"]
    batches: Annotated[int, "how many were run"]
    tolerance: Annotated[float, "how many times as long as reported a call may take"]


class TimeSeries(SeriesJson):
    """The samples of an implementation in one series: one pass, one timer, one state of the cache."""

    status: Annotated[str, "`ok`, `partial`, `skipped`, or the fault that ended it"]
    reason: Annotated[str | None, ""]
    samples_us: Annotated[list[float], "microseconds per call, one for each window"]
    rounds: Annotated[list[int], "the round of each sample"]
    before: NotRequired[Annotated[list[str], "which implementation ran before it, in each round"]]
    clocks_mhz: NotRequired[Annotated[list[float | None], "on a GPU: the SM clock while it ran, in each round"]]
    calls: NotRequired[Annotated[int, "calls in a window"]]
    floor_us: NotRequired[Annotated[float | None, "time of an empty kernel in such a window, a lower bound"]]
    looks: NotRequired[Annotated[list[int], "rounds after which the test checked whether all is decided"]]
    decided: NotRequired[Annotated[bool, "whether the last look ended it; otherwise its time was up"]]
    precision: NotRequired[Annotated[float, "the smallest difference that was to be resolved"]]
    warmups: NotRequired[Annotated[int, "warm-up rounds"]]
    warmup_s: NotRequired[Annotated[float, "seconds of warm-up"]]
    steady: NotRequired[Annotated[bool | None, "whether the warm-up reached a steady time"]]
    telemetry: NotRequired[Annotated[Telemetry | None, "clock, power and neighbours while timing, by column"]]
    needed_bytes: NotRequired[Annotated[int | None, "memory that was missing, for `oom`"]]
    energy: NotRequired[Annotated[EnergyJson, "after `--energy`, of the main series of a pass"]]
    cross_check: NotRequired[Annotated[CrossCheckJson, "by a clock outside the worker"]]


class MemoryJson(TypedDict, total=False):
    """Peak memory of a call, beyond what was in use before."""

    allocated_bytes: Annotated[int, "by torch's allocator"]
    reserved_bytes: Annotated[int, "reserved from the GPU"]
    resident_bytes: Annotated[int, "of the process, on the CPU"]


class BuiltJson(TypedDict):
    """What an implementation's first calls compiled and tuned."""

    seconds: Annotated[float, ""]
    tuned: Annotated[list[TunedJson], "choices of autotuners"]
    compile: NotRequired[Annotated[CompileJson, "what torch.compile did"]]


class Guard(TypedDict):
    """Something a guard noticed."""

    name: Annotated[str, "which guard"]
    detail: Annotated[str, "a sentence"]


# Results and the record --------------------------------------------------------------------------------


class Result(TypedDict):
    """Everything observed of one implementation of one op at one case."""

    op: Annotated[str, ""]
    impl: Annotated[str, ""]
    kind: Annotated[str | None, "`manual`, `torch`, `compile`, `triton`, `cuda`, `cpp` or `python`"]
    case: Annotated[CaseJson, ""]
    check: Annotated[CheckOutcome | None, "of the forward pass; null where the run did not reach it"]
    gradients: Annotated[CheckOutcome | None, "of the backward pass, where it was requested"]
    times: Annotated[list[TimeSeries], "one for each series"]
    cost: Annotated[dict[str, CostJson | None], "by pass; null where `cost=` failed"]
    memory: Annotated[dict[str, MemoryJson], "by pass"]
    built: Annotated[BuiltJson | None, "null if nothing was compiled or tuned"]
    kernels: Annotated[list[KernelLaunch] | None, "on a GPU: the kernels of one call"]
    inside: Annotated[
        CallActivity | None, "what else one call does: allocations, copies, synchronisations, random numbers"
    ]
    traffic: Annotated[
        list[OperatorTraffic] | None, "the operators of one call as torch dispatches them; null for `compile`"
    ]
    guards: Annotated[list[Guard], "what guards noticed"]


class SpentJson(TypedDict):
    """Where the time of one case went."""

    op: Annotated[str, ""]
    case: Annotated[CaseJson, ""]
    seconds: Annotated[dict[str, float], "by phase: `build`, `warm-up`, `timed`, and `all`"]


_CodePass = TypedDict("_CodePass", {"pass": Annotated[str, ""]})


class CodeJson(_CodePass):
    """What an implementation compiled to at a case, for one architecture."""

    op: Annotated[str, ""]
    impl: Annotated[str, ""]
    kind: Annotated[str, ""]
    case: Annotated[CaseJson | None, ""]
    arch: Annotated[str, ""]
    gpu: Annotated[str | None, "the GPU whose figures were used"]
    status: Annotated[str, "`ok`, `none`, `skipped`, `error`, `crashed`, `timeout`, `oom`"]
    reason: Annotated[str, ""]
    seconds: Annotated[float | None, ""]
    order: Annotated[list[int], "place of the implementation and of the architecture in the request"]
    kernels: Annotated[list[KernelJson], "one for each kernel: launch, facts, occupancy, files"]
    cost: NotRequired[Annotated[CostJson | None, "after `klab explain`"]]
    traffic: NotRequired[Annotated[list[OperatorTraffic] | None, "after `klab explain`, on meta tensors"]]
    launcher_lines: NotRequired[Annotated[int | None, "lines of Python that launch it"]]
    kernel_lines: NotRequired[Annotated[int | None, "lines of its kernels"]]


class GpuJson(TypedDict):
    """The GPU that a run used."""

    name: Annotated[str, ""]
    arch: Annotated[str, ""]
    sms: Annotated[int, ""]
    l2_bytes: Annotated[int | None, ""]
    memory_bytes: Annotated[int | None, ""]
    pin_gbps: Annotated[float | None, ""]


# `class` is a keyword of Python.
MachineJson = TypedDict(
    "MachineJson",
    {
        "device": Annotated[str, "`cpu` or `cuda:0`"],
        "name": Annotated[str, "the device with its serial number"],
        "class": NotRequired[Annotated[str, "the device without its serial number"]],
        "key": NotRequired[Annotated[str, "device and versions; a resumed run must have the same"]],
        "torch": NotRequired[Annotated[str, "version"]],
        "cuda": NotRequired[Annotated[str | None, "version that torch is built for"]],
        "peaks": NotRequired[Annotated[Peaks | None, "on a GPU"]],
        "gpu": NotRequired[Annotated[GpuJson | None, "on a GPU"]],
        "ceilings": NotRequired[Annotated[Ceilings | None, "null where nothing was timed"]],
    },
)


class MergedRun(TypedDict):
    """A run that was merged into this one."""

    folder: Annotated[str, ""]
    command: Annotated[list[str], ""]
    began: Annotated[str | None, ""]
    commit: Annotated[str | None, ""]
    machine: Annotated[str, ""]
    ceilings: Annotated[Ceilings | None, ""]
    cells: Annotated[list[int] | None, ""]


class Record(TypedDict):
    """The record of a run."""

    schema: Annotated[int, "the version of this format"]
    command: Annotated[list[str], "the command line"]
    seed: Annotated[int, "of all inputs"]
    environment: Annotated[EnvironmentJson, "versions, CPU, GPUs, commit"]
    machine: Annotated[MachineJson, "the device that was used; empty until the run is planned"]
    stages: Annotated[list[str], "`check`, `battery`, `sanitize`, `time`, `inspect`, `explain`"]
    sources: Annotated[dict[str, str], "a hash of each op's sources"]
    peers: Annotated[dict[str, PeerLibraryJson], "other libraries whose kernels were asked for, by name"]
    complete: Annotated[bool, "whether the run finished"]
    spent: Annotated[list[SpentJson], "where the time went, per case"]
    results: Annotated[list[Result], "one for each op, implementation and case"]
    trials: Annotated[list[TrialOutcome], "one for each op, implementation and trial of the battery"]
    sanitized: Annotated[list[SanitizerOutcome], "one for each op, implementation and tool of compute-sanitizer"]
    searches: Annotated[list[SearchOutcome], "one for each implementation that was searched"]
    code: Annotated[list[CodeJson], "one for each op, implementation, case, pass and architecture that was inspected"]
    began: NotRequired[Annotated[str, "when the run began"]]
    merged_from: NotRequired[Annotated[list[MergedRun], "in a run made by `klab merge`"]]
