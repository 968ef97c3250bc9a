"""The op, case, device and seed that a worker is working on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch

from kernellab.declaration.case import Case
from kernellab.declaration.op import Op
from kernellab.record.result_events import GuardNoticed
from kernellab.running.worker.channel import Channel
from kernellab.running.worker.guards.integrity import Integrity


@dataclass(frozen=True)
class Task:
    """An op at a case on a device. Its inputs are generated from `seed`; events are sent to `channel`.

    `integrity` knows kernellab's own code as it was before the op's file was loaded.
    """

    channel: Channel
    op: Op
    case: Case
    device: torch.device
    seed: int
    integrity: Integrity

    def noter(self, impl: str, guard: str = "global-state") -> Callable[[str], None]:
        """A function that reports what a guard noticed about an implementation."""
        return lambda detail: self.channel.send(GuardNoticed(impl=impl, guard={"name": guard, "detail": detail}))
