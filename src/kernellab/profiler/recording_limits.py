"""Watches a recording from a thread of its own: how long it is, how much memory it takes, who else works meanwhile."""

from __future__ import annotations

import ctypes
import functools
import os
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path

import psutil

LONG, BIG = "long", "big"
_LOOK_S = 0.05
# Bytes a second: what a program records at most. One that does nothing but call functions records 60 MB, training of a
# transformer with many small operators 150 MB.
_FASTEST = 250e6
_MOST_BYTES, _SHARE = 2 << 30, 8  # of memory, once a recording is taken apart: so much, or a part of all there is
# How much more memory a recording takes when it is taken apart: Python's calls are recorded in 24 bytes each and become
# objects of 1.5 kB, operators in 530 bytes and grow eightfold. Which of both a program has more of, its first recording
# tells; should the next be all calls, it still fits into what is free.
_WORST, _LEAST, _OF_OPERATORS = 64, 8, 12
_FREE_SHARE = 0.75
_TELLING_BYTES = 1 << 20  # of a recording, from which on it tells how it grows
_BUSY_SHARE = 0.2  # of a recording's time: from there on a thread is worth a word
# A signal interrupts waiting for a lock, a thread or a file, as nothing else does. This one has next to no other use,
# and does nothing where nobody listens.
_NUDGE, _AGAIN_S = signal.SIGURG, 0.5


def allowed(most_bytes: int | None) -> int:
    """The memory that a recording may take in the end, where nobody has said how much."""
    return most_bytes or min(_MOST_BYTES, int(psutil.virtual_memory().total) // _SHARE)


def room(most_bytes: int | None, *, stacks: bool, growth: float | None = None) -> int:
    """How many bytes may be recorded, so that they take no more in the end than they may."""
    worst = _WORST if stacks else _OF_OPERATORS
    free = _FREE_SHARE * psutil.virtual_memory().available
    return int(min(allowed(most_bytes) / min(growth or worst, worst), free / worst))


class Watch:
    """Begins at once, on the main thread. `call` is called there, once, when the recording has become LONG or BIG.

    The main thread may be where nothing interrupts it, in a call of C's: `seconds` says how long it really was.
    """

    def __init__(self, limit_s: float, most_bytes: int, call: Callable[[Watch, str], None]) -> None:
        self._busy: dict[str, float] = {}  # seconds of other threads of the program's
        self._limit_s, self._most_bytes, self._call = limit_s, most_bytes, call
        self._recorded, self._seen = 0, time.perf_counter()
        self._began, self._began_bytes = time.perf_counter(), _allocated()
        self._ended = threading.Event()
        self._why = ""
        self._before = signal.signal(_NUDGE, self._nudged)
        self._thread = threading.Thread(target=self._look, name="kernellab", daemon=True)
        self._thread.start()

    @property
    def seconds(self) -> float:
        return time.perf_counter() - self._began

    @property
    def share(self) -> float:
        """Of the time and the memory there is, what has been used up by now."""
        return max(self.seconds / self._limit_s, self._recorded / self._most_bytes)

    @property
    def growth(self) -> float | None:
        """How many times the memory of its recording is taken now that it is taken apart, where that tells."""
        if self._recorded < _TELLING_BYTES:
            return None
        return max(_LEAST, (_allocated() - self._began_bytes) / self._recorded)

    def see(self) -> None:
        """How much is recorded by now. At the end of a step its tensors are gone, and little else has grown.

        In between, some of a program's tensors may lie among the small pieces: no more is taken for recorded than
        there was time for.
        """
        now = time.perf_counter()
        most = self._recorded + int(_FASTEST * (now - self._seen))
        self._recorded, self._seen = max(0, min(_allocated() - self._began_bytes, most)), now

    def stop(self) -> None:
        self._ended.set()
        self._recorded = _allocated() - self._began_bytes
        if signal.getsignal(_NUDGE) == self._nudged:
            signal.signal(_NUDGE, self._before or signal.SIG_DFL)

    def busiest(self) -> str | None:
        """The thread of the program's, besides its main one, that had most to do meanwhile, if it was much."""
        busy = self._busy.copy()  # the other thread adds to it
        name = max(busy, key=busy.__getitem__, default=None)
        return name if name is not None and busy[name] > _BUSY_SHARE * self.seconds else None

    def _look(self) -> None:
        before: dict[int, float] = {}
        while not self._why and not self._ended.wait(max(0, min(_LOOK_S, self._limit_s - self.seconds))):
            self._see_threads(before)
            if self.seconds >= self._limit_s:
                self._why = LONG
            else:
                self.see()
                self._why = BIG if self._recorded > self._most_bytes else ""
        while not self._ended.is_set():
            # Once may not do: a signal that comes right before the waiting begins interrupts nothing.
            if signal.getsignal(_NUDGE) == self._nudged:
                signal.pthread_kill(threading.main_thread().ident or 0, _NUDGE)
            self._ended.wait(_AGAIN_S)
            self._see_threads(before)

    def _see_threads(self, before: dict[int, float]) -> None:
        for thread in threading.enumerate():
            if thread is threading.main_thread() or thread is self._thread or not thread.native_id:
                continue
            now = _cpu_seconds(thread.native_id)
            since = now - before.setdefault(thread.native_id, now)
            self._busy[thread.name] = max(since, self._busy.get(thread.name, 0.0))

    def _nudged(self, *_: object) -> None:
        if self._why and not self._ended.is_set():
            self._call(self, self._why)


def _cpu_seconds(thread: int) -> float:
    """That a thread has used, where the system tells."""
    try:
        fields = Path(f"/proc/self/task/{thread}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    except (OSError, IndexError, ValueError):
        return 0.0


# What is recorded lies in small pieces, which the C library counts apart from large ones. Python's own objects are not
# among them; a program's tensors are, up to the size of the largest one that was freed before.


class _Counts(ctypes.Structure):
    _fields_ = [(f"field_{number}", ctypes.c_size_t) for number in range(10)]


_SMALL_PIECES_IN_USE = "field_7"


@functools.cache
def _counter() -> Callable[[], _Counts] | None:
    try:
        found = ctypes.CDLL(None).mallinfo2
    except (AttributeError, OSError, TypeError):  # not glibc
        return None
    found.restype = _Counts
    return found


def _allocated() -> int:
    count = _counter()
    return getattr(count(), _SMALL_PIECES_IN_USE) if count else 0
