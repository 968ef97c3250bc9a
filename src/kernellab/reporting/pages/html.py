"""What pages are made of: labels, data in scripts, and the parts that lie in the folder `page`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from kernellab.base.text import shown

LONGEST = 4000  # characters of a name or a detail
_PAGE = Path(__file__).with_name("assets")


def printable(name: str, most: int = LONGEST) -> str:
    """A name as a label: never blank."""
    return shown(name.strip(), most) or "(no name)"


def in_script(value: Any) -> str:
    """JSON that cannot end the script element it stands in."""
    return json.dumps(value).replace("<", "\\u003c")


def part(name: str) -> str:
    """A file of the folder `page`."""
    return (_PAGE / name).read_text(encoding="utf-8")
