"""The one exception that means "the request was wrong", not "the tool is".

Everything a user can get wrong raises `UserError`; the command line turns it
into one sentence and exit code 2. Nothing else is caught there.
"""

from __future__ import annotations

import difflib
import sys
from collections.abc import Iterable


class UserError(Exception):
    """A request that cannot be carried out: names the thing, the reason and the next step.

    `detail` is shown below the sentence: the frames of the user's own file, for example.
    """

    def __init__(self, message: str, detail: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.detail = detail

    def tell(self) -> None:
        """On standard error, in the same words from whichever process of a command."""
        print(f"klab: {self.message}", *filter(None, [self.detail]), sep="\n", file=sys.stderr)


def nearest(word: str, known: Iterable[str]) -> str:
    """A "did you mean" clause for a word nobody knows, or the list to choose from."""
    known = sorted(set(known))
    close = difflib.get_close_matches(word, known, n=3, cutoff=0.55)
    if close:
        return f"did you mean {' or '.join(close)}?"
    return f"known: {', '.join(known)}" if known else "none are known"
