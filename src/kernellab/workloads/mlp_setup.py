"""The settings of the MLP and their validation. No torch."""

from __future__ import annotations

from dataclasses import dataclass

from kernellab.base.errors import UserError
from kernellab.profiler.protocol import MlpSetupJson

FIRST_CAPTURED_STEP = 11  # the steps before it compile, tune and allocate
DEFAULT_SIZES = {"dim": 1024, "layers": 8, "batch": 128, "steps": 100}
OPTIMIZERS = ("none", "adam", "adamw", "sgd")
RATES = ("constant", "cosine", "warmup")
_LARGEST_SIZE = 2**31 - 1  # the product of two sizes fits into 64 bits


@dataclass(frozen=True)
class MlpSetup:
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

    def size(self, name: str) -> int:
        """One of `DEFAULT_SIZES`, by name."""
        return {"dim": self.dim, "layers": self.layers, "batch": self.batch, "steps": self.steps}[name]

    def validate(self, *, capturing: bool) -> None:
        """Refuse settings that cannot be run. `capturing`: recording begins at the first captured step."""
        for name in DEFAULT_SIZES:
            if self.size(name) < 1:
                raise UserError(f"the MLP's {name} must be at least 1, not {self.size(name)}")
            if self.size(name) > _LARGEST_SIZE:
                raise UserError(f"the MLP's {name} must be at most {_LARGEST_SIZE}, not {self.size(name)}")
        if self.workers < 0:
            raise UserError(f"the data loader cannot have {self.workers} workers")
        if capturing and self.steps <= FIRST_CAPTURED_STEP:
            raise UserError(
                f"{self.steps} steps are too few: recording begins at step_{FIRST_CAPTURED_STEP}, after the warm-up, "
                f"so at least {FIRST_CAPTURED_STEP + 1} are needed"
            )

    def to_json(self) -> MlpSetupJson:
        return {
            "dim": self.dim,
            "layers": self.layers,
            "batch": self.batch,
            "steps": self.steps,
            "optimizer": self.optimizer,
            "rate": self.rate,
            "data": self.data,
            "workers": self.workers,
            "device": self.device,
        }
