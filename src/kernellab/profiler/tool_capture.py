"""Tells an attached NVIDIA tool which part of a program to record."""

from __future__ import annotations

import torch


class ToolCapture:
    """Captures from `begin` to the end of the block. Synchronise before both: kernels run after their launches."""

    def __init__(self, *, enabled: bool) -> None:
        self._enabled = enabled
        self._begun = False

    def begin(self) -> None:
        if self._enabled and not self._begun:
            self._begun = True
            torch.cuda.cudart().cudaProfilerStart()

    def __enter__(self) -> ToolCapture:
        return self

    def __exit__(self, *_: object) -> None:
        if self._begun:
            torch.cuda.cudart().cudaProfilerStop()
