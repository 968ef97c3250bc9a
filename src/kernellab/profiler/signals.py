"""Signals that end a profiled program: the recording is written before they take effect."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Callable, Iterator
from types import FrameType

_ENDING = (signal.SIGINT, signal.SIGTERM)


@contextlib.contextmanager
def defer_signals(*, deliver: bool = True) -> Iterator[None]:
    """Hold back SIGINT and SIGTERM during the body; then deliver them, or drop them if not `deliver`."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    arrived: list[int] = []
    # A handler that Python did not set reads as None and cannot be restored: those signals are not deferred.
    handlers = {number: handler for number in _ENDING if (handler := signal.getsignal(number)) is not None}
    for number in handlers:
        signal.signal(number, lambda number, _: arrived.append(number))
    try:
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
        for arrived_number in dict.fromkeys(arrived if deliver else ()):
            signal.raise_signal(arrived_number)


class SigtermHandler:
    """Calls `write` when SIGTERM arrives, then lets the signal end the process.

    A program that sets a handler of its own replaces this one. Forked processes do not inherit it.
    """

    def __init__(self, write: Callable[[], None]) -> None:
        self._write = write
        if signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
            signal.signal(signal.SIGTERM, self._handle)
            # A SIGTERM sent to a child while it is being forked stays pending until the child has the default handler.
            self._mask: set[int] = set()
            os.register_at_fork(before=self._block, after_in_parent=self._unblock, after_in_child=self._remove_in_child)

    def remove(self) -> None:
        if signal.getsignal(signal.SIGTERM) == self._handle:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)

    def _block(self) -> None:
        self._mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})

    def _unblock(self) -> None:
        signal.pthread_sigmask(signal.SIG_SETMASK, self._mask)

    def _remove_in_child(self) -> None:
        self.remove()
        self._unblock()

    def _handle(self, number: int, _: FrameType | None) -> None:
        try:
            self._write()
        finally:
            signal.signal(number, signal.SIG_DFL)
            signal.raise_signal(number)
