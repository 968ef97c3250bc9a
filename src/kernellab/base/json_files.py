"""JSON files that anybody may have written: refused in words if too large, nested too deeply, or with endless numbers.

Python's own reader accepts NaN, infinite numbers, integers of thousands of digits, text that no encoding can hold, and
nesting at which everything that walks the document fails later.
"""

from __future__ import annotations

import json
import math
import os
import re
import stat
from pathlib import Path
from typing import NoReturn

from kernellab.base.json import JsonValue

MOST_BYTES = 128 << 20  # of a file: Python needs up to twenty times as much memory for it
MOST_LEVELS = 60  # of nesting
_LARGEST = 1 << 64  # no integer is as large

# Half of a character of UTF-16, escaped or as bytes. UTF-8 cannot hold it.
_HALF_CHARACTER = re.compile(rb"\\u[dD][89a-fA-F]|\xed[\xa0-\xbf]")


class Refused(ValueError):
    """A file or a document that is not read, and why."""


def read_bytes(path: Path, most: int = MOST_BYTES, start: int = 0) -> bytes:
    """The content of an ordinary file of at most `most` bytes, from `start` on. Raises OSError if it cannot be read."""
    # A pipe that nobody writes to would be waited for.
    with os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode):
            raise Refused("it is not an ordinary file")
        file.seek(start)
        content = file.read(most + 1) if status.st_size <= most else None
    if content is None or start + len(content) > most:
        raise Refused(f"it is larger than {most >> 20} MiB")
    return content


def parse(text: bytes) -> JsonValue:
    """The document. Halves of characters become the replacement character."""
    try:
        document: JsonValue = json.loads(
            text, parse_float=_parse_float, parse_int=_parse_int, parse_constant=_refuse_constant
        )
    except Refused:
        raise
    except RecursionError:
        raise Refused(f"it is nested more than {MOST_LEVELS} levels deep") from None
    except ValueError:
        raise Refused("it is not JSON") from None
    _refuse_depth(document, MOST_LEVELS)
    return _whole_characters(document) if _HALF_CHARACTER.search(text) else document


def _parse_float(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise Refused(f"{text[:20]} is too large for a number")
    return number


def _parse_int(text: str) -> int:
    number = int(text) if len(text) < 30 else _LARGEST  # Python refuses to read thousands of digits
    if abs(number) >= _LARGEST:
        raise Refused(f"{text[:20]}… is too large for an integer")
    return number


def _refuse_constant(name: str) -> NoReturn:
    raise Refused(f"{name} is not JSON")


def _refuse_depth(value: JsonValue, levels: int) -> None:
    if not isinstance(value, (dict, list)):
        return
    if levels == 0:
        raise Refused(f"it is nested more than {MOST_LEVELS} levels deep")
    for entry in value.values() if isinstance(value, dict) else value:
        if isinstance(entry, (dict, list)):
            _refuse_depth(entry, levels - 1)


def _whole_characters(value: JsonValue) -> JsonValue:
    if isinstance(value, str):
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, list):
        return [_whole_characters(entry) for entry in value]
    if isinstance(value, dict):
        return {str(_whole_characters(key)): _whole_characters(entry) for key, entry in value.items()}
    return value
