"""Which steps of a program are recorded: wait, warm-up, active, over and over."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from kernellab.base.errors import UserError

COLLECTED = ".collected"  # how the name of a file ends that says what a process has recorded; no trace's does
WAIT, WARMUP, ACTIVE, OVER = "wait", "warm-up", "active", "over"


@dataclass(frozen=True)
class Schedule:
    """So many steps of each phase, `repeat` times over; 0 means until the program ends."""

    wait: int
    warmup: int
    active: int
    repeat: int = 1

    @property
    def cycle(self) -> int:
        return self.wait + self.warmup + self.active

    @property
    def steps(self) -> int:
        """How many steps it takes to carry it out; with no end, one cycle."""
        return self.cycle * (self.repeat or 1)

    def phase(self, step: int) -> str:
        if self.repeat and step >= self.steps:
            return OVER
        within = step % self.cycle
        return WAIT if within < self.wait else WARMUP if within < self.wait + self.warmup else ACTIVE

    def number(self, step: int) -> int:
        """Of the cycle a step is in, from 1; what comes after the last one counts with it."""
        number = step // self.cycle + 1
        return min(number, self.repeat) if self.repeat else number

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def parse(text: str) -> Schedule:
    """`wait,warmup,active,repeat`; the last may be left out."""
    try:
        numbers = [int(part) for part in text.split(",")]
    except ValueError:
        numbers = []
    if len(numbers) not in (3, 4) or min(numbers) < 0:
        raise UserError(
            f"--schedule {text}: steps of wait, warm-up and active, and how often, as in --schedule 5,2,10,1"
        )
    if not numbers[2]:
        raise UserError(f"--schedule {text}: its third number, the steps recorded, must be at least 1")
    return Schedule(*numbers)
