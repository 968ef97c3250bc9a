"""Lines of source files."""

from pathlib import Path


def line_of(file: Path, text: str) -> int:
    """The number of the first line that contains the text."""
    return next(number for number, line in enumerate(file.read_text().splitlines(), 1) if text in line)
