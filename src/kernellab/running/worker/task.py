"""What a worker works on at a time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch

from kernellab.declaration.case import Case
from kernellab.declaration.op import Op
from kernellab.running.worker.channel import Channel


@dataclass(frozen=True)
class Task:
    """An op at a case on a device, its inputs made from a seed; `channel` hears what is observed."""

    channel: Channel
    op: Op
    case: Case
    device: torch.device
    seed: int

    def noter(self, impl: str, kind: str = "global-state") -> Callable[[str], None]:
        """Writes notes about a way."""
        return lambda what: self.channel.send("guard", impl=impl, guard={"name": kind, "detail": what})
