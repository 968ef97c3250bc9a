"""Texts from a file nobody vouches for, as they may be kept and shown."""

from __future__ import annotations


def shown(text: str, longest: int) -> str:
    """No longer than `longest`, and nothing in it that a terminal obeys or that cannot be written as UTF-8."""
    if len(text) > longest:
        text = f"{text[:longest]}… ({len(text):,} characters)"
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else " " if c in "\t\r\n" else "\ufffd" for c in text)
