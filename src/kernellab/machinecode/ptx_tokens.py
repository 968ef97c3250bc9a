"""Splits the text of PTX into tokens with their positions, in a single pass over any text."""

from __future__ import annotations

import re
import struct
from typing import NamedTuple

_TOKEN = re.compile(
    r"""(?P<skip>[ \t\r\f\v]+|//[^\n]*)
      |(?P<newline>\n)
      |(?P<comment>/\*)
      |(?P<string>"[^"\n]*"?)
      |(?P<number>0[fF][0-9a-fA-F]{8}\b|0[dD][0-9a-fA-F]{16}\b|0[xX][0-9a-fA-F]{1,32}U?|\d+(?:\.\d+)?(?:[eE][-+]?\d+)?U?)
      |(?P<word>[A-Za-z_$%.][A-Za-z0-9_$.%]*(?:::[A-Za-z0-9_$.]+)*)
      |(?P<mark>.)""",
    re.VERBOSE | re.ASCII,
)


class Token(NamedTuple):
    kind: str  # "word", "number", "string" or "mark"
    text: str
    line: int
    start: int
    end: int


def tokenize(text: str) -> list[Token]:
    """All tokens, without white space and comments."""
    tokens: list[Token] = []
    line, at = 1, 0
    while (match := _TOKEN.match(text, at)) is not None:
        kind, at = match.lastgroup or "mark", match.end()
        if kind == "newline":
            line += 1
        elif kind == "comment":
            closed = text.find("*/", at)
            end = len(text) if closed < 0 else closed + 2
            line += text.count("\n", at, end)
            at = end
        elif kind != "skip":
            tokens.append(Token(kind, match.group(), line, match.start(), at))
    return tokens


def parse_number(text: str) -> int | float:
    """The value of a number in PTX. 0f and 0d prefix the bits of a float and of a double."""
    head = text[:2].lower()
    if head == "0f":
        return float(struct.unpack(">f", bytes.fromhex(text[2:]))[0])
    if head == "0d":
        return float(struct.unpack(">d", bytes.fromhex(text[2:]))[0])
    digits = text.rstrip("U")
    if head == "0x":
        return int(digits, 16)
    if digits.isdigit() and len(digits) <= 40:  # Python refuses to convert thousands of digits
        return int(digits)
    return float(digits)
