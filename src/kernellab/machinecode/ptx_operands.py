"""Operands of a PTX instruction from its tokens."""

from __future__ import annotations

from collections.abc import Sequence

from kernellab.machinecode.instructions import Operand
from kernellab.machinecode.ptx_tokens import Token, number

_OPEN, _CLOSE = {"(": ")", "[": "]", "{": "}"}, {")", "]", "}"}
_DEEPEST = 8  # PTX nests two deep; damaged text must not recurse


class Unreadable(Exception):
    """These tokens are no operand; the message says what is wrong."""


def operands(text: str, tokens: Sequence[Token]) -> tuple[Operand, ...]:
    """All operands of one instruction. `text` is what the tokens were cut from."""
    return tuple(_operand(text, part, 0) for part in _split(tokens, ",")) if tokens else ()


def _split(tokens: Sequence[Token], mark: str) -> list[Sequence[Token]]:
    """Cut at a mark wherever no bracket is open."""
    parts, begin, closing = [], 0, []
    for i, token in enumerate(tokens):
        if token.kind != "mark":
            continue
        if token.text in _OPEN:
            closing.append(_OPEN[token.text])
            if len(closing) > _DEEPEST:
                raise Unreadable("brackets are nested too deep")
        elif token.text in _CLOSE:
            if not closing or closing.pop() != token.text:
                raise Unreadable(f"{token.text!r} closes nothing")
        elif token.text == mark and not closing:
            parts.append(tokens[begin:i])
            begin = i + 1
    if closing:
        raise Unreadable(f"{closing[-1]!r} is missing")
    return [*parts, tokens[begin:]]


def _operand(text: str, tokens: Sequence[Token], depth: int) -> Operand:
    if not tokens:
        raise Unreadable("an operand is missing")
    shown = text[tokens[0].start : tokens[-1].end]
    first, last = tokens[0], tokens[-1]
    if first.kind == "mark" and first.text in _OPEN and last.text == _OPEN[first.text]:
        inner = tokens[1:-1]
        if first.text == "[":
            return _address(text, inner, shown, depth)
        parts = tuple(_operand(text, part, depth + 1) for part in _split(inner, ",")) if inner else ()
        return Operand("vector" if first.text == "{" else "group", shown, parts=parts)
    either = _split(tokens, "|")
    if len(either) > 1:
        return Operand("pair", shown, parts=tuple(_operand(text, part, depth + 1) for part in either))
    return _single(tokens, shown)


def _single(tokens: Sequence[Token], shown: str) -> Operand:
    negated = tokens[0].text in ("-", "!")
    rest = tokens[1:] if negated else tokens
    if len(rest) == 1 and rest[0].kind == "number":
        value = number(rest[0].text)
        return Operand("immediate", shown, value=-value if negated else value)
    if len(rest) == 1 and rest[0].kind == "word":
        name = rest[0].text
        return Operand("register" if name[0] == "%" else "symbol", shown, name=name, negated=negated)
    if len(rest) == 3 and rest[1].text in "+-" and rest[0].kind == "word" and rest[2].kind == "number":
        value = number(rest[2].text)
        return Operand("symbol", shown, name=rest[0].text, value=-value if rest[1].text == "-" else value)
    raise Unreadable(f"{shown[:40]!r} is no operand")


def _address(text: str, tokens: Sequence[Token], shown: str, depth: int) -> Operand:
    """`[base + offset]`, or a tensor's `[descriptor, {x, y}]`."""
    parts = _split(tokens, ",")
    base, offset = list(parts[0]), 0
    if len(base) >= 3 and base[-1].kind == "number" and base[-2].text in ("+", "-"):
        amount = number(base[-1].text)
        offset = (-1 if base[-2].text == "-" else 1) * (amount if isinstance(amount, int) else 0)
        base = base[:-2]
        if base[-1].text == "+":  # [%r1 + -8] is written with both signs
            base = base[:-1]
    head = _operand(text, base, depth + 1)
    rest = tuple(_operand(text, part, depth + 1) for part in parts[1:])
    return Operand("address", shown, name=head.name, value=offset, parts=(head, *rest))
