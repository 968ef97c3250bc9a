"""A finding: something that costs time, its evidence, its estimated gain, and what to do about it."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from kernellab.base.json import JsonValue
from kernellab.findings.place import UNKNOWN_PLACE, Place

# measured: times show it. computed: counted in the code or by torch. likely: a model of the machine agrees.
# possible: nothing else explains the time.
Confidence = Literal["measured", "computed", "likely", "possible"]
WEIGHTS: dict[Confidence, float] = {"measured": 1.0, "computed": 0.9, "likely": 0.7, "possible": 0.4}


class Precedence(enum.Enum):
    """The place of a finding among the others."""

    BY_GAIN = "by gain"
    FIRST = "before findings by gain"
    NO_GAIN_LEFT = "first, and findings that promise a gain are dropped"
    ALONE = "all other findings are dropped"


@dataclass(frozen=True)
class Evidence:
    """A number and its source: timing, profiler, machine code, launch, GPU database, model, declaration, trace."""

    what: str
    value: JsonValue
    unit: str = ""
    source: str = "trace"


@dataclass(frozen=True)
class StepTimes:
    """What fixing a finding saves in a step of a program."""

    step_us: float
    gain_us: float

    @property
    def gain_share(self) -> float:
        return self.gain_us / self.step_us if self.step_us else 0.0


@dataclass(frozen=True)
class Finding:
    title: str
    do: str
    confidence: Confidence
    gain: float | None = None  # estimated speed-up factor from fixing it alone; None where there is no estimate
    evidence: Sequence[Evidence] = ()
    name: str = ""  # of the rule or the kind of cause. A rule leaves it out: the rulebook names findings after its file
    precedence: Precedence = Precedence.BY_GAIN  # likewise
    place: Place = UNKNOWN_PLACE
    step: StepTimes | None = None
    after: Sequence[Finding] = field(default=(), repr=False)  # its gain assumes that these are fixed

    @property
    def expected_gain(self) -> float:
        """The relative gain, weighted by the confidence in it."""
        return (self.gain - 1) * WEIGHTS[self.confidence] if self.gain else 0.0
