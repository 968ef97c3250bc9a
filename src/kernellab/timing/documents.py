"""The JSON of what is measured about a device: rates, and times of grids. Imports no torch."""

from __future__ import annotations

from typing import TypedDict


class Rate(TypedDict):
    """A bandwidth or a matmul rate."""

    name: str
    value: float | None  # None: it cannot be measured here
    unit: str
    how: str


class GridTime(TypedDict):
    """A grid of equal blocks."""

    blocks: int
    ms: float  # the median over rounds
