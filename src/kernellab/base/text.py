"""Text from untrusted files, made safe to store, print and write into pages."""

from __future__ import annotations


def shown(text: str, longest: int | None = None) -> str:
    """One line of at most `longest` characters, without control characters or characters that cannot be encoded."""
    if longest is not None and len(text) > longest:
        text = text[: max(longest - 1, 1)] + "…"
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else " " if c.isspace() else "\ufffd" for c in text)


def plural(number: int, noun: str) -> str:
    """`1 block`, `2 blocks`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
