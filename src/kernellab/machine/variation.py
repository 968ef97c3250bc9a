"""How much times vary from run to run, remembered per class of machine: what a difference between records means."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from kernellab.base.paths import cache_dir, file_name, replace_file


def remember(machine: str, versions: Mapping[str, Any], runs: int, cases: Sequence[Mapping[str, Any]]) -> Path:
    """Keep what was found on this class of machine, in place of what was known of it before.

    Each case has `case`, `timer`, `cache`, `median_us` and `variation`, the relative standard deviation over runs.
    """
    file = _file(machine)
    found = {
        "machine": machine,
        "measured_at": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
        "versions": dict(versions),
        "runs": runs,
        "cases": [dict(case) for case in cases],
    }
    replace_file(file, json.dumps(found, indent=1).encode())
    return file


def recall(machine: str) -> dict[str, Any] | None:
    """What is known of this class of machine, or None."""
    try:
        known: dict[str, Any] = json.loads(_file(machine).read_bytes())
    except (OSError, ValueError):  # never measured, or damaged: both mean that nothing is known
        return None
    return known


def _file(machine: str) -> Path:
    return cache_dir("variation") / f"{file_name(machine)}.json"
