"""Holds a stream back while work is queued on it, so that the GPU never waits for the host."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import torch

from kernellab.build.cuda import kernel

DEADLINE_S = 0.02  # queueing a window takes a few ms; a longer hold would delay the rest of the run
_HOLD, _EMPTY = kernel("hold.cu", "hold"), kernel("hold.cu", "nothing")


class Hold:
    """`with hold():` queues the work of the body behind a kernel that waits for the end of the body.

    The kernel gives up after a deadline; the queued work then starts at once. After a synchronise, `gave_up()` says
    whether a kernel has given up since the last call.
    """

    def __init__(self, device: torch.device) -> None:
        self._words = torch.zeros(2, dtype=torch.int64).pin_memory()
        self._host_words = self._words.numpy()
        self._anchor = torch.zeros(1, dtype=torch.int32, device=device)  # the launcher uses its device
        self._ticket = self._last_ticket = 0
        with self():  # builds and loads the kernel
            pass
        torch.cuda.synchronize(device)
        self.gave_up()

    @contextlib.contextmanager
    def __call__(self) -> Iterator[None]:
        self._ticket += 1
        _HOLD(1, 1, self._anchor, self._words.data_ptr(), self._ticket, int(DEADLINE_S * 1e9))
        try:
            yield
        finally:
            self._host_words[0] = self._ticket

    def launch_empty_kernel(self) -> None:
        _EMPTY(1, 32, self._anchor)

    def gave_up(self) -> bool:
        late = bool(self._host_words[1] > self._last_ticket)
        self._last_ticket = self._ticket
        return late
