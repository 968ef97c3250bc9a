"""A file's text in pieces, packed by gzip or not: a broken packing gives what lies before the break."""

from __future__ import annotations

import codecs
import zlib
from collections.abc import Iterator
from pathlib import Path

GZIP = b"\x1f\x8b"

_READ = 1 << 17  # bytes of the file at a time: the text of one error is found by counting lines from the first
_PIECE = 1 << 18  # bytes of text at a time: packed text can be a thousand times as long as what it is packed in
_MOST = 1 << 33  # bytes of text that are read at all: a file of megabytes can unpack for hours


def pieces(path: Path, notes: list[str]) -> Iterator[str]:
    """The text, never more than some megabytes at once. What is missing from it goes to `notes`."""
    decoder = codecs.getincrementaldecoder("utf-8-sig")(errors="replace")
    read = 0
    with path.open("rb") as file:
        packed = file.read(2) == GZIP
        file.seek(0)
        raw = iter(lambda: file.read(_READ), b"")
        for piece in _unpacked(raw, notes) if packed else raw:
            read += len(piece)
            yield decoder.decode(piece)
            if read >= _MOST:
                notes.append(f"Only the first {_MOST >> 30} GiB of text are read.")
                return
    yield decoder.decode(b"", final=True)


def _unpacked(raw: Iterator[bytes], notes: list[str]) -> Iterator[bytes]:
    unpacker = zlib.decompressobj(wbits=31)
    for packed in raw:
        while packed:
            if unpacker.eof:  # another member, or the zeros some tools end with
                packed = packed.lstrip(b"\0")
                unpacker = zlib.decompressobj(wbits=31)
                continue
            before = unpacker.copy()
            try:
                piece = unpacker.decompress(packed, _PIECE)
            except zlib.error as error:
                yield from _up_to_the_break(before, packed)
                notes.append(f"The gzip packing is broken ({error}): what comes after the break is missing.")
                return
            packed = unpacker.unused_data if unpacker.eof else unpacker.unconsumed_tail
            yield piece
    if not unpacker.eof:
        notes.append("The gzip packing breaks off: the file's end is missing.")


def _up_to_the_break(unpacker: zlib._Decompress, packed: bytes) -> Iterator[bytes]:
    """An error takes with it all that was unpacked in the same step: smaller and smaller steps lose the least."""
    step = max(1, len(packed) // 32)
    while packed:
        before = unpacker.copy()
        try:
            piece = unpacker.decompress(packed[:step], _PIECE)
        except zlib.error:
            if step == 1:
                return
            unpacker, step = before, max(1, step // 32)
            continue
        packed = unpacker.unconsumed_tail + packed[step:]
        yield piece
