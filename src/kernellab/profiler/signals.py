"""Signals that would end a recorded program: what was recorded is written before they do."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Callable, Iterator
from types import FrameType

_ENDING = (signal.SIGINT, signal.SIGTERM)


@contextlib.contextmanager
def held(*, again: bool = True) -> Iterator[None]:
    """Signals that come meanwhile are dealt with afterwards; not `again`, they have come to nothing."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    came: list[int] = []
    before = {one: signal.getsignal(one) for one in _ENDING}
    ours = {one: handler for one, handler in before.items() if handler is not None}  # None: set by no Python
    for one in ours:
        signal.signal(one, lambda number, _: came.append(number))
    try:
        yield
    finally:
        for one, handler in ours.items():
            signal.signal(one, handler)
        for number in dict.fromkeys(came if again else ()):
            signal.raise_signal(number)


class Terminated:
    """Calls `write` when SIGTERM comes, and lets the process end of it all the same.

    A program that has a handler of its own keeps it; the processes it forks have none of ours.
    """

    def __init__(self, write: Callable[[], None]) -> None:
        self._write = write
        if signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
            signal.signal(signal.SIGTERM, self._came)
            # What is sent to a fork while it is being made waits until it has Python's own way with it.
            self._mask: set[int] = set()
            os.register_at_fork(before=self._wait, after_in_parent=self._go_on, after_in_child=self._forked)

    def remove(self) -> None:
        if signal.getsignal(signal.SIGTERM) == self._came:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)

    def _wait(self) -> None:
        self._mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})

    def _go_on(self) -> None:
        signal.pthread_sigmask(signal.SIG_SETMASK, self._mask)

    def _forked(self) -> None:
        self.remove()
        self._go_on()

    def _came(self, number: int, _: FrameType | None) -> None:
        try:
            self._write()
        finally:
            signal.signal(number, signal.SIG_DFL)
            signal.raise_signal(number)
