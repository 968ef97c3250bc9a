"""One process of one version: `klab bench` with the side's own interpreter, and the record that it leaves."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from kernellab.base.errors import UserError
from kernellab.base.paths import REPORT_SWITCH
from kernellab.record.reading import load
from kernellab.record.schema import Record
from kernellab.remeasuring.batches import Batch
from kernellab.remeasuring.code import Code
from kernellab.running.processes.child import Child
from kernellab.running.processes.startup import program

_LOG = "output.log"


class MeasurementFailed(Exception):
    """A process left no record; the message says why."""


def measure(codes: Sequence[Code], batch: Batch, folder: Path, *, seed: int, seconds: float) -> Record:
    """Run the process and read its record. It ends with this process, and on Ctrl-C.

    `codes`: one for each op of the batch, all at one place.
    """
    place = codes[0]
    folder.mkdir(parents=True, exist_ok=True)
    folder = folder.resolve()
    words = batch.words([code.target for code in codes], seed=seed, seconds=seconds, out=str(folder / "run"))
    env = {**os.environ, REPORT_SWITCH: "0"}
    if place.import_from is not None:
        env["PYTHONPATH"] = os.pathsep.join(filter(None, [str(place.import_from), env.get("PYTHONPATH")]))
    child = Child(program("kernellab.cli", *words, python=place.python), env, output=folder / _LOG, folder=place.folder)
    try:
        exit_code = child.wait()
    finally:
        child.end()
    if exit_code == 2 or exit_code < 0:
        raise MeasurementFailed(_last_line(folder / _LOG) or f"klab bench ended with {exit_code}")
    try:
        return load(folder / "run")
    except UserError as error:
        raise MeasurementFailed(_last_line(folder / _LOG) or error.message) from None


def _last_line(log: Path) -> str:
    """What klab says last, without the name that its errors begin with."""
    lines = log.read_text(errors="replace").strip().splitlines()
    errors = [line for line in lines if line.startswith("klab: ")]
    return (errors or lines or [""])[-1].removeprefix("klab: ")
