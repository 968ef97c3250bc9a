"""The device of this machine: described by torch and its driver, or measured, in a worker of its own."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from kernellab.base.errors import UserError
from kernellab.machine import gpus, tools
from kernellab.machine.environment import cpu
from kernellab.machine.environment import gpus as driver_gpus
from kernellab.record.settings import Settings
from kernellab.running.parent.worker_slot import Event, Post


def present_gpu() -> dict[str, Any] | None:
    """`name`, `arch`, `sms`, `l2_bytes`, `memory_bytes` and `pin_gbps` of the GPU of this machine, if it has one."""
    if not tools.has_gpu():
        return None
    with _worker("auto") as worker:
        worker.ready()
        gpu: dict[str, Any] | None = worker.device["gpu"]
        return gpu or _gpu_without_torch()


def _gpu_without_torch() -> dict[str, Any] | None:
    """A GPU whose driver answers but which torch does not see, with the numbers of the database."""
    for board in driver_gpus():
        with contextlib.suppress(UserError):
            entry = gpus.gpu(board["name"])
            facts = {"name": board["name"], "arch": entry.arch, "sms": entry.sms, "l2_bytes": entry.l2_bytes}
            return {**facts, "memory_bytes": board["memory_bytes"], "pin_gbps": entry.pin_gbps}
    return None


def measure_rates(device: str, *, quick: bool) -> dict[str, Any]:
    """Bandwidths and matmul rates (`timing.rates`), with the device they were measured on and doubts about them."""
    with _worker(device) as worker:
        rates = _request(worker, "rates", quick=quick)
        gpu = worker.device["gpu"]
        return {"name": gpu["name"] if gpu else cpu()["name"], **_fields(worker.device), **rates}


def measure_grids(grids: Sequence[int], threads: int, shared_bytes: int, *, rounds: int) -> dict[str, Any]:
    """Times of grids of equal blocks (`timing.filling`) on the GPU of this machine."""
    with _worker("cuda") as worker:
        times = _request(worker, "fill", grids=list(grids), threads=threads, shared_bytes=shared_bytes, rounds=rounds)
        return {**_fields(worker.device), **times}


def _request(worker: Post, command: str, **fields: Any) -> dict[str, Any]:
    """The fields of the one event that answers a command and has its name."""
    answers: list[Event] = []
    lost = worker.work(command, lambda event: answers.append(event) if event["event"] == command else None, **fields)
    if lost is not None or not answers:
        raise UserError(f"measuring failed: {lost.reason if lost else 'the worker sent no result'}")
    return _fields(answers[0])


def _fields(event: Event) -> dict[str, Any]:
    return {key: value for key, value in event.items() if key != "event"}


@contextlib.contextmanager
def _worker(device: str) -> Iterator[Post]:
    with tempfile.TemporaryDirectory(prefix="kernellab-device-") as scratch:
        settings = Settings(targets=[], stages=[], request={}, device=device)
        worker = Post(None, "native", settings, Path(scratch) / "worker.log")
        try:
            yield worker
        finally:
            worker.close()
