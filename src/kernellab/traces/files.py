"""Reads a trace from a file of any supported kind. The kind is detected from the content, not from the file name."""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from pathlib import Path

from kernellab.base.errors import UserError
from kernellab.traces import kineto, nsys
from kernellab.traces.text_chunks import GZIP_MAGIC
from kernellab.traces.trace import Trace

_HEAD = 4096  # bytes read to detect the kind of file


def read(path: Path | str) -> Trace:
    """The trace in a JSON file of PyTorch's profiler (plain or gzip) or in an SQLite export of Nsight Systems."""
    path = Path(path)
    try:
        if path.is_dir():
            raise UserError(f"{path} is a folder. Name the trace in it.")
        if not path.exists():
            raise UserError(f"There is no file {path}.")
        if not path.is_file():  # reading a pipe or a device may never end
            raise UserError(f"{path} is not a file on disk.")
        with path.open("rb") as file:
            head = file.read(_HEAD)
        compressed = head.startswith(GZIP_MAGIC)
        magic = (_decompress(head) if compressed else head)[:16]
        if magic == nsys.REPORT_MAGIC:
            raise UserError(f"{path} is an Nsight Systems report. Export it: nsys export --type sqlite {path}")
        if magic == nsys.SQLITE_MAGIC and compressed:  # SQLite needs random access to the file
            raise UserError(f"{path} is an SQLite file compressed by gzip. Decompress it: gunzip --keep {path}")
        return nsys.read(path) if magic == nsys.SQLITE_MAGIC else kineto.read(path)
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror or error}.") from None


def _decompress(head: bytes) -> bytes:
    try:
        return zlib.decompressobj(wbits=31).decompress(head, _HEAD)
    except zlib.error:
        return b""


def read_all(paths: Iterable[Path | str]) -> list[Trace]:
    """The traces of one program's processes, ordered by rank if every file states its rank."""
    traces = [read(path) for path in paths]
    ranks = [rank for trace in traces if isinstance(rank := trace.metadata.get("rank"), int)]
    if len(ranks) < len(traces):
        return traces
    return [trace for _, trace in sorted(zip(ranks, traces, strict=True), key=lambda pair: pair[0])]
