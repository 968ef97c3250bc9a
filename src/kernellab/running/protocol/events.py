"""Events that a worker sends to its parent and that are not stored. Stored events are in `record`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, TypedDict

from kernellab.declaration.documents import CaseJson, PeerLibraryJson
from kernellab.machine.description import MatmulRate, Peaks
from kernellab.record.event import Event
from kernellab.record.result_events import SeriesEvent
from kernellab.record.schema import GpuJson
from kernellab.timing.documents import GridTime, Rate


class ImplDescription(TypedDict):
    """An implementation as its parent sees it."""

    name: str
    kind: str
    obstacle: str | None  # why it cannot run on this device
    interpreted: bool  # it runs in Triton's interpreter here
    apart: bool  # its passes can be called apart: it can serve in models


@dataclass(frozen=True, kw_only=True)
class TransientEvent(Event):
    """The base of events that the journal does not keep."""

    stored: ClassVar[bool] = False


@dataclass(frozen=True, kw_only=True)
class DeviceChosen(TransientEvent, name="device"):
    """The device that a worker uses."""

    device: str
    torch: str
    cuda: str | None
    uuid: str
    pid: int
    peaks: Peaks | None
    gpu: GpuJson | None


@dataclass(frozen=True, kw_only=True)
class OpLoaded(TransientEvent, name="op"):
    """An op of the target: its implementations, and the cases that the request means."""

    name: str
    file: str
    source_hash: str
    known_impls: list[str]
    impls: list[ImplDescription]
    cases: list[CaseJson]
    peers: dict[str, PeerLibraryJson]
    first_input: list[str]  # its dims
    reduces: bool  # whether it reduces the columns of its first input
    optional_inputs: list[str]


@dataclass(frozen=True, kw_only=True)
class CeilingsMeasured(TransientEvent, name="ceilings"):
    """Copy bandwidth and matmul rate of the device."""

    copy_gbps: float
    matmul_tflops: dict[str, float]
    threads: int | None
    measured_at: str
    doubts: list[str]
    matmul_by_clock: dict[str, list[MatmulRate]] | None = None


@dataclass(frozen=True, kw_only=True)
class RatesMeasured(TransientEvent, name="rates"):
    """Every bandwidth and matmul rate of the device, and the range of its clock meanwhile."""

    rates: list[Rate]
    clock_mhz: list[float] | None
    doubts: list[str]


@dataclass(frozen=True, kw_only=True)
class GridsTimed(TransientEvent, name="fill"):
    """How long grids of equal blocks take, and one block alone."""

    block_ms: float
    grids: list[GridTime]
    doubts: list[str]


@dataclass(frozen=True, kw_only=True)
class SeriesBegun(SeriesEvent, name="series"):
    """The series that the following rounds belong to."""

    stored: ClassVar[bool] = False


@dataclass(frozen=True, kw_only=True)
class CulpritNamed(TransientEvent, name="culprit"):
    """An implementation broke the CUDA context while another was being checked."""

    impl: str
    reason: str


@dataclass(frozen=True, kw_only=True)
class KeyKept(TransientEvent, name="keep-key"):
    """A key that locks an oracle, for the parent to keep: an implementation can read everything in the worker."""

    ticket: int
    key: int
    checksum: int  # of what it locks


@dataclass(frozen=True, kw_only=True)
class KeyAsked(TransientEvent, name="ask-key"):
    """The implementation has returned: the worker needs the key back. The answer is a command `key`."""

    ticket: int


@dataclass(frozen=True, kw_only=True)
class BatchOffered(SeriesEvent, name="batch"):
    """An implementation is timed: the parent may have a batch of at most this many calls run. The answer is a command
    `batch`. `near_us`: what the worker's own timer says now."""

    stored: ClassVar[bool] = False

    impl: str
    most: int
    near_us: float


@dataclass(frozen=True, kw_only=True)
class BatchReady(TransientEvent, name="ready"):
    """The calls of a batch are prepared. The answer is a command `start`."""


@dataclass(frozen=True, kw_only=True)
class BatchQueued(TransientEvent, name="queued"):
    """All calls of a batch are queued on the GPU."""


@dataclass(frozen=True, kw_only=True)
class BatchEnded(TransientEvent, name="ended"):
    """All calls of a batch have ended."""


@dataclass(frozen=True, kw_only=True)
class WaitBegun(TransientEvent, name="waiting"):
    """The worker waits for another run's timing. The wait counts against no timeout."""

    reason: str


@dataclass(frozen=True, kw_only=True)
class WaitEnded(TransientEvent, name="waited"):
    """The wait is over."""


@dataclass(frozen=True, kw_only=True)
class BatteryGenerated(TransientEvent, name="battery"):
    """How many trials an op's battery has."""

    trials: int


@dataclass(frozen=True, kw_only=True)
class ScriptWritten(TransientEvent, name="script"):
    """The script that reproduces the failing trial of a search."""

    impl: str
    text: str


@dataclass(frozen=True, kw_only=True)
class ArchitectureBegun(TransientEvent, name="architecture"):
    """The architecture that the following machine code is compiled for."""

    arch: str


@dataclass(frozen=True, kw_only=True)
class LaunchCaptured(TransientEvent, name="launch"):
    """A kernel was launched while launches were captured."""

    arch: str
    kernel: str


@dataclass(frozen=True, kw_only=True)
class RequestRefused(TransientEvent, name="refused"):
    """The request was wrong, which only the worker could detect."""

    message: str
    detail: str


@dataclass(frozen=True, kw_only=True)
class CommandDone(TransientEvent, name="done"):
    """The command is carried out."""


@dataclass(frozen=True, kw_only=True)
class WorkerSpent(TransientEvent, name="replace"):
    """The CUDA context is unusable after a fault: the worker ends and must be replaced."""


@dataclass(frozen=True, kw_only=True)
class WorkerBroken(TransientEvent, name="broken"):
    """kernellab's own code failed in the worker."""

    reason: str
