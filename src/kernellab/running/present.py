"""The device of this machine as torch and its driver describe it, asked in a worker; what it can do, measured there."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from kernellab.errors import UserError
from kernellab.machine import tools
from kernellab.machine.environment import cpu
from kernellab.running.post import Event, Post
from kernellab.running.settings import Settings


def present() -> dict[str, Any] | None:
    """Name, `arch`, `sms`, `l2_bytes` and `memory_bytes` of the GPU present; None where there is none."""
    if not tools.has_gpu():
        return None
    with tempfile.TemporaryDirectory(prefix="kernellab-device-") as scratch:
        post = _post("auto", Path(scratch))
        try:
            post.ready()
            gpu: dict[str, Any] | None = post.device["gpu"]
            return gpu
        finally:
            post.close()


def measure(device: str, *, quick: bool) -> dict[str, Any]:
    """What `timing.rates` measures, with the device it was measured on and what speaks against it."""
    with tempfile.TemporaryDirectory(prefix="kernellab-device-") as scratch:
        post = _post(device, Path(scratch))
        found: list[Event] = []
        try:
            lost = post.work("rates", lambda e: found.append(e) if e["event"] == "rates" else None, quick=quick)
            if lost is not None or not found:
                raise UserError(f"measuring failed: {lost.reason if lost else 'the worker said nothing'}")
            gpu = post.device["gpu"]
            facts = {"name": gpu["name"] if gpu else cpu()["name"], **post.device}
            return {k: v for k, v in {**facts, **found[0]}.items() if k != "event"}
        finally:
            post.close()


def _post(device: str, scratch: Path) -> Post:
    return Post(None, "native", Settings(targets=[], stages=[], request={}, device=device), scratch / "worker.log")
