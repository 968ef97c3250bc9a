"""The text of a file in chunks, gzip or plain. A damaged gzip file yields the text before the damage."""

from __future__ import annotations

import codecs
import zlib
from collections.abc import Iterator
from pathlib import Path

GZIP_MAGIC = b"\x1f\x8b"

# Bytes read at a time. Small, because the JSON decoder locates an error by counting lines from the chunk's start.
_READ_SIZE = 1 << 17
_CHUNK_SIZE = 1 << 18  # bytes of text at a time: gzip text can expand a thousandfold
_MAX_TEXT = 1 << 33  # bytes of text read in all: a file of megabytes can expand for hours


def read_chunks(path: Path, notes: list[str]) -> Iterator[str]:
    """The text, with at most a few megabytes in memory. Sentences about missing text are appended to `notes`."""
    decoder = codecs.getincrementaldecoder("utf-8-sig")(errors="replace")
    size = 0
    with path.open("rb") as file:
        compressed = file.read(2) == GZIP_MAGIC
        file.seek(0)
        raw = iter(lambda: file.read(_READ_SIZE), b"")
        for chunk in _decompress(raw, notes) if compressed else raw:
            size += len(chunk)
            yield decoder.decode(chunk)
            if size >= _MAX_TEXT:
                notes.append(f"Only the first {_MAX_TEXT >> 30} GiB of text are read.")
                return
    yield decoder.decode(b"", final=True)


def _decompress(raw: Iterator[bytes], notes: list[str]) -> Iterator[bytes]:
    decompressor = zlib.decompressobj(wbits=31)
    for data in raw:
        while data:
            if decompressor.eof:  # another gzip member, or the zeros some tools append
                data = data.lstrip(b"\0")
                decompressor = zlib.decompressobj(wbits=31)
                continue
            before = decompressor.copy()
            try:
                chunk = decompressor.decompress(data, _CHUNK_SIZE)
            except zlib.error as error:
                yield from _decompress_until_damage(before, data)
                notes.append(f"The gzip data is damaged ({error}): everything after the damage is missing.")
                return
            data = decompressor.unused_data if decompressor.eof else decompressor.unconsumed_tail
            yield chunk
    if not decompressor.eof:
        notes.append("The gzip data is truncated: the end of the file is missing.")


def _decompress_until_damage(decompressor: zlib._Decompress, data: bytes) -> Iterator[bytes]:
    """Decompress in ever smaller steps: zlib discards all output of the call that fails."""
    step = max(1, len(data) // 32)
    while data:
        before = decompressor.copy()
        try:
            chunk = decompressor.decompress(data[:step], _CHUNK_SIZE)
        except zlib.error:
            if step == 1:
                return
            decompressor, step = before, max(1, step // 32)
            continue
        data = decompressor.unconsumed_tail + data[step:]
        yield chunk
