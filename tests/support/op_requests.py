"""Requests to the programs that profile and count implementations of an op."""

from __future__ import annotations

from kernellab.declaration.targets import resolve
from kernellab.profiler.protocol import OpRequest
from kernellab.profiler.schedule import parse_schedule


def op_request(target: str, schedule: str = "0,0,1,1", **more: object) -> OpRequest:
    """A small case of an op on the CPU; `more` replaces fields."""
    return {
        "target": vars(resolve(target)),
        "request": {"shapes": [[4, 8]], "dtypes": ["float32"], "dims": {}, "options": {}, "quick": False},
        "impls": ["manual"],
        "pass": "forward",
        "device": "cpu",
        "schedule": parse_schedule(schedule).to_json(),
        "how": {"stacks": False},
        "tool": None,
        **more,
    }
