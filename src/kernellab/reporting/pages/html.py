"""Parts of pages: labels, data inside scripts, and the files of the folder `assets`."""

from __future__ import annotations

import json
from pathlib import Path

from kernellab.base.text import printable

MOST_CHARACTERS = 4000  # of a name or a detail
_ASSETS = Path(__file__).with_name("assets")


def label(name: str, most: int = MOST_CHARACTERS) -> str:
    """A name as one printable line, cut to `most` characters and never empty."""
    return printable(name.strip(), most) or "(no name)"


def json_in_script(value: object) -> str:
    """JSON that cannot end the script element that contains it."""
    return json.dumps(value).replace("<", "\\u003c")


def asset(name: str) -> str:
    """The text of a file in the folder `assets`."""
    return (_ASSETS / name).read_text(encoding="utf-8")
