"""What timers share: preparing the calls of a window, making them, waiting for the device. Imports no torch."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from sys import getprofile, gettrace  # bound here: an implementation may replace them
from typing import TYPE_CHECKING

from kernellab.timing.timer import COLD, WARM, BurstChanged

if TYPE_CHECKING:
    import torch

    from kernellab.timing.hold import Hold
    from kernellab.timing.timed_impl import Call, TimedImpl

_TRACED_BY = (gettrace(), getprofile())  # a tool that measures coverage, for instance


def prepare_window(impl: TimedImpl, calls: int, cache: str, swap: bool) -> tuple[tuple[int, ...], tuple[Call, ...]]:
    """The calls of a window and the numbers of their input sets.

    Cold: each call has its own set. Warm: all calls have the same set, and one more call warms the cache.
    Tuples, because an implementation can find a list in the frames that called it, and empty it.
    """
    if swap:
        impl.sets.swap()
    impl.sets.bump_versions()
    extra = cache == WARM and not impl.restores_inputs
    numbers = impl.draw(calls + extra, distinct=cache == COLD)
    return tuple(numbers), tuple(impl.prepare_calls(numbers))


def make_calls(calls: Sequence[Call], cache: str, impl: TimedImpl) -> tuple[object, int]:
    """Make the calls; returns one of the results and its index.

    Cold: all results are kept until the end, each at its own address, because rewriting one would hit the cache. Any
    of them may be verified, so an implementation cannot skip a call. Warm: only the last result is kept.
    """
    if cache == COLD:
        results = [call() for call in calls]
        refuse_tracing()
        index = impl.pick(len(results))
        return results[index], index
    for call in calls:
        result = call()
    refuse_tracing()
    return result, -1


def refuse_tracing() -> None:
    """Raise if a call has set a trace function, which would run its code when the clock has been read. To be asked
    before that, and before another implementation runs."""
    if (gettrace(), getprofile()) != _TRACED_BY:
        sys.settrace(None)
        sys.setprofile(None)
        raise BurstChanged("set a trace function, which runs its code between the lines of kernellab")


def make_lead_calls(impl: TimedImpl, count: int) -> None:
    """Make untimed calls. Their random number changes which timed calls are an implementation's every second call."""
    for call in impl.prepare_calls(impl.draw(count, distinct=True)):
        call()


def wait_for(device: torch.device) -> float:
    """Wait for the stream, then for the device; returns how many microseconds the device worked longer."""
    if device.type != "cuda":
        return 0.0
    from kernellab.timing.cuda_clock import wait_for_stream_and_device

    return wait_for_stream_and_device(device)


def try_hold(device: torch.device) -> Hold | None:
    """A hold, or None if CUDA C++ cannot be built: events without a hold still time long calls correctly."""
    try:
        from kernellab.timing.hold import Hold

        return Hold(device)
    except Exception:
        return None
