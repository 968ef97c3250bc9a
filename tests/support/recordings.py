"""Recordings in the test's own process, and what their traces contain."""

from __future__ import annotations

from collections.abc import Callable

from torch.profiler import ProfilerActivity, profile

from kernellab.profiler.recording import RecordingOptions
from kernellab.profiler.session import Session
from kernellab.traces import kineto

OPERATORS_ONLY = RecordingOptions(shapes=False, memory=False, stacks=False)


def names_in(session: Session, number: int = 0) -> list[str]:
    """The names of all rows of one of a session's traces."""
    trace = kineto.read(session.folder / session.traces[number])
    return [trace.name_of(row) for row in range(len(trace))]


def profiled_names(run: Callable[[], object]) -> list[str]:
    """The names of the events that PyTorch's profiler records during a call."""
    with profile(activities=[ProfilerActivity.CPU]) as profiler:
        run()
    return [event.name for event in profiler.events()]
