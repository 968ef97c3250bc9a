"""The console that all output goes through."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable, Iterable

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

from kernellab.base.text import printable_lines

_PIPED_WIDTH = 160


class _SafeConsole(Console):
    """Prints no control characters of a text, which may be a stranger's and would command the terminal."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        for segment in super().render(renderable, options):
            yield segment if segment.control else Segment(printable_lines(segment.text), segment.style)


def console(*, stderr: bool = False) -> Console:
    """As wide as the terminal; plain text of 160 columns where the output is piped."""
    stream = sys.stderr if stderr else sys.stdout
    width = None if stream.isatty() else _PIPED_WIDTH
    return _SafeConsole(stderr=stderr, width=width, highlight=False, markup=False)


def printed(show: Callable[[Console], object], width: int = _PIPED_WIDTH) -> str:
    """The plain text that `show` prints on the console it is called with."""
    text = io.StringIO()
    plain = _SafeConsole(
        file=text,
        width=width,
        highlight=False,
        markup=False,
        color_system=None,
        force_terminal=False,
        force_jupyter=False,  # in a notebook rich would display what it prints
    )
    show(plain)
    return text.getvalue()
