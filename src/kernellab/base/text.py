"""Text to print: text from untrusted files made safe, and counts and shares as part of a sentence."""

from __future__ import annotations


def printable(text: str, max_length: int | None = None) -> str:
    """One line of at most `max_length` characters, without control characters or characters that cannot be encoded."""
    if max_length is not None and len(text) > max_length:
        text = text[: max(max_length - 1, 1)] + "…"
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else " " if c.isspace() else "\ufffd" for c in text)


def printable_lines(text: str) -> str:
    """Several lines, each made safe as `printable` does."""
    if text.isprintable():
        return text
    return "\n".join(printable(line) for line in text.split("\n"))


def share_text(fraction: float) -> str:
    """A share in a sentence: `12 %`, or `less than 1 %`."""
    return "less than 1 %" if fraction < 0.01 else f"{100 * fraction:.0f} %"


def plural(number: int, noun: str) -> str:
    """`1 block`, `2 blocks`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
