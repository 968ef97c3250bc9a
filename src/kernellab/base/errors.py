"""`UserError`: the user made a mistake, not kernellab.

The command line turns it into one sentence and exit code 2. It catches no other exception.
"""

from __future__ import annotations

import difflib
import sys
from collections.abc import Iterable

from kernellab.base.text import printable_lines


class UserError(Exception):
    """A request that cannot be carried out. The message names the thing, the reason and the next step.

    `detail` is shown below the message, for example the frames of the user's own file.
    """

    def __init__(self, message: str, detail: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.detail = detail

    def _render_traceback_(self) -> list[str]:
        """What a notebook shows of it: what the command line prints, without a traceback."""
        return [printable_lines(text) for text in (self.message, self.detail) if text]

    def report(self) -> None:
        """Print it to standard error, in the same form in every process of a command."""
        lines = [f"klab: {self.message}", *filter(None, [self.detail])]
        print(*map(printable_lines, lines), sep="\n", file=sys.stderr)


def nearest(word: str, known: Iterable[str]) -> str:
    """A "did you mean" clause for an unknown word, or the list to choose from."""
    choices = sorted(set(known))
    matches = difflib.get_close_matches(word, choices, n=3, cutoff=0.55)
    if matches:
        return f"did you mean {' or '.join(matches)}?"
    return f"known: {', '.join(choices)}" if choices else "none are known"
