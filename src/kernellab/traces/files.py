"""A trace from a file, whichever kind it is: told by what is in it, not by its name."""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from pathlib import Path

from kernellab.base.errors import UserError
from kernellab.traces import kineto, nsys
from kernellab.traces.text_chunks import GZIP
from kernellab.traces.trace import Trace

_HEAD = 4096  # bytes, to tell a file's kind by


def read(path: Path | str) -> Trace:
    """PyTorch's profiler's JSON, plain or packed by gzip, or Nsight Systems' SQLite export."""
    path = Path(path)
    try:
        if path.is_dir():
            raise UserError(f"{path} is a folder. Name the trace in it.")
        if not path.exists():
            raise UserError(f"There is no file {path}.")
        if not path.is_file():  # a pipe or a device may never end
            raise UserError(f"{path} is not a file on disk.")
        with path.open("rb") as file:
            head = file.read(_HEAD)
        packed = head.startswith(GZIP)
        begins = (_unpacked(head) if packed else head)[:16]
        if begins == nsys.REPORT:
            raise UserError(f"{path} is Nsight Systems' own report. Export it: nsys export --type sqlite {path}")
        if begins == nsys.MAGIC and packed:  # SQLite reads here and there in a file, not from its beginning
            raise UserError(f"{path} is an SQLite file packed by gzip. Unpack it: gunzip --keep {path}")
        return nsys.read(path) if begins == nsys.MAGIC else kineto.read(path)
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror or error}.") from None


def _unpacked(head: bytes) -> bytes:
    try:
        return zlib.decompressobj(wbits=31).decompress(head, _HEAD)
    except zlib.error:
        return b""


def read_all(paths: Iterable[Path | str]) -> list[Trace]:
    """The traces of one program's processes, in the order of their ranks where they tell them."""
    traces = [read(path) for path in paths]
    ranks = [trace.about.get("rank") for trace in traces]
    if all(isinstance(rank, int) for rank in ranks):
        traces.sort(key=lambda trace: int(trace.about["rank"]))
    return traces
