"""Parts of pages: labels, data inside scripts, hashes for a security policy, and the files of a folder of assets."""

from __future__ import annotations

import base64
import hashlib
import json
import math
import zlib
from pathlib import Path

from kernellab.base.text import printable

MOST_CHARACTERS = 4000  # of a name or a detail


def label(name: str, most: int = MOST_CHARACTERS) -> str:
    """A name as one printable line, cut to `most` characters and never empty."""
    return printable(name.strip(), most) or "(no name)"


def json_in_script(value: object) -> str:
    """JSON that cannot end the script element that contains it. A number that JSON has no word for becomes null."""
    try:
        text = json.dumps(value, allow_nan=False)
    except ValueError:
        text = json.dumps(_without_endless_numbers(value))
    return text.replace("<", "\\u003c")


def _without_endless_numbers(value: object) -> object:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: _without_endless_numbers(entry) for key, entry in value.items()}
    return [_without_endless_numbers(entry) for entry in value] if isinstance(value, list | tuple) else value


def deflated(text: str) -> str:
    """A text in a third of its size: deflated, as base64. Higher levels save little and take several times as long."""
    return base64.b64encode(zlib.compress(text.encode(), 4)).decode()


def source_hash(text: str) -> str:
    """The hash by which a page's security policy allows a script or style with this text."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def asset(package_file: str, name: str) -> str:
    """The text of a file in the folder `assets` beside a module: `asset(__file__, "page.css")`."""
    return (Path(package_file).with_name("assets") / name).read_text(encoding="utf-8")
