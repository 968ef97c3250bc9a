"""CUDA events and waits for the timers, bound to torch's C functions when this module is imported.

`torch.cuda.Event` and `torch.cuda.synchronize` are written in Python, and any code in the process can replace them. The
functions behind them belong to C types, which Python cannot change. A worker imports this module before it executes an
op file, so what a file replaces later is not called here.
"""

from __future__ import annotations

from time import perf_counter_ns  # bound here: an implementation may replace time.perf_counter_ns
from typing import cast

import torch

from kernellab.base.functions import AnyFunction


def _bind(owner: object, name: str) -> AnyFunction:
    """A function of torch's C code. A torch without CUDA lacks it, and nothing here is called there."""
    return cast(AnyFunction, getattr(owner, name, None))


_Event, _Stream = _bind(torch._C, "_CudaEventBase"), _bind(torch._C, "_CudaStreamBase")
_record, _elapsed_ms = _bind(_Event, "record"), _bind(_Event, "elapsed_time")
_has_run = _bind(_Event, "query")
_wait_for_stream = _bind(_Stream, "synchronize")
_current_stream, _wait_for_device = _bind(torch._C, "_cuda_getCurrentStream"), _bind(torch._C, "_cuda_synchronize")
_get_device, _set_device = _bind(torch._C, "_cuda_getDevice"), _bind(torch._C, "_cuda_setDevice")


class Marks:
    """A pair of CUDA events on the current stream of a device, around what is timed."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._start, self._end = (_Event(enable_timing=True) for _ in range(2))

    def start(self) -> None:
        _record(self._start, _stream(self._device))

    def end(self) -> None:
        _record(self._end, _stream(self._device))

    def elapsed_us(self) -> float:
        """The time between the two. Both must have been waited for."""
        return float(cast(float, _elapsed_ms(self._start, self._end))) * 1e3

    def us_since(self, other: Marks) -> float:
        """The time from the start of another pair to the end of this one. Both must have been waited for."""
        return float(cast(float, _elapsed_ms(other._start, self._end))) * 1e3

    def has_ended(self) -> bool:
        """Whether everything before the end has run. It does not wait."""
        return bool(_has_run(self._end))


def wait_for_stream_and_device(device: torch.device) -> float:
    """Wait for the stream, then for the device; the microseconds the device went on after the stream had ended."""
    _wait_for_stream(_stream(device))
    start = perf_counter_ns()
    current, index = _get_device(), _index(device)
    if current != index:
        _set_device(index)
    try:
        _wait_for_device()
    finally:
        if current != index:
            _set_device(current)
    return (perf_counter_ns() - start) / 1e3


def _stream(device: torch.device) -> object:
    stream_id, device_index, device_type = cast(tuple[int, int, int], _current_stream(_index(device)))
    return _Stream(priority=0, stream_id=stream_id, device_index=device_index, device_type=device_type)


def _index(device: torch.device) -> int:
    return device.index if device.index is not None else cast(int, _get_device())
