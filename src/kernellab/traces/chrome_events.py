"""The events of a Chrome trace, one after another, from text that comes in pieces and may be damaged.

Both forms are read: an object with a list `traceEvents`, and the bare list. Only one event and one piece are in memory.
Where the text is no JSON, reading goes on at the next place that looks like an event; `notes` says what was lost.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from typing import Any

_LONGEST = 1 << 26  # characters of one value; longer ones are passed over
_PATIENCE = 1 << 31  # characters looked at in vain, altogether; a place that is no JSON counts as some thousands
_PLACE = 1 << 12
_MOST_BLANK = 1 << 26  # characters: a small packed file can hold hours of nothing
_ABOUT = 1 << 16  # characters of a value beside the events that are kept
_MOST_KEYS = 1000
_CUT = 16  # a value broken off this close to the end of what was read may go on in the next piece

_Skip = Callable[[str, int], re.Match[str] | None]
_between = re.compile(r"[ \t\r\n,]*").match
_blank = re.compile(r"[ \t\r\n]*").match
_next_event = re.compile(r',[ \t\r\n]{0,64}(?=\{[ \t\r\n]{0,64}"\w{1,9}"[ \t\r\n]{0,64}:)').search
_scan = json.JSONDecoder(strict=False).raw_decode


class NotEvents(Exception):
    """The text holds no list of events; the message says what it is instead."""


class _Ended(Exception):
    """The text ends within a value."""


class _Lost(Exception):
    """Nothing that looks like an event comes after what is no JSON."""


class _Broken(Exception):
    """What stands here is no JSON."""


class Events:
    """Iterate once; `top` and `notes` are complete when the iteration is."""

    def __init__(self, pieces: Iterator[str]) -> None:
        self.top: dict[str, Any] = {}  # what an object says beside its events
        self.notes: list[str] = []
        self._pieces = pieces
        self._text = ""
        self._at = 0
        self._passed = 0  # characters dropped from before `_text`
        self._looked = 0  # characters looked at in vain
        self._places = 0  # that are no JSON
        self._first = 0  # of them
        self._found = False

    def __iter__(self) -> Iterator[Any]:
        first = self._peek()
        if not first:
            raise NotEvents("is empty")
        if first not in "[{":
            raise NotEvents("is not JSON")
        self._at += 1
        try:
            yield from self._list(bare=True) if first == "[" else self._object()
            if self._peek():
                self.notes.append(f"What follows the trace's end, at character {self._here():,}, is not read.")
        except _Ended:
            self.notes.append(f"The file breaks off at character {self._here():,}: what came after is missing.")
        except _Lost:
            pass
        except _Broken:
            self._lose()
            self.notes.append(f"Nothing could be read after character {self._here():,}.")
        if self._places:
            self.notes.append(
                f"Left out: what cannot be read as JSON, in {self._places:,} place{'s' * (self._places > 1)}, "
                f"the first at character {self._first:,}."
            )
        if self._found:
            return
        if self._places:
            raise NotEvents(f"cannot be read as JSON from character {self._first:,} on, and no `traceEvents` follow")
        if self.notes:
            raise NotEvents(f"breaks off before its first event ({self._here():,} characters were read)")
        raise NotEvents("is JSON, but no trace: it has no list `traceEvents`")

    def _here(self) -> int:
        return self._passed + self._at

    def _more(self) -> bool:
        """Reads on, and drops what is behind. Each time nothing was taken in between, twice as much: a long value is
        looked at again from its beginning, and would otherwise take the square of its length."""
        rest = self._text[self._at :]
        self._passed += self._at
        gathered, size = [rest], len(rest)
        for piece in self._pieces:
            gathered.append(piece)
            size += len(piece)
            if size > 2 * len(rest):
                break
        self._text, self._at = "".join(gathered), 0
        return size > len(rest)

    def _peek(self, skip: _Skip = _blank) -> str:
        """The next character that says something; none at the end."""
        begin = self._here()
        while True:
            self._at = skip(self._text, self._at).end()  # type: ignore[union-attr]
            if self._at < len(self._text):
                return self._text[self._at]
            if self._here() - begin > _MOST_BLANK or not self._more():
                return ""

    def _value(self) -> Any:
        """The value that begins here."""
        self._peek()
        while True:
            try:
                value, self._at = _scan(self._text, self._at)
                return value
            except RecursionError:
                raise _Broken from None
            except ValueError as error:
                self._read_on(error)

    def _read_on(self, error: ValueError) -> None:
        """Returns with more text where that may mend the error."""
        place = self._at  # of errors without a place there is one: a number of thousands of digits
        if isinstance(error, json.JSONDecodeError):
            place = len(self._text) if error.msg.startswith("Unterminated") else error.pos
        if place < len(self._text) - _CUT or len(self._text) - self._at > _LONGEST:
            self._looked += place - self._at
            raise _Broken
        if not self._more():
            raise _Ended

    def _lose(self) -> None:
        if not self._places:
            self._first = self._here()
        self._places += 1

    def _list(self, *, bare: bool) -> Iterator[Any]:
        self._found = self._found or bare
        lost = False
        while True:
            # The loop most of the time is spent in: no method is called for an event that can be read.
            text, at = self._text, self._at
            try:
                while not lost:
                    at = _between(text, at).end()  # type: ignore[union-attr]
                    event, at = _scan(text, at)
                    yield event
            except (ValueError, RecursionError):
                self._at = at
            character = self._peek(_between)
            if not character:
                if bare and not lost:  # its bracket may be missing: Chrome allows it
                    return
                raise _Ended
            if character == "]" and not lost:
                self._at += 1
                return
            try:
                event = self._value()
            except _Broken:
                if not lost:
                    self._lose()
                lost = True
                self._find_event(self._at + 1)
                continue
            if lost and not (isinstance(event, dict) and "ph" in event):  # a part of the event that is lost
                self._find_event(self._at)
                continue
            lost = False
            yield event

    def _find_event(self, begin: int) -> None:
        """Goes to the next place that looks like the beginning of an event."""
        self._at = begin
        while not (match := _next_event(self._text, self._at)):
            self._at = max(self._at, len(self._text) - 256)
            if not self._more():
                raise _Lost
        # An error counts the lines before it: with nothing before it, it costs the least.
        self._passed += match.end()
        self._text, self._at = self._text[match.end() :], 0
        self._looked += _PLACE
        if self._looked > _PATIENCE:
            raise _Broken

    def _object(self) -> Iterator[Any]:
        while True:
            character = self._peek(_between)
            if character == "}":
                self._at += 1
                return
            if not character:
                raise _Ended
            try:
                begins = self._here()
                key = self._value()
                if self._peek() != ":":
                    raise _Broken
                self._at += 1
                if key == "traceEvents" and self._peek() == "[":
                    self._at += 1
                    self._found = True
                    yield from self._list(bare=False)
                    continue
                value = self._value()
                if isinstance(key, str) and self._here() - begins <= _ABOUT and len(self.top) < _MOST_KEYS:
                    self.top[key] = value
            except _Broken:
                if self._found:
                    raise
                self._lose()
                self._find_list()

    def _find_list(self) -> None:
        """Past what is broken, to the key of the events."""
        self._at += 1
        while (at := self._text.find('"traceEvents"', self._at)) < 0:
            self._at = max(self._at, len(self._text) - 64)
            if not self._more():
                raise _Lost
        self._at = at
