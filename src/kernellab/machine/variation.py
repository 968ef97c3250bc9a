"""How much times vary from run to run, stored per class of machine: below that, two records do not differ."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TypedDict, cast

from kernellab.base.json import JsonValue
from kernellab.base.paths import cache_dir, file_name, replace_file


class Variation(TypedDict):
    """Each of `cases` has `case`, `timer`, `cache`, `median_us` and `variation`, the relative deviation over runs."""

    machine: str
    measured_at: str
    versions: dict[str, str | None]
    runs: int
    cases: list[dict[str, JsonValue]]


def store_variation(
    machine: str, versions: Mapping[str, str | None], runs: int, cases: Sequence[Mapping[str, JsonValue]]
) -> Path:
    """Store the variation on this class of machine, in place of an earlier one."""
    file = _file(machine)
    variation: Variation = {
        "machine": machine,
        "measured_at": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
        "versions": dict(versions),
        "runs": runs,
        "cases": [dict(case) for case in cases],
    }
    replace_file(file, json.dumps(variation, indent=1).encode())
    return file


def load_variation(machine: str) -> Variation | None:
    """The variation on this class of machine; None where it was never measured, or the file is damaged."""
    try:
        return cast("Variation", json.loads(_file(machine).read_bytes()))
    except (OSError, ValueError):
        return None


def _file(machine: str) -> Path:
    return cache_dir("variation") / f"{file_name(machine)}.json"
