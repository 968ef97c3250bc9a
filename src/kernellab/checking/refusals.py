"""Errors by which a way says that it has no gradients, told from those that are mistakes in its code."""

from __future__ import annotations

import re

from kernellab.base.user_code import first_line

# As torch says it for an op without a formula, a derivative or a graph, and as people say it.
_SAID = re.compile(
    r"no autograd formula|derivative|differentia|does not require grad|does not have a grad_fn"
    r"|(double|second|higher)[- ](order|backward)|(backward|gradients?) (is|are) not (implemented|supported)",
    re.IGNORECASE,
)


def refuses_gradients(error: BaseException) -> bool:
    """Whether an error in a backward pass is a refusal: NotImplementedError, or one that speaks of differentiating."""
    if isinstance(error, NotImplementedError):
        return True
    return isinstance(error, RuntimeError) and _SAID.search(first_line(error)) is not None
