"""Text that every package may print: from untrusted files, made safe; counts and shares in sentences."""

from __future__ import annotations


def shown(text: str, longest: int | None = None) -> str:
    """One line of at most `longest` characters, without control characters or characters that cannot be encoded."""
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
