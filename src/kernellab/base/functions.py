"""The type of a function that kernellab calls and knows nothing about: an author's reference or implementation."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

# Its parameters are the author's choice, which only `...` can say; `object` would refuse every function with any.
AnyFunction: TypeAlias = Callable[..., object]  # type: ignore[explicit-any]
