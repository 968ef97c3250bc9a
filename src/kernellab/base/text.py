"""Texts that every package may print: from files that cannot be trusted, made safe; and shares in sentences."""

from __future__ import annotations


def shown(text: str, longest: int | None = None) -> str:
    """One line, cut to `longest` characters, with nothing in it that a terminal obeys or that a file cannot hold."""
    if longest is not None and len(text) > longest:
        text = text[: max(longest - 1, 1)] + "…"
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else " " if c.isspace() else "\ufffd" for c in text)


def share_text(fraction: float) -> str:
    """A share in a sentence: `12 %`, or `less than 1 %`."""
    return "less than 1 %" if fraction < 0.01 else f"{100 * fraction:.0f} %"


def plural(number: int, noun: str) -> str:
    """`1 block`, `2 blocks`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
