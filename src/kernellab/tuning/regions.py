"""Rules for ranges of sizes, from the choices at measured sizes.

A measured width stands for all rows down to the next narrower one, the narrowest for those down to half of it. A
measured number of elements stands for all tensors up to the next larger one, the largest for every larger tensor. The
shipped rules decide elsewhere, and wherever their choice stays.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from kernellab.library.rules import Rule
from kernellab.tuning.winners import Decision, Pair

Options = tuple[tuple[str, object], ...]


@dataclass(frozen=True)
class Cell:
    """What was decided at one size, dtype and set of options. `columns` is None where widths do not matter."""

    dtype: str
    options: Options
    columns: int | None
    elements: int
    decision: Decision


@dataclass(frozen=True)
class TunedRule:
    """A rule, for some dtypes, and the cells it rests on."""

    dtypes: tuple[str, ...]
    rule: Rule
    cells: tuple[Cell, ...]


class _Step(NamedTuple):
    """A range of element counts with one choice."""

    elements_from: int
    elements_up_to: int
    pair: Pair
    cells: tuple[Cell, ...]


class _Band(NamedTuple):
    """A range of widths, and the steps in which the shipped choice does not stay."""

    columns_from: int
    columns_up_to: int
    steps: tuple[_Step, ...]

    @property
    def outline(self) -> list[tuple[int, int, Pair]]:
        return [(step.elements_from, step.elements_up_to, step.pair) for step in self.steps]


def derive_rules(cells: Sequence[Cell]) -> list[TunedRule]:
    """The rules that replace shipped choices. Rules of dtypes that differ in nothing else are one."""
    together: dict[Rule, list[TunedRule]] = {}
    groups: dict[tuple[str, Options], list[Cell]] = {}
    for cell in cells:
        groups.setdefault((cell.dtype, cell.options), []).append(cell)
    for (dtype, options), group in groups.items():
        for band in _merge_bands(_bands(group)):
            for step in band.steps:
                limits = (band.columns_from, band.columns_up_to, step.elements_from, step.elements_up_to)
                rule = Rule(*step.pair, *limits, options)
                together.setdefault(rule, []).append(TunedRule((dtype,), rule, step.cells))
    return [
        TunedRule(
            tuple(dict.fromkeys(dtype for part in parts for dtype in part.dtypes)),
            rule,
            tuple(cell for part in parts for cell in part.cells),
        )
        for rule, parts in together.items()
    ]


def _bands(cells: Sequence[Cell]) -> list[_Band]:
    widths = sorted({cell.columns for cell in cells if cell.columns is not None})
    if not widths:
        return [_Band(0, sys.maxsize, _steps(cells))]
    edges = [widths[0] // 2, *widths]
    return [
        _Band(below + 1, width, _steps([cell for cell in cells if cell.columns == width]))
        for below, width in itertools.pairwise(edges)
    ]


def _steps(cells: Sequence[Cell]) -> tuple[_Step, ...]:
    """Neighbouring element counts with the same choice are one step."""
    ordered = sorted({cell.elements: cell for cell in cells}.values(), key=lambda cell: cell.elements)
    ends = [*(cell.elements - 1 for cell in ordered[1:]), sys.maxsize]
    steps: list[_Step] = []
    for cell, end in zip(ordered, ends, strict=True):
        if not cell.decision.switches:
            continue
        last = steps[-1] if steps else None
        if last and last.pair == cell.decision.chosen and last.elements_up_to == cell.elements - 1:
            steps[-1] = last._replace(elements_up_to=end, cells=(*last.cells, cell))
        else:
            steps.append(_Step(cell.elements, end, cell.decision.chosen, (cell,)))
    return tuple(steps)


def _merge_bands(bands: Iterable[_Band]) -> list[_Band]:
    """Neighbouring widths with the same steps are one band."""
    merged: list[_Band] = []
    for band in bands:
        if merged and merged[-1].outline == band.outline:
            last = merged[-1]
            steps = tuple(
                mine._replace(cells=(*mine.cells, *theirs.cells))
                for mine, theirs in zip(last.steps, band.steps, strict=True)
            )
            merged[-1] = last._replace(columns_up_to=band.columns_up_to, steps=steps)
        else:
            merged.append(band)
    return merged
