"""The type of a function with unknown parameters that kernellab calls: an author's reference or implementation."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

# The author chooses the parameters, so they are `...`: a signature of `object` parameters would match no function.
AnyFunction: TypeAlias = Callable[..., object]  # type: ignore[explicit-any]
