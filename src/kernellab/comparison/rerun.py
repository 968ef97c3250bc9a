"""How the unresolved pairs of a comparison were measured again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Rerun:
    """`blocks`: in each, one process of each version measured. `before` and `after` say where the code is, `devices` on
    what it was measured."""

    seed: int
    blocks: int
    pairs: int
    before: Sequence[str]
    after: Sequence[str]
    devices: Sequence[str]
    interrupted: bool
