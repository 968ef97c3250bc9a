"""Records of earlier runs: `tests/samples/records_cpu.tar.gz` and `records_h200.tar.gz`, unpacked once per process."""

from __future__ import annotations

import atexit
import functools
import json
import shutil
import tarfile
import tempfile
from pathlib import Path

from kernellab.record import verdict
from kernellab.record.derived import DerivedRecord
from kernellab.record.reading import load
from support.klab import HERE


def sample_run(name: str, machine: str = "cpu") -> Path:
    """The folder of a run: `run-gelu`, `bench-softmax`, `check-square`, `interrupted`, …"""
    return _folder(machine) / name


def sample_document(name: str, machine: str = "cpu") -> dict:
    """The `run.json` of a run, a new copy each time."""
    return json.loads((sample_run(name, machine) / "run.json").read_bytes())


def sample_record(name: str, machine: str = "cpu") -> DerivedRecord:
    return verdict.derive(load(sample_run(name, machine)))


@functools.cache
def _folder(machine: str) -> Path:
    folder = Path(tempfile.mkdtemp(prefix="kernellab-records-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    with tarfile.open(HERE / "samples" / f"records_{machine}.tar.gz") as archive:
        archive.extractall(folder, filter="data")
    return folder
