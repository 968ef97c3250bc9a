"""Runs of the samples, and reports of them."""

from __future__ import annotations

import json
import tarfile
from collections.abc import Mapping
from pathlib import Path

from kernellab.record.journal import empty_record
from kernellab.record.reading import load
from kernellab.record.verdict import derive
from kernellab.reporting.report.parts.section import Run
from support.klab import HERE


def sample_run(archive: str, name: str, folder: Path) -> Path:
    """The folder of a run of a sample archive, unpacked into `folder`."""
    with tarfile.open(HERE / "samples" / archive) as sample:
        members = [member for member in sample.getmembers() if member.name.startswith(f"./{name}")]
        sample.extractall(folder, members, filter="data")
    return folder / name


def read_run(folder: Path, prefix: str = "") -> Run:
    """A run as sections read it."""
    return Run(derive(load(folder)), [folder], prefix)


def recorded_run(folder: Path, traces: Mapping[str, bytes], name: str = "training") -> Path:
    """A run of `klab profile` in `folder`, with these traces."""
    (folder / "artifacts").mkdir(parents=True)
    for file, content in traces.items():
        (folder / "artifacts" / file).write_bytes(content)
    (folder / "run.json").write_text(json.dumps({**empty_record(), "command": ["klab", "profile"], "complete": True}))
    document = {"findings": [{"title": "the GPU waits"}], "collected": [{"name": name, "traces": list(traces)}]}
    (folder / "profile.json").write_text(json.dumps(document))
    return folder
