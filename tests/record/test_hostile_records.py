"""Records from a stranger are refused in a sentence, or read, judged and printed like any other."""

import io
import json
import sys
import tarfile
import time

import pytest

from kernellab.base.errors import UserError
from kernellab.explaining.document import add_findings
from kernellab.record.reading import load
from kernellab.record.verdict import derive
from kernellab.reporting.charts import series
from kernellab.reporting.terminal import results
from kernellab.reporting.text.console import console
from support.hostile_records import TEXTS, hostile_records
from support.klab import HERE

_MOST_SECONDS = 20.0  # on a busy machine; the slowest takes 3


@pytest.fixture(scope="module")
def records():
    with tarfile.open(HERE / "samples" / "records_h200.tar.gz") as archive:
        file = next(m for m in archive.getmembers() if m.name.endswith("run-gelu/run.json"))
        return hostile_records(json.load(archive.extractfile(file)))


def _use(folder, monkeypatch):
    """Reads a record, judges, explains and prints it; what is printed, or the sentence that refuses it."""
    printed = io.StringIO()
    monkeypatch.setattr(sys, "stdout", printed)
    try:
        record = derive(load(folder))
    except UserError as error:
        return error.message
    add_findings(record)
    results.show(record, console(), verbose=True)
    assert all(sweep.timed in (True, False) for sweep in series.find(record))
    json.dumps(record, allow_nan=False).encode()
    return printed.getvalue()


def test_every_hostile_record_is_refused_or_printed_harmlessly(records, tmp_path, monkeypatch):
    assert len(records) >= 50
    refused = []
    for number, (name, write) in enumerate(records.items()):
        folder = tmp_path / str(number)
        folder.mkdir()
        write(folder)
        began = time.monotonic()
        said = _use(folder, monkeypatch)
        assert time.monotonic() - began < _MOST_SECONDS, name
        said.encode()
        commands = [c for c in said if not c.isprintable() and c != "\n"]
        assert not commands, f"{name}: it prints {commands[:5]}"
        if "damaged" in said or "is not" in said or "cannot be read" in said or "has schema" in said:
            refused.append(name)
    for name in TEXTS:
        assert f"{name} in every text" not in refused, "texts are shown, whatever they say"
    for name in (
        "a sample of NaN",
        "a sample of -1",
        "a pipe",
        "a file of 1 GiB",
        "empty",
        "the same result twice",
        "a GPU of 0 SMs",
    ):
        assert name in refused
