"""Holding a stream back while work is queued on it, so that the GPU never waits for the host."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import torch

from kernellab.build.cuda import kernel

DEADLINE_S = 0.02  # queueing a window takes a few ms; a hold that lasts longer is in somebody's way
_HOLD, _NOTHING = kernel("hold.cu", "hold"), kernel("hold.cu", "nothing")


class Hold:
    """`with hold():` queues the block's work behind a kernel that waits for the end of the block.

    The kernel gives up by itself after a deadline; what was queued then runs as it comes. `gave_up()` says,
    after a synchronise, whether one has since it was last asked.
    """

    def __init__(self, device: torch.device) -> None:
        self._words = torch.zeros(2, dtype=torch.int64).pin_memory()
        self._host = self._words.numpy()
        self._anchor = torch.zeros(1, dtype=torch.int32, device=device)  # tells the launcher the device
        self._ticket = self._asked = 0
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
            self._host[0] = self._ticket

    def nothing(self) -> None:
        """Launch a kernel that does nothing."""
        _NOTHING(1, 32, self._anchor)

    def gave_up(self) -> bool:
        late = bool(self._host[1] > self._asked)
        self._asked = self._ticket
        return late
