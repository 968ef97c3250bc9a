"""What the interpreter did differently from a GPU, collected for the outcome of a trial."""

from __future__ import annotations

_notes: dict[str, None] = {}


def add_note(text: str) -> None:
    _notes.setdefault(text)


def take_notes() -> list[str]:
    """The notes since the last call, each once."""
    notes = list(_notes)
    _notes.clear()
    return notes
