"""What the MLP is asked to be, and what cannot be asked. No torch."""

from __future__ import annotations

from dataclasses import dataclass

from kernellab.base.errors import UserError

FIRST_CAPTURED = 11  # the steps before it compile, tune and allocate
SIZES = {"dim": 1024, "layers": 8, "batch": 128, "steps": 100}
_LARGEST = 2**31 - 1  # two of them still make a number of elements
OPTIMIZERS = ("none", "adam", "adamw", "sgd")
RATES = ("constant", "cosine", "warmup")


@dataclass(frozen=True)
class Setup:
    """`data`: batches come from a data loader over a small generated data set, with `workers` processes."""

    dim: int
    layers: int
    batch: int
    steps: int
    optimizer: str = "none"
    rate: str = "constant"
    data: bool = False
    workers: int = 0
    device: str = "auto"

    def refuse(self, *, capturing: bool) -> None:
        """Say what is wrong before anything is made. `capturing`: somebody waits for the first captured step."""
        for name in SIZES:
            if getattr(self, name) < 1:
                raise UserError(f"the MLP's {name} must be at least 1, not {getattr(self, name)}")
            if getattr(self, name) > _LARGEST:
                raise UserError(f"the MLP's {name} can be no more than {_LARGEST}, not {getattr(self, name)}")
        if self.workers < 0:
            raise UserError(f"the data loader cannot have {self.workers} workers")
        if capturing and self.steps <= FIRST_CAPTURED:
            raise UserError(
                f"{self.steps} steps are too few: recording begins at step_{FIRST_CAPTURED}, once everything is warm, "
                f"so that at least {FIRST_CAPTURED + 1} are needed"
            )
