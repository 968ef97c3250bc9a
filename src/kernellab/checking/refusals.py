"""Telling errors by which an implementation refuses gradients from errors that are mistakes in its code."""

from __future__ import annotations

import re

from kernellab.base.user_code import first_line

# The messages of torch for an op without a formula, a derivative or a graph, and common messages of authors.
_REFUSAL = re.compile(
    r"no autograd formula|derivative|differentia|does not require grad|does not have a grad_fn"
    r"|(double|second|higher)[- ](order|backward)|(backward|gradients?) (is|are) not (implemented|supported)",
    re.IGNORECASE,
)


def refuses_gradients(error: BaseException) -> bool:
    """Whether an error in a backward pass is a refusal: NotImplementedError, or a message about differentiation."""
    if isinstance(error, NotImplementedError):
        return True
    return isinstance(error, RuntimeError) and _REFUSAL.search(first_line(error)) is not None
