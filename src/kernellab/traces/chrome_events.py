"""The events of a Chrome trace, one at a time, from text that arrives in chunks and may be damaged.

Both forms are read: an object with a list `traceEvents`, and a bare list. Only one event and one chunk are in memory.
Where the text is not valid JSON, reading continues at the next text that looks like an event; `notes` reports the loss.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator

from kernellab.base.json import JsonObject, JsonValue

_MAX_VALUE = 1 << 26  # characters of one value; a longer one is skipped
_MAX_SEARCHED = 1 << 31  # characters searched without result, in all
_COST_OF_DAMAGE = 1 << 12  # characters that one damaged place counts as searched
_MAX_BLANK = 1 << 26  # characters of white space: a small gzip file can hold hours of it
_MAX_METADATA = 1 << 16  # characters of a value beside the events; a longer one is not kept
_MAX_KEYS = 1000
_CUT = 16  # an error this close to the end of the text may be a value that continues in the next chunk

_Skip = Callable[[str, int], re.Match[str] | None]
_between = re.compile(r"[ \t\r\n,]*").match
_blank = re.compile(r"[ \t\r\n]*").match
_next_event = re.compile(r',[ \t\r\n]{0,64}(?=\{[ \t\r\n]{0,64}"\w{1,9}"[ \t\r\n]{0,64}:)').search
_decode = json.JSONDecoder(strict=False).raw_decode


class NotATrace(Exception):
    """The text contains no list of events; the message completes a sentence that begins with the file's name."""


class _Truncated(Exception):
    """The text ends inside a value."""


class _NoEventFollows(Exception):
    """Nothing after a damaged place looks like an event."""


class _Damaged(Exception):
    """The text at the current position is not valid JSON."""


