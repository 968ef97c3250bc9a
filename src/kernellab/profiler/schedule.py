"""Which steps of a program are recorded: wait, warm-up, active, in one or more cycles."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from kernellab.base.errors import UserError
from kernellab.profiler.protocol import ScheduleJson


class Phase(StrEnum):
    """What a schedule does with a step. The values are those of the session report and of traces."""

    WAIT = "wait"
    WARMUP = "warm-up"
    ACTIVE = "active"
    OVER = "over"


@dataclass(frozen=True)
class Schedule:
    """Numbers of steps in each phase of a cycle, and of cycles; `repeat` 0 means until the program ends."""

    wait: int
    warmup: int
    active: int
    repeat: int = 1

    @property
    def cycle_steps(self) -> int:
        return self.wait + self.warmup + self.active

    @property
    def steps(self) -> int:
        """The steps of all cycles; of one cycle if they repeat without end."""
        return self.cycle_steps * (self.repeat or 1)

    def phase(self, step: int) -> Phase:
        if self.repeat and step >= self.steps:
            return Phase.OVER
        within = step % self.cycle_steps
        if within < self.wait:
            return Phase.WAIT
        return Phase.WARMUP if within < self.wait + self.warmup else Phase.ACTIVE

    def cycle(self, step: int) -> int:
        """The number of a step's cycle, from 1; steps after the last cycle count as part of it."""
        number = step // self.cycle_steps + 1
        return min(number, self.repeat) if self.repeat else number

    def to_json(self) -> ScheduleJson:
        return {"wait": self.wait, "warmup": self.warmup, "active": self.active, "repeat": self.repeat}


def parse_schedule(text: str) -> Schedule:
    """`wait,warmup,active,repeat`; the last may be left out."""
    try:
        numbers = [int(part) for part in text.split(",")]
    except ValueError:
        numbers = []
    if len(numbers) not in (3, 4) or min(numbers) < 0:
        raise UserError(
            f"--schedule {text}: expected the steps of wait, warm-up and active, and the number of cycles, "
            "as in --schedule 5,2,10,1"
        )
    if not numbers[2]:
        raise UserError(f"--schedule {text}: the third number, the steps recorded, must be at least 1")
    return Schedule(*numbers)
