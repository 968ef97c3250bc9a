"""One recording by PyTorch's profiler. A process can have only one at a time."""

from __future__ import annotations

import functools
import json
import os
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

os.environ.setdefault("KINETO_LOG_LEVEL", "6")  # otherwise the profiler writes to standard error

import torch
from torch.autograd import profiler as torch_profiler

# Profilers that have recorded Python's calls are never freed: when one is freed after another has begun, torch drops
# references to Python objects that it does not own, and the process crashes at exit.
_finished: list[torch.profiler.profile] = []
_preparing = False  # whether one of our own recordings is being prepared


@dataclass(frozen=True)
class RecordingOptions:
    """What is recorded besides operators and kernels. `stacks` are Python's calls: source lines and modules."""

    shapes: bool = True
    memory: bool = True
    stacks: bool = True


class Recording:
    """Warms up the profiler when created, records from `start` to `stop`, on the thread that starts it.

    Torch can record all threads (`profile_all_threads`), but then records no memory, mixes up shapes, and fails if a
    thread works while the recording ends (seen with torch 2.13).
    """

    def __init__(self, options: RecordingOptions) -> None:
        global _preparing
        activities = [torch.profiler.ProfilerActivity.CPU]
        if torch.cuda.is_available():
            activities.append(torch.profiler.ProfilerActivity.CUDA)
        self._profiler = torch.profiler.profile(
            activities=activities,
            record_shapes=options.shapes,
            profile_memory=options.memory,
            with_stack=options.stacks,
            with_modules=options.stacks,
        )
        self._started = False
        _preparing = True
        try:
            with warnings.catch_warnings():
                # PyTorch 2.11 warns that events of earlier cycles are lost: here there is one cycle.
                warnings.filterwarnings("ignore", "Warning: Profiler clears events")
                self._profiler.prepare_trace()
        finally:
            _preparing = False

    def start(self) -> None:
        self._profiler.start_trace()
        self._started = True

    def stop(self, metadata: Mapping[str, object]) -> None:
        """End the recording and have torch process it. The trace holds the metadata under `kernellab`."""
        if not self._started:  # torch can end only a profiler that records
            self._profiler.start_trace()
        self._profiler.add_metadata_json("kernellab", json.dumps(metadata))
        self._profiler.stop_trace()
        _finished.append(self._profiler)

    def write(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._profiler.export_chrome_trace(str(path))


def profiler_is_running() -> bool:
    """Whether a profiler records in this process, ours or another."""
    return bool(torch_profiler._is_profiler_enabled)


@functools.cache
def before_other_profilers(action: Callable[[], None]) -> None:
    """Call `action` whenever other code prepares a profiler: torch crashes with two at once."""
    prepare = torch_profiler.profile._prepare_trace

    @functools.wraps(prepare)
    def call_and_prepare(profiler: torch_profiler.profile) -> None:
        if not _preparing:
            action()
        prepare(profiler)

    torch_profiler.profile._prepare_trace = call_and_prepare  # type: ignore[method-assign]
