"""When wrong values count: what is a little above the limit must be so with other values too.

The limit follows PyTorch's own error on the same inputs, which is by luck small in some of hundreds of trials.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

from kernellab.trials.trial import Trial

_CLEAR = 8.0  # times the limit: nobody is that unlucky
_AGAIN = 3
_NOTE = "a little above the limit with the values first drawn, within it with others: luck"

Observed = dict[str, Any]


def surely(examine: Callable[[Trial], Observed | None], trial: Trial) -> Observed | None:
    """What is observed of a trial, or of the same with other values where the first were bad luck."""
    first = examine(trial)
    if first is None or first["status"] != "wrong" or first.get("excess", _CLEAR) >= _CLEAR:
        return first
    for more in range(1, _AGAIN + 1):
        other = examine(dataclasses.replace(trial, draw=trial.draw + more))
        if other is not None and other["status"] == "ok":
            return other | {"notes": [*other.get("notes", ()), _NOTE]}
    return first
