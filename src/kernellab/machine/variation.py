"""How much times vary from run to run, stored per class of machine: two records with a smaller difference are equal."""

from __future__ import annotations

import functools
import json
import time
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TypedDict, cast

from kernellab.base.paths import cache_dir, file_name, replace_file


class CaseVariation(TypedDict):
    """How much the time of one case varies from run to run."""

    case: Mapping[str, object]
    timer: str | None
    cache: str | None
    median_us: float | None
    variation: float  # standard deviation over runs, relative to the mean


class Variation(TypedDict):
    """What is stored for a class of machines."""

    machine: str
    measured_at: str
    versions: dict[str, str | None]
    runs: int
    cases: list[CaseVariation]


def store_variation(
    machine: str, versions: Mapping[str, str | None], runs: int, cases: Sequence[CaseVariation]
) -> Path:
    """Store the variation on this class of machine, in place of an earlier one."""
    file = _file(machine)
    variation: Variation = {
        "machine": machine,
        "measured_at": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
        "versions": dict(versions),
        "runs": runs,
        "cases": list(cases),
    }
    replace_file(file, json.dumps(variation, indent=1).encode())
    return file


def load_variation(machine: str) -> Variation | None:
    """The variation on this class of machine; None if it was never measured or the file is damaged."""
    try:
        return cast("Variation", json.loads(_file(machine).read_bytes()))
    except (OSError, ValueError):
        return None


def published_variation(gpu: str) -> Variation | None:
    """The variation on another machine with a GPU of this name, from variations.toml; None for most GPUs."""
    published = _published().get(gpu)
    if published is None:
        return None
    return cast("Variation", {"machine": gpu, **published})


@functools.cache
def _published() -> dict[str, dict[str, object]]:
    return tomllib.loads(Path(__file__).with_name("variations.toml").read_text(encoding="utf-8"))


def _file(machine: str) -> Path:
    return cache_dir("variation") / f"{file_name(machine)}.json"
