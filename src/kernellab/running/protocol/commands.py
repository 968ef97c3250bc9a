"""Commands from the parent to a worker, carried out one after the other; each ends with an event `done`.

Answers to a worker's questions are commands too. They come in the middle of a command and are not carried out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypedDict

from kernellab.activity.documents import TunedJson
from kernellab.base.message import Message
from kernellab.declaration.documents import CaseJson, RequestJson
from kernellab.record.schema import SeriesJson, TrialJson
from kernellab.record.settings import TimingPlan


class TargetJson(TypedDict):
    """A target that the user typed, resolved: see `declaration.targets.Target`."""

    text: str
    module: str
    file: str
    op: str
    peers: Sequence[str]


class SeriesRequest(TypedDict):
    """A series to time, with the implementations that take part."""

    series: SeriesJson
    impls: list[str]
    timing: TimingPlan
    energy_blocks: int  # in which the energy of each is measured; 0: it is not


class KernelSeriesRequest(TypedDict):
    """A series of a timer that needs a profiler."""

    series: SeriesJson
    impls: list[str]


class ArchitectureRequest(TypedDict):
    """An architecture to compile for. `cpu`: read the code for the CPU too."""

    arch: str
    impls: list[str]
    cpu: bool


@dataclass(frozen=True, kw_only=True)
class Command(Message, key="do"):
    """The base of all commands."""


@dataclass(frozen=True, kw_only=True)
class ChooseDevice(Command, name="device"):
    """Choose the device that everything else in this worker uses."""

    device: str


@dataclass(frozen=True, kw_only=True)
class LoadTarget(Command, name="load"):
    """Execute the target and describe its ops. `pins` are choices of autotuners to reuse.

    `standin` is an architecture or a product: where there is no GPU, the target sees this one while it is loaded.
    """

    target: TargetJson
    request: RequestJson
    impls: list[str]
    pins: list[TunedJson]
    standin: str = ""


@dataclass(frozen=True, kw_only=True)
class ReleaseKey(Command, name="key"):
    """The answer to an event `ask-key`: what the parent has kept; None if it was released before."""

    key: int | None
    checksum: int | None


@dataclass(frozen=True, kw_only=True)
class RunBatch(Command, name="batch"):
    """The answer to an event `batch`: prepare this many calls on inputs made from this seed. None: no more batches."""

    calls: int | None
    seed: int


@dataclass(frozen=True, kw_only=True)
class StartBatch(Command, name="start"):
    """The answer to an event `ready`: make the calls now. The parent's clock runs."""


@dataclass(frozen=True, kw_only=True)
class MeasureCeilings(Command, name="ceilings"):
    """Measure the device's copy bandwidth and matmul rate."""


@dataclass(frozen=True, kw_only=True)
class MeasureRates(Command, name="rates"):
    """Measure every bandwidth and matmul rate of the device."""

    quick: bool


@dataclass(frozen=True, kw_only=True)
class TimeGrids(Command, name="fill"):
    """Time grids of equal blocks."""

    grids: list[int]
    threads: int
    shared_bytes: int
    rounds: int


@dataclass(frozen=True, kw_only=True)
class WorkOnGroup(Command, name="group"):
    """Check the passes of implementations at a case, then time those that are right, one series after the other.

    `check` and `right` list implementations by pass: those to check, and those that an earlier worker found right.
    `errors` are those that the check found in them, in roundings. `distrusted` have killed a worker. `most` limits the
    elements of an input in a case that is only checked.
    """

    op: str
    case: CaseJson
    check: dict[str, list[str]]
    right: dict[str, list[str]]
    errors: dict[str, dict[str, float]]
    time: list[SeriesRequest]
    distrusted: list[str]
    seed: int
    interpreted: bool
    most: int | None = None


@dataclass(frozen=True, kw_only=True)
class BatteryCommand(Command):
    """The fields that the battery and the search share.

    `distrusted` are not used as the peer; at the trials in `distrusted_at`, PyTorch's own op is not.
    """

    op: str
    dtypes: list[str]
    distrusted: list[str]
    distrusted_at: list[TrialJson]
    seed: int
    interpreted: bool


@dataclass(frozen=True, kw_only=True)
class RunBattery(BatteryCommand, name="battery"):
    """Run the trials that are generated from the op's declaration.

    `done` is the number of the next trial by implementation, `stored` the trials that failed in earlier runs. `stopped`
    says of implementations why their remaining trials are not made; they are recorded as not judged.
    """

    done: dict[str, int]
    stopped: dict[str, str]
    stored: dict[str, list[TrialJson]]
    quick: bool


@dataclass(frozen=True, kw_only=True)
class SearchTrials(BatteryCommand, name="search"):
    """Draw trials beyond the battery for one implementation, numbered from `number` on."""

    impl: str
    number: int
    seconds: float


@dataclass(frozen=True, kw_only=True)
class ProfileGroup(Command, name="profile"):
    """Profile one call of each implementation, and time the `series` of timers that need a profiler."""

    op: str
    case: CaseJson
    impls: list[str]
    series: list[KernelSeriesRequest]
    seed: int
    rounds: int


@dataclass(frozen=True, kw_only=True)
class InspectOp(Command, name="inspect"):
    """Read what implementations compile to, one architecture after the other, from their own captured launches.

    `apart`: each architecture in a fork of the worker, because an author's code may cache properties of the device.
    `accounts`: also count bytes and lines of source.
    """

    op: str
    request: RequestJson
    work: list[ArchitectureRequest]
    passes: list[str]
    gpu: str
    folder: str
    apart: bool
    accounts: bool
