"""The console that all output goes through."""

from __future__ import annotations

import sys

from rich.console import Console

_PIPED_WIDTH = 160


def console(*, stderr: bool = False) -> Console:
    """As wide as the terminal; plain text of 160 columns where the output is piped."""
    stream = sys.stderr if stderr else sys.stdout
    width = None if stream.isatty() else _PIPED_WIDTH
    return Console(stderr=stderr, width=width, highlight=False, markup=False)
