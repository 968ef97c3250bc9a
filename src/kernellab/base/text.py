"""Texts from files nobody vouches for, as they may be kept, printed and written into pages."""

from __future__ import annotations


def shown(text: str, longest: int | None = None) -> str:
    """One line, cut to `longest` characters, with nothing in it that a terminal obeys or that a file cannot hold."""
    if longest is not None and len(text) > longest:
        text = text[: max(longest - 1, 1)] + "…"
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else " " if c.isspace() else "\ufffd" for c in text)


def plural(number: int, noun: str) -> str:
    """`1 block`, `2 blocks`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
