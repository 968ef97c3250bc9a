"""Dims as an author writes them: a name, a constant, or a size derived from other dims, as in `1 S D/2`. No torch.

A derived size that is not whole or is negative does not exist: the op is not defined for such sizes.
"""

from __future__ import annotations

import ast
import functools
import math
from collections.abc import Mapping
from fractions import Fraction

Size = int | tuple[int, ...]
_DIVISIONS = (ast.Div, ast.FloorDiv)
_OPERATORS = (ast.Add, ast.Sub, ast.Mult, *_DIVISIONS)


def is_derived(dim: str) -> bool:
    """Whether a dim is a constant or computed from other dims, rather than a name."""
    return not dim.isidentifier() and dim != "..."


def is_valid(dim: str) -> bool:
    """Whether a dim is a name, a whole number, or computed from these by + - * / // and parentheses."""
    try:
        return all(_is_allowed(node) for node in ast.walk(_parse(dim)))
    except SyntaxError:
        return False


def names_in(dim: str) -> tuple[str, ...]:
    """The named dims that a dim consists of, in order: `D` for `D/2`; none for a constant."""
    if not is_derived(dim):
        return (dim,)
    return tuple(dict.fromkeys(node.id for node in ast.walk(_parse(dim)) if isinstance(node, ast.Name)))


def size_of(dim: str, sizes: Mapping[str, Size]) -> Size:
    """The size of a dim, given those of the named ones. Rounded down, and at least 0, where it does not exist."""
    return max(0, math.floor(_evaluate(_parse(dim), sizes))) if is_derived(dim) else sizes[dim]


def obstacle(dim: str, sizes: Mapping[str, Size]) -> str | None:
    """Why a dim has no size, given those of the named ones; None where it has one."""
    size = _evaluate(_parse(dim), sizes) if is_derived(dim) else Fraction(0)
    if size >= 0 and size.denominator == 1:
        return None
    named = " ".join(f"{name}={sizes[name]}" for name in names_in(dim))
    return f"{dim} is {'negative' if size < 0 else 'not a whole number'} at {named}"


@functools.lru_cache(maxsize=256)
def _parse(dim: str) -> ast.expr:
    return ast.parse(dim, mode="eval").body


def _is_allowed(node: ast.AST) -> bool:
    if isinstance(node, ast.BinOp):
        by_zero = isinstance(node.right, ast.Constant) and node.right.value == 0
        return isinstance(node.op, _OPERATORS) and not (by_zero and isinstance(node.op, _DIVISIONS))
    if isinstance(node, ast.Constant):
        return type(node.value) is int
    return isinstance(node, (ast.Name, ast.operator, ast.expr_context))


def _evaluate(node: ast.expr, sizes: Mapping[str, Size]) -> Fraction:
    if isinstance(node, ast.BinOp):
        left, right = _evaluate(node.left, sizes), _evaluate(node.right, sizes)
        match node.op:
            case ast.Add():
                return left + right
            case ast.Sub():
                return left - right
            case ast.Mult():
                return left * right
        if right == 0:
            return Fraction(-1)  # there is no such size
        return left / right if isinstance(node.op, ast.Div) else Fraction(left // right)
    size = sizes[node.id] if isinstance(node, ast.Name) else getattr(node, "value", None)
    assert isinstance(size, int)
    return Fraction(size)
