"""Text that comes from traces, made safe for files that are pictures and pages; and the parts those are made of."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

LONGEST = 4000  # characters of a name or a detail
_UNPRINTABLE = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]")
_PAGE = Path(__file__).with_name("page")


def printable(name: str, most: int = LONGEST) -> str:
    """A name as one line of text that any file may hold."""
    name = _UNPRINTABLE.sub(lambda found: " " if found[0] in "\t\r\n" else "\ufffd", name[: most + 1]).strip()
    return (name[: most - 1] + "…" if len(name) > most else name) or "(no name)"


def in_script(value: Any) -> str:
    """JSON that cannot end the script element it stands in."""
    return json.dumps(value).replace("<", "\\u003c")


def part(name: str) -> str:
    """A file of the folder `page`."""
    return (_PAGE / name).read_text(encoding="utf-8")
