"""Limits of a recording, observed by a separate thread: its duration, its memory, and work in other threads."""

from __future__ import annotations

import ctypes
import functools
import os
import signal
import threading
import time
from collections.abc import Callable
from enum import Enum
from pathlib import Path

import psutil

_POLL_S = 0.05
# Bytes per second: an upper bound on what a program records. One that only calls Python functions records 60 MB/s,
# training a transformer with many small operators 150 MB/s.
_FASTEST_BYTES_PER_S = 250e6
_DEFAULT_BYTES, _DEFAULT_SHARE = 2 << 30, 8  # for the processed recording: at most 1/8 of the machine's memory
# How many times more memory a recording takes while torch processes it. A Python call is recorded in 24 bytes and
# becomes an object of 1.5 kB; an operator is recorded in 530 bytes and grows eightfold. The first recording shows what
# a program has more of. If the next recording consists only of calls, it still fits into the free memory.
_CALLS_GROWTH, _LEAST_GROWTH, _OPERATORS_GROWTH = 64, 8, 12
_FREE_SHARE = 0.75
_MEASURABLE_BYTES = 1 << 20  # the growth of a smaller recording cannot be measured
_BUSY_SHARE = 0.2  # of a recording's time: a thread that is busy for longer is reported
# Only a signal interrupts waiting for a lock, a thread or a file. SIGURG has almost no other use, and is
# ignored if no handler is set.
_WAKE_UP, _WAKE_UP_AGAIN_S = signal.SIGURG, 0.5


class Limit(Enum):
    """Which limit a recording has reached."""

    TIME = "time"
    MEMORY = "memory"


def memory_budget(requested_bytes: int | None) -> int:
    """The memory that a recording may take once it is processed: as requested, or the default."""
    return requested_bytes or min(_DEFAULT_BYTES, int(psutil.virtual_memory().total) // _DEFAULT_SHARE)


def recordable_bytes(requested_bytes: int | None, *, stacks: bool, growth: float | None = None) -> int:
    """How many bytes may be recorded, so that they stay within the budget once processed.

    `growth` is the factor that an earlier recording of this program showed.
    """
    worst = _CALLS_GROWTH if stacks else _OPERATORS_GROWTH
    free = _FREE_SHARE * psutil.virtual_memory().available
    return int(min(memory_budget(requested_bytes) / min(growth or worst, worst), free / worst))


class RecordingLimits:
    """Observes a recording from its creation. Calls `on_limit` once, on the main thread, when a limit is reached.

    Create it on the main thread. A long C call may keep that thread from being interrupted: `seconds`
    is the real duration.
    """

    def __init__(self, limit_s: float, limit_bytes: int, on_limit: Callable[[RecordingLimits, Limit], None]) -> None:
        self._busy_s: dict[str, float] = {}  # of the program's other threads, by name
        self._limit_s, self._limit_bytes, self._on_limit = limit_s, limit_bytes, on_limit
        self._recorded_bytes, self._measured = 0, time.perf_counter()
        self._began, self._began_bytes = time.perf_counter(), _small_blocks_bytes()
        self._stopped = threading.Event()
        self._reached: Limit | None = None
        self._previous_handler = signal.signal(_WAKE_UP, self._wake_up)
        self._thread = threading.Thread(target=self._observe, name="kernellab", daemon=True)
        self._thread.start()

    @property
    def seconds(self) -> float:
        return time.perf_counter() - self._began

    @property
    def used_share(self) -> float:
        """The share of the time or of the memory that is used up, whichever is larger."""
        return max(self.seconds / self._limit_s, self._recorded_bytes / self._limit_bytes)

    @property
    def growth(self) -> float | None:
        """After `stop` and processing: memory in use per byte recorded. None if the recording was too small."""
        if self._recorded_bytes < _MEASURABLE_BYTES:
            return None
        return max(_LEAST_GROWTH, (_small_blocks_bytes() - self._began_bytes) / self._recorded_bytes)

    def measure(self) -> None:
        """Update how many bytes are recorded. Most exact at the end of a step, when its tensors are freed.

        At other times some of the program's tensors may be in small blocks. So no more is counted as recorded
        than a program can record in the time since the last measurement.
        """
        now = time.perf_counter()
        most = self._recorded_bytes + int(_FASTEST_BYTES_PER_S * (now - self._measured))
        self._recorded_bytes = max(0, min(_small_blocks_bytes() - self._began_bytes, most))
        self._measured = now

    def stop(self) -> None:
        self._stopped.set()
        self._recorded_bytes = _small_blocks_bytes() - self._began_bytes
        if signal.getsignal(_WAKE_UP) == self._wake_up:
            signal.signal(_WAKE_UP, self._previous_handler or signal.SIG_DFL)

    def busiest_thread(self) -> str | None:
        """The program's busiest thread besides the main one, if it worked for a fifth of the recording or more."""
        busy_s = self._busy_s.copy()  # the observing thread adds to it
        name = max(busy_s, key=busy_s.__getitem__, default=None)
        return name if name is not None and busy_s[name] > _BUSY_SHARE * self.seconds else None

    def _observe(self) -> None:
        """Runs in the observing thread: until a limit is reached, then until the main thread stops the recording."""
        first_seen_s: dict[int, float] = {}
        while not self._reached and not self._stopped.wait(max(0, min(_POLL_S, self._limit_s - self.seconds))):
            self._measure_threads(first_seen_s)
            if self.seconds >= self._limit_s:
                self._reached = Limit.TIME
            else:
                self.measure()
                self._reached = Limit.MEMORY if self._recorded_bytes > self._limit_bytes else None
        while not self._stopped.is_set():
            # One signal may not be enough: if it arrives right before a wait begins, it interrupts nothing.
            if signal.getsignal(_WAKE_UP) == self._wake_up:
                signal.pthread_kill(threading.main_thread().ident or 0, _WAKE_UP)
            self._stopped.wait(_WAKE_UP_AGAIN_S)
            self._measure_threads(first_seen_s)

    def _measure_threads(self, first_seen_s: dict[int, float]) -> None:
        for thread in threading.enumerate():
            if thread is threading.main_thread() or thread is self._thread or not thread.native_id:
                continue
            now_s = _cpu_seconds(thread.native_id)
            busy_s = now_s - first_seen_s.setdefault(thread.native_id, now_s)
            self._busy_s[thread.name] = max(busy_s, self._busy_s.get(thread.name, 0.0))

    def _wake_up(self, *_: object) -> None:
        """The signal's handler, on the main thread."""
        if self._reached and not self._stopped.is_set():
            self._on_limit(self, self._reached)


def _cpu_seconds(native_id: int) -> float:
    """The CPU time of a thread of this process; 0 if the system does not report it."""
    try:
        fields = Path(f"/proc/self/task/{native_id}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    except (OSError, IndexError, ValueError):
        return 0.0


# A recording is stored in small blocks, which the C library counts separately from large ones. They contain no objects
# of Python, but a program's tensors up to the size of the largest one freed before.


class _Mallinfo2(ctypes.Structure):
    _fields_ = [(f"field_{number}", ctypes.c_size_t) for number in range(10)]


_UORDBLKS = "field_7"  # bytes in use in small blocks


@functools.cache
def _mallinfo2() -> Callable[[], _Mallinfo2] | None:
    try:
        function = ctypes.CDLL(None).mallinfo2
    except (AttributeError, OSError, TypeError):  # not glibc
        return None
    function.restype = _Mallinfo2
    return function


def _small_blocks_bytes() -> int:
    mallinfo2 = _mallinfo2()
    return getattr(mallinfo2(), _UORDBLKS) if mallinfo2 else 0
