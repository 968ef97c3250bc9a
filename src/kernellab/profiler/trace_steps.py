"""Writes steps into a finished Chrome trace, as ranges: those of `kl.step` begin and end in the middle of calls, where
PyTorch's profiler cannot open a range."""

from __future__ import annotations

import json
import os
import re
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

_HEAD_BYTES, _TAIL_BYTES = 1 << 20, 4096  # the parts of a trace before its events and after them
_ZERO = re.compile(rb'"baseTimeNanoseconds":\s*(\d+)')
_END_OF_EVENTS = re.compile(rb'\]\s*,\s*"traceName"')


class StepSpan(NamedTuple):
    """A recorded step, in nanoseconds since the epoch."""

    number: int
    begin_ns: int
    end_ns: int


def add_steps(path: Path, steps: Sequence[StepSpan], cycle: int) -> None:
    """Append the steps to the trace's list of events, as ranges of the calling thread."""
    with path.open("r+b") as file:
        zero = _ZERO.search(file.read(_HEAD_BYTES))
        size = file.seek(0, os.SEEK_END)
        tail_start = max(0, size - _TAIL_BYTES)
        file.seek(tail_start)
        tail = file.read()
        ends = list(_END_OF_EVENTS.finditer(tail))
        if zero is None or not ends:  # not a trace that torch wrote: it is not changed
            return
        end = ends[-1].start()
        events = [_event(step, int(zero[1]), cycle) for step in steps]
        file.seek(tail_start + end)
        file.truncate()
        file.write(b"".join(b",\n  " + event for event in events) + b"\n  " + tail[end:])


def _event(step: StepSpan, zero_ns: int, cycle: int) -> bytes:
    event = {
        "ph": "X",
        "cat": "user_annotation",
        "name": f"ProfilerStep#{step.number}",
        "pid": os.getpid(),
        "tid": threading.get_native_id(),
        "ts": (step.begin_ns - zero_ns) / 1000,
        "dur": (step.end_ns - step.begin_ns) / 1000,
        "args": {"phase": "active", "cycle": cycle},
    }
    return json.dumps(event).encode()
