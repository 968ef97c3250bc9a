"""The JSON documents of `klab tune`."""

from __future__ import annotations

import sys
from collections.abc import Collection, Sequence
from pathlib import Path

from kernellab.base.json import JsonObject
from kernellab.library.rules import LIMITS, Rule
from kernellab.library.sources import TableSource
from kernellab.tuning.regions import Cell
from kernellab.tuning.tuner import Plan, Tuned


def plan_json(plan: Plan) -> JsonObject:
    request = plan.settings.request
    return {
        "op": plan.op.name,
        "architecture": plan.architecture,
        "candidates": list(plan.candidates),
        "shapes": [list(shape) for shape in request["shapes"]],
        "dtypes": list(plan.dtypes),
        "options": {name: list(values) for name, values in request["options"].items()},
        "minutes": round(plan.minutes, 1),
    }


def tuned_json(ops: Sequence[Tuned], path: Path | None, *, used: bool) -> JsonObject:
    """`table` is null where nothing was written."""
    return {"table": str(path) if path else None, "used": used and path is not None, "ops": list(map(_op_json, ops))}


def _op_json(tuned: Tuned) -> JsonObject:
    return {
        **plan_json(tuned.plan),
        "run": str(tuned.run),
        "cells": [_cell_json(cell) for cell in tuned.cells],
        "rules": [{"dtypes": list(each.dtypes), **_rule_json(each.rule)} for each in tuned.rules],
        "verified": list(tuned.verified),
        "refused": dict(tuned.refused),
        "doubts": dict(tuned.doubts),
    }


def _cell_json(cell: Cell) -> JsonObject:
    decision = cell.decision
    return {
        "dtype": cell.dtype,
        "options": dict(cell.options),  # type: ignore[arg-type]  # strings and booleans
        "columns": cell.columns,
        "elements": cell.elements,
        "shipped": list(decision.shipped),
        "chosen": list(decision.chosen),
        "reason": decision.reason,
        "over_torch": dict(decision.over),
        "over_shipped": dict(decision.over_shipped),
    }


def _rule_json(rule: Rule) -> JsonObject:
    limits = {key: limit for key in LIMITS if 0 < (limit := getattr(rule, key)) < sys.maxsize}
    options: JsonObject = dict(rule.options)  # type: ignore[arg-type]  # what TOML can hold
    return {"options": options, **limits, "forward": rule.forward, "backward": rule.backward}


def sources_json(architecture: str, sources: Sequence[TableSource], ops: Collection[str]) -> JsonObject:
    """The tables in the order of their rank, with the rules of the named ops or of all."""
    return {
        "architecture": architecture,
        "tables": [
            {
                "title": source.title,
                "path": str(source.path),
                "used": source.is_used,
                "problem": source.problem or None,
                "rules": [
                    {"op": op, "dtype": dtype, **_rule_json(rule)}
                    for (op, dtype), rules in source.rules.items()
                    if op in ops or not ops
                    for rule in rules
                ],
            }
            for source in sources
        ],
    }
