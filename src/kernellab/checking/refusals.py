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
# Autograd's own message where a value that a gradient needs was overwritten.
_OVERWRITTEN = "modified by an inplace operation"


def refuses_gradients(error: BaseException, *, mutates: bool = False) -> bool:
    """Whether an error in a backward pass is a refusal: NotImplementedError, or a message about differentiation.

    `mutates`: the implementation changes its inputs by declaration. Autograd then refuses gradients for which they
    were needed.
    """
    if isinstance(error, NotImplementedError):
        return True
    message = first_line(error)
    refused = _REFUSAL.search(message) is not None or (mutates and _OVERWRITTEN in message)
    return isinstance(error, RuntimeError) and refused
