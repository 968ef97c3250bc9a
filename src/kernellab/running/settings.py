"""What a run was asked to do: plain data, so that it can be stored, sent and resumed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any


@dataclass(frozen=True)
class Settings:
    targets: list[str]
    stages: list[str]  # of "check", "time"
    request: dict[str, Any]  # a CaseRequest
    impls: list[str] = field(default_factory=list)
    device: str = "auto"
    seed: int = 0
    timeout_s: float = 60.0
    seconds: float | None = None  # timing budget per way; None: by device
    rounds: int = 10  # at least
    refresh_ceilings: bool = False
    cells: list[int] | None = None  # [i, n]: every n-th group of the plan, beginning with the i-th

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Settings:
        known = {f.name for f in fields(cls)}
        return cls(**{k: v for k, v in data.items() if k in known})

    def timing(self, device: str) -> dict[str, Any]:
        seconds = self.seconds if self.seconds is not None else (1.0 if device.startswith("cuda") else 2.0)
        return {"seconds": seconds, "least": self.rounds}