class ChromeEvents:
    """Iterate once; `metadata` and `notes` are complete when the iteration ends."""

    def __init__(self, chunks: Iterator[str]) -> None:
        self.metadata: JsonObject = {}  # the values beside the list of events
        self.notes: list[str] = []
        self._chunks = chunks
        self._text = ""
        self._at = 0
        self._passed = 0  # characters dropped from before `_text`
        self._searched = 0  # characters searched without result
        self._damaged_places = 0
        self._first_damage = 0  # position of the first damaged place
        self._list_found = False

    def __iter__(self) -> Iterator[JsonValue]:
        first = self._peek()
        if not first:
            raise NotATrace("is empty")
        if first not in "[{":
            raise NotATrace("is not JSON")
        self._at += 1
        try:
            yield from self._read_list(bare=True) if first == "[" else self._read_object()
            if self._peek():
                self.notes.append(
                    f"The text after the end of the trace, at character {self._position():,}, is not read."
                )
        except _Truncated:
            self.notes.append(f"The file is truncated at character {self._position():,}: the rest is missing.")
        except _NoEventFollows:
            pass
        except _Damaged:
            self._count_damage()
            self.notes.append(f"Nothing could be read after character {self._position():,}.")
        if self._damaged_places:
            self.notes.append(
                f"Left out: text that is not valid JSON, in {self._damaged_places:,} "
                f"place{'s' * (self._damaged_places > 1)}, the first at character {self._first_damage:,}."
            )
        if not self._list_found:
            raise self._refusal()

    def _refusal(self) -> NotATrace:
        if self._damaged_places:
            return NotATrace(f"is not valid JSON from character {self._first_damage:,} on, and no `traceEvents` follow")
        if self.notes:
            return NotATrace(f"is truncated before its first event ({self._position():,} characters were read)")
        return NotATrace("is JSON but not a trace: it has no list `traceEvents`")

    def _position(self) -> int:
        return self._passed + self._at

    def _read_more(self) -> bool:
        """Reads on and drops the text that was consumed.

        If nothing was consumed since the last call, the text doubles: a long value is decoded again from its beginning,
        and fixed steps would take time quadratic in its length.
        """
        rest = self._text[self._at :]
        self._passed += self._at
        parts, size = [rest], len(rest)
        for chunk in self._chunks:
            parts.append(chunk)
            size += len(chunk)
            if size > 2 * len(rest):
                break
        self._text, self._at = "".join(parts), 0
        return size > len(rest)

    def _peek(self, skip: _Skip = _blank) -> str:
        """The next character that `skip` does not match; empty at the end."""
        begin = self._position()
        while True:
            self._at = skip(self._text, self._at).end()  # type: ignore[union-attr]
            if self._at < len(self._text):
                return self._text[self._at]
            if self._position() - begin > _MAX_BLANK or not self._read_more():
                return ""

    def _read_value(self) -> JsonValue:
        """The value that begins at the current position."""
        self._peek()
        while True:
            try:
                value: JsonValue
                value, self._at = _decode(self._text, self._at)
                return value
            except RecursionError:
                raise _Damaged from None
            except ValueError as error:
                self._extend_or_raise(error)

    def _extend_or_raise(self, error: ValueError) -> None:
        """Reads more text if that may resolve the error."""
        place = self._at  # an integer of thousands of digits raises an error without a position
        if isinstance(error, json.JSONDecodeError):
            place = len(self._text) if error.msg.startswith("Unterminated") else error.pos
        if place < len(self._text) - _CUT or len(self._text) - self._at > _MAX_VALUE:
            self._searched += place - self._at
            raise _Damaged
        if not self._read_more():
            raise _Truncated

    def _count_damage(self) -> None:
        if not self._damaged_places:
            self._first_damage = self._position()
        self._damaged_places += 1

    def _read_list(self, *, bare: bool) -> Iterator[JsonValue]:
        self._list_found = self._list_found or bare
        damaged = False
        while True:
            # Most of the time is spent in this loop: an event that can be read costs no method call.
            text, at = self._text, self._at
            try:
                while not damaged:
                    at = _between(text, at).end()  # type: ignore[union-attr]
                    event, at = _decode(text, at)
                    yield event
            except (ValueError, RecursionError):
                self._at = at
            character = self._peek(_between)
            if not character:
                if bare and not damaged:  # Chrome allows the closing bracket of a bare list to be missing
                    return
                raise _Truncated
            if character == "]" and not damaged:
                self._at += 1
                return
            try:
                value = self._read_value()
            except _Damaged:
                if not damaged:
                    self._count_damage()
                damaged = True
                self._go_to_next_event(self._at + 1)
                continue
            if damaged and not (isinstance(value, dict) and "ph" in value):  # a part of the damaged event
                self._go_to_next_event(self._at)
                continue
            damaged = False
            yield value

    def _go_to_next_event(self, begin: int) -> None:
        """Moves to the next text that looks like the beginning of an event."""
        self._at = begin
        while not (match := _next_event(self._text, self._at)):
            self._at = max(self._at, len(self._text) - 256)
            if not self._read_more():
                raise _NoEventFollows
        # The decoder counts the lines before an error. Without text before it, an error costs the least.
        self._passed += match.end()
        self._text, self._at = self._text[match.end() :], 0
        self._searched += _COST_OF_DAMAGE
        if self._searched > _MAX_SEARCHED:
            raise _Damaged

    def _read_object(self) -> Iterator[JsonValue]:
        while True:
            character = self._peek(_between)
            if character == "}":
                self._at += 1
                return
            if not character:
                raise _Truncated
            try:
                begin = self._position()
                key = self._read_value()
                if self._peek() != ":":
                    raise _Damaged
                self._at += 1
                if key == "traceEvents" and self._peek() == "[":
                    self._at += 1
                    self._list_found = True
                    yield from self._read_list(bare=False)
                    continue
                value = self._read_value()
                if isinstance(key, str) and self._position() - begin <= _MAX_METADATA:
                    self._keep_metadata(key, value)
            except _Damaged:
                if self._list_found:
                    raise
                self._count_damage()
                self._go_to_events()

    def _keep_metadata(self, key: str, value: JsonValue) -> None:
        if len(self.metadata) < _MAX_KEYS:
            self.metadata[key] = value

    def _go_to_events(self) -> None:
        """Moves past a damaged place to the key of the events."""
        self._at += 1
        while (at := self._text.find('"traceEvents"', self._at)) < 0:
            self._at = max(self._at, len(self._text) - 64)
            if not self._read_more():
                raise _NoEventFollows
        self._at = at
