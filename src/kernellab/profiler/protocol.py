"""What the parent and a profiled process exchange, as JSON.

The parent puts a request on the process's command line. The process writes reports, a list, into the file
`<rank>.collected` of the folder that the request names; traces are in the same folder.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import NotRequired, TypedDict

from kernellab.base.paths import replace_file
from kernellab.declaration.documents import CaseJson, CostJson, RequestJson

REPORTS_SUFFIX = ".collected"  # no trace's name ends like this


# Requests ----------------------------------------------------------------------------------------------


class ScheduleJson(TypedDict):
    """A `schedule.Schedule`."""

    wait: int
    warmup: int
    active: int
    repeat: int


class RecordingOptionsJson(TypedDict, total=False):
    """A `recording.RecordingOptions`; a missing field has its default."""

    shapes: bool
    memory: bool
    stacks: bool


class TargetJson(TypedDict):
    """A `declaration.targets.Target`."""

    text: str
    module: str
    file: str
    op: str


# `pass` is a keyword of Python: a class cannot declare such a key.
OpRequest = TypedDict(
    "OpRequest",
    {
        "target": TargetJson,
        "request": RequestJson,
        "impls": list[str],
        "pass": str,
        "device": str,
        "schedule": ScheduleJson,
        "how": RecordingOptionsJson,
        "tool": str | None,  # nsys or ncu if one of them records; None for PyTorch's profiler
        # To `profiled_op` only:
        "folder": NotRequired[str],
        # To `counted_op` only:
        "do": NotRequired[str],  # list, count or grids
        "answer": NotRequired[str],  # the file for the answer; empty for none
        "grids": NotRequired[list[int]],
        "blocks": NotRequired[list[int]],
    },
)
OpRequest.__doc__ = "To the programs `profiled_op` and `counted_op`: implementations of an op to run."


class MlpSetupJson(TypedDict):
    """A `workloads.mlp_setup.MlpSetup`."""

    dim: int
    layers: int
    batch: int
    steps: int
    optimizer: str
    rate: str
    data: bool
    workers: int
    device: str


class ScriptRequest(TypedDict):
    """To the program `profiled_script`. `module`: the first word after the request is a module, not a file."""

    module: bool
    name: str
    schedule: ScheduleJson | None
    seconds: float
    memory_bytes: int | None
    how: RecordingOptionsJson
    folder: str


class MlpRequest(TypedDict):
    """To the program `mlp`. `do`: profile, train (a tool records) or scale (time several `setups`, which differ in
    `by`)."""

    do: str
    folder: str
    setup: NotRequired[MlpSetupJson]
    setups: NotRequired[list[MlpSetupJson]]
    by: NotRequired[str]
    schedule: NotRequired[ScheduleJson | None]
    how: NotRequired[RecordingOptionsJson]


# Reports -----------------------------------------------------------------------------------------------


class PhaseSteps(TypedDict):
    """Consecutive steps of one phase, from the first to the last."""

    phase: str
    cycle: int
    first: int
    last: int


class TrainingJson(TypedDict):
    """A `workloads.mlp.TrainingResult`."""

    loss: float
    seconds: float
    num_steps: int
    peak_bytes: int
    device: str


class SessionReport(TypedDict):
    """What one session recorded. `traces` are names of files, one for each cycle."""

    name: str
    traces: list[str]
    steps: list[PhaseSteps]
    notes: list[str]
    schedule: NotRequired[ScheduleJson | None]
    step_us: NotRequired[float | None]  # while recorded
    plain_step_us: NotRequired[float | None]  # while not
    ended: NotRequired[str | None]  # what ended the program early
    rank: NotRequired[int]
    trained: NotRequired[TrainingJson]
    # Of an op's implementation:
    op: NotRequired[str]
    impl: NotRequired[str]
    case: NotRequired[CaseJson]
    status: NotRequired[str]  # as in `Outcome`
    reason: NotRequired[str]


class SizeTimes(TypedDict):
    """Times of the MLP at one size."""

    size: int
    steps: int
    samples_us: list[float]
    when: float


class SizePoint(SizeTimes):
    """Times at one size, with the median and its 99 % interval."""

    median_us: float
    low_us: float
    high_us: float


class SizeCurve(TypedDict):
    """Times of the MLP over one of its sizes, `by`."""

    by: str
    points: list[SizePoint]


def write_reports(folder: Path, rank: int, reports: Sequence[SessionReport] | Sequence[SizeTimes]) -> None:
    """Write the reports for the parent, which may look for the file while this process still runs."""
    folder.mkdir(parents=True, exist_ok=True)
    replace_file(folder / f"{rank}{REPORTS_SUFFIX}", json.dumps(reports).encode())


class Outcome(TypedDict):
    """How running an implementation ended. `status`: ok, skipped or error; `reason`: why not ok, or empty."""

    status: str
    reason: str


class ImplListing(TypedDict):
    """An implementation that `counted_op` found; `reason`: why it cannot be run, or empty."""

    op: str
    impl: str
    case: CaseJson
    reason: str


class SkippedImpl(TypedDict):
    """An implementation of which nothing was counted, and why."""

    impl: str
    reason: str


class CountAnswer(Outcome):
    """The answer of `counted_op` about an implementation's call, or about a sweep over grids.

    `cost` is None if the op declares none; `case` is the case of a sweep.
    """

    impl: NotRequired[str]
    cost: NotRequired[CostJson | None]
    dtype: NotRequired[str]
    case: NotRequired[CaseJson]
