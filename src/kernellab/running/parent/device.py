"""The device of this machine, described by torch and its driver and measured in a worker of its own."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from kernellab.base.errors import UserError
from kernellab.base.json import JsonObject
from kernellab.machine import gpus, tools
from kernellab.machine.environment import cpu
from kernellab.machine.environment import gpus as gpus_here
from kernellab.record.event import Event
from kernellab.record.schema import GpuJson
from kernellab.record.settings import NO_CASES, Settings
from kernellab.running.parent.worker_slot import WorkerSlot
from kernellab.running.processes.worker_template import WorkerTemplate
from kernellab.running.protocol.commands import Command, MeasureRates, TimeGrids
from kernellab.running.protocol.events import DeviceChosen, GridsTimed, RatesMeasured

_Answer = TypeVar("_Answer", bound=Event)


def describe_gpu() -> GpuJson | None:
    """The GPU of this machine; None if there is none."""
    if not tools.has_gpu():
        return None
    with _worker("auto") as slot:
        slot.ready()
        return slot.device.gpu or _gpu_unknown_to_torch()


def _gpu_unknown_to_torch() -> GpuJson | None:
    """A GPU that the driver reports and torch does not see, described from the database of GPUs."""
    for here in gpus_here():
        with contextlib.suppress(UserError):
            model = gpus.gpu(here["name"])
            return {
                "name": here["name"],
                "arch": model.arch,
                "sms": model.sms,
                "l2_bytes": model.l2_bytes,
                "memory_bytes": here["memory_bytes"],
                "pin_gbps": model.pin_gbps,
            }
    return None


@dataclass(frozen=True)
class MeasuredDevice:
    """A device of this machine and its measured rates."""

    name: str
    device: DeviceChosen
    rates: RatesMeasured

    def to_json(self) -> JsonObject:
        return {"name": self.name, **_fields(self.device), **_fields(self.rates)}


def measure(device: str, *, quick: bool) -> MeasuredDevice:
    """Measure the rates of a device (`timing.rates`), with doubts about the figures."""
    with _worker(device) as slot:
        rates = _ask(slot, MeasureRates(quick=quick), RatesMeasured)
        gpu = slot.device.gpu
        return MeasuredDevice(gpu["name"] if gpu else cpu()["name"], slot.device, rates)


def time_grids(grids: Sequence[int], threads: int, shared_bytes: int, *, rounds: int) -> GridsTimed:
    """Time grids of equal blocks on the GPU of this machine."""
    with _worker("cuda") as slot:
        command = TimeGrids(grids=list(grids), threads=threads, shared_bytes=shared_bytes, rounds=rounds)
        return _ask(slot, command, GridsTimed)


def _ask(slot: WorkerSlot, command: Command, answer: type[_Answer]) -> _Answer:
    """Send a command and return the event that answers it."""
    answers: list[_Answer] = []
    lost = slot.work(command, lambda event: answers.append(event) if isinstance(event, answer) else None)
    if lost is not None or not answers:
        raise UserError(f"measuring failed: {lost.reason if lost else 'the worker sent no result'}")
    return answers[0]


def _fields(event: Event) -> JsonObject:
    return {key: value for key, value in event.to_json().items() if key != "event"}


@contextlib.contextmanager
def _worker(device: str) -> Iterator[WorkerSlot]:
    with tempfile.TemporaryDirectory(prefix="kernellab-device-") as scratch:
        settings = Settings(targets=[], stages=[], request=NO_CASES, device=device)
        template = WorkerTemplate()
        slot = WorkerSlot(None, "native", settings, Path(scratch) / "worker.log", template)
        try:
            yield slot
        finally:
            slot.close()
            template.close()
