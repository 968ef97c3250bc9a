"""The device of this machine: described by torch and its driver, and measured, in a worker of its own."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from kernellab.base.errors import UserError
from kernellab.machine import gpus, tools
from kernellab.machine.environment import cpu
from kernellab.machine.environment import gpus as gpus_here
from kernellab.record.settings import Settings
from kernellab.running.parent.worker_slot import Event, Post


def present() -> dict[str, Any] | None:
    """Name, `arch`, `sms`, `l2_bytes`, `memory_bytes` and `pin_gbps` of the GPU present; None where there is none."""
    if not tools.has_gpu():
        return None
    with _worker("auto") as post:
        post.ready()
        gpu: dict[str, Any] | None = post.device["gpu"]
        return gpu or _unseen()


def _unseen() -> dict[str, Any] | None:
    """A GPU whose driver answers but which torch does not see: as the database has it."""
    for here in gpus_here():
        with contextlib.suppress(UserError):
            known = gpus.gpu(here["name"])
            facts = {"name": here["name"], "arch": known.arch, "sms": known.sms, "l2_bytes": known.l2_bytes}
            return {**facts, "memory_bytes": here["memory_bytes"], "pin_gbps": known.pin_gbps}
    return None


def measure(device: str, *, quick: bool) -> dict[str, Any]:
    """What `timing.rates` measures, with the device it was measured on and what speaks against it."""
    with _worker(device) as post:
        found = _ask(post, "rates", quick=quick)
        gpu = post.device["gpu"]
        return {"name": gpu["name"] if gpu else cpu()["name"], **_plain(post.device), **found}


def fill(grids: Sequence[int], threads: int, shared_bytes: int, *, rounds: int) -> dict[str, Any]:
    """What `timing.grids` measures on the GPU present."""
    with _worker("cuda") as post:
        found = _ask(post, "fill", grids=list(grids), threads=threads, shared_bytes=shared_bytes, rounds=rounds)
        return {**_plain(post.device), **found}


def _ask(post: Post, do: str, **fields: Any) -> dict[str, Any]:
    """The one event that answers a command: it has the command's name."""
    found: list[Event] = []
    lost = post.work(do, lambda event: found.append(event) if event["event"] == do else None, **fields)
    if lost is not None or not found:
        raise UserError(f"measuring failed: {lost.reason if lost else 'the worker said nothing'}")
    return _plain(found[0])


def _plain(event: Event) -> dict[str, Any]:
    return {key: value for key, value in event.items() if key != "event"}


@contextlib.contextmanager
def _worker(device: str) -> Iterator[Post]:
    with tempfile.TemporaryDirectory(prefix="kernellab-device-") as scratch:
        settings = Settings(targets=[], stages=[], request={}, device=device)
        post = Post(None, "native", settings, Path(scratch) / "worker.log")
        try:
            yield post
        finally:
            post.close()
