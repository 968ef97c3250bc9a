"""Parses the operands of a PTX instruction from its tokens."""

from __future__ import annotations

from collections.abc import Sequence

from kernellab.machinecode.instructions import Operand
from kernellab.machinecode.ptx_tokens import Token, parse_number

_OPEN, _CLOSE = {"(": ")", "[": "]", "{": "}"}, {")", "]", "}"}
_MAX_DEPTH = 8  # PTX nests two levels; damaged text must not recurse further


class OperandError(Exception):
    """These tokens are not an operand. The message says why."""


def parse_operands(text: str, tokens: Sequence[Token]) -> tuple[Operand, ...]:
    """All operands of one instruction. `text` is the text that the tokens come from."""
    return tuple(_parse_operand(text, part, 0) for part in _split(tokens, ",")) if tokens else ()


def _split(tokens: Sequence[Token], mark: str) -> list[Sequence[Token]]:
    """Split at every mark outside brackets."""
    parts, begin, closing = [], 0, []
    for i, token in enumerate(tokens):
        if token.kind != "mark":
            continue
        if token.text in _OPEN:
            closing.append(_OPEN[token.text])
            if len(closing) > _MAX_DEPTH:
                raise OperandError("brackets are nested too deeply")
        elif token.text in _CLOSE:
            if not closing or closing.pop() != token.text:
                raise OperandError(f"{token.text!r} has no opening bracket")
        elif token.text == mark and not closing:
            parts.append(tokens[begin:i])
            begin = i + 1
    if closing:
        raise OperandError(f"{closing[-1]!r} is missing")
    return [*parts, tokens[begin:]]


def _parse_operand(text: str, tokens: Sequence[Token], depth: int) -> Operand:
    if not tokens:
        raise OperandError("an operand is missing")
    source_text = text[tokens[0].start : tokens[-1].end]
    first, last = tokens[0], tokens[-1]
    if first.kind == "mark" and first.text in _OPEN and last.text == _OPEN[first.text]:
        inner = tokens[1:-1]
        if first.text == "[":
            return _parse_address(text, inner, source_text, depth)
        parts = tuple(_parse_operand(text, part, depth + 1) for part in _split(inner, ",")) if inner else ()
        return Operand("vector" if first.text == "{" else "group", source_text, parts=parts)
    halves = _split(tokens, "|")
    if len(halves) > 1:
        return Operand("pair", source_text, parts=tuple(_parse_operand(text, part, depth + 1) for part in halves))
    return _parse_single(tokens, source_text)


def _parse_single(tokens: Sequence[Token], source_text: str) -> Operand:
    negated = tokens[0].text in ("-", "!")
    rest = tokens[1:] if negated else tokens
    if len(rest) == 1 and rest[0].kind == "number":
        value = parse_number(rest[0].text)
        return Operand("immediate", source_text, value=-value if negated else value)
    if len(rest) == 1 and rest[0].kind == "word":
        name = rest[0].text
        return Operand("register" if name[0] == "%" else "symbol", source_text, name=name, negated=negated)
    if len(rest) == 3 and rest[1].text in "+-" and rest[0].kind == "word" and rest[2].kind == "number":
        value = parse_number(rest[2].text)
        return Operand("symbol", source_text, name=rest[0].text, value=-value if rest[1].text == "-" else value)
    raise OperandError(f"{source_text[:40]!r} is not an operand")


def _parse_address(text: str, tokens: Sequence[Token], source_text: str, depth: int) -> Operand:
    """`[base + offset]`, or a tensor's `[descriptor, {x, y}]`."""
    parts = _split(tokens, ",")
    base, offset = list(parts[0]), 0
    if len(base) >= 3 and base[-1].kind == "number" and base[-2].text in ("+", "-"):
        amount = parse_number(base[-1].text)
        offset = (-1 if base[-2].text == "-" else 1) * (amount if isinstance(amount, int) else 0)
        base = base[:-2]
        if base[-1].text == "+":  # [%r1 + -8] is written with both signs
            base = base[:-1]
    head = _parse_operand(text, base, depth + 1)
    rest = tuple(_parse_operand(text, part, depth + 1) for part in parts[1:])
    return Operand("address", source_text, name=head.name, value=offset, parts=(head, *rest))
