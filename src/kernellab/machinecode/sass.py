"""Parses SASS, the GPU's own instructions, from the output of `nvdisasm` or `cuobjdump -sass`.

`parse_sass` accepts any text. Encodings and scheduling codes are skipped. Lines that cannot be parsed are listed as
problems; nothing is raised.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from kernellab.machinecode.instructions import Guard, Instruction, Label, Line, Operand, OperandKind, Problem, Source

_MAX_PROBLEMS = 100
_MAX_LINE_LENGTH = 4096  # an instruction has about a hundred characters
_MAX_OPERANDS = 64  # an instruction has about nine at most

# "/*0110*/  @P0 BRA `(.L_x_0) ;". Some tools print scheduling codes in brackets before it.
_INSTRUCTION = re.compile(r"\s*(?:\[[^\]]*\])?\s*/\*([0-9a-fA-F]{4,})\*/\s*([^;]*)(;?)")
_ENCODING = re.compile(r"\s*/\*\s*0x[0-9a-fA-F]+\s*\*/\s*$")
_LABEL = re.compile(r"\s*([.$\w]+):\s*$")
_SECTION = re.compile(r'\s*\.section\s+"?\.text\.([^\s,"]+)')
_FUNCTION = re.compile(r"\s*Function\s*:\s*(\S+)")
_ARCH = re.compile(r"(?:code for |\.target\s+)(sm_\d+[a-z]?)|EF_CUDA_SM(\d+)\b")
_SOURCE = re.compile(r'\s*//## File "([^"]*)", line (\d{1,9})')
# Some releases of nvdisasm print scheduling codes after the operands: "&req={0,1} &wr=0x2 ?trans5".
_SCHEDULING = re.compile(r"\s+[&?][A-Za-z][^;]*")
_GUARD = re.compile(r"@(!?)(U?P(?:T|\d{1,2}))\s+")
_OPCODE = re.compile(r"[A-Z][A-Z0-9_]*(?:\.[A-Za-z0-9_]+)*")
# All kinds of registers: general, uniform, predicate, uniform predicate, barrier, special.
_REGISTER = re.compile(r"(UR|UP|R|P|B|SB)(\d{1,3}|Z|T)\b|SR_[A-Za-z0-9_.]+|SRZ\b")
_NUMBER = re.compile(r"[-+]?(?:0x[0-9a-fA-F]{1,32}|\d{1,40}(?:\.\d{1,40})?(?:[eE][-+]?\d{1,4})?|INF|QNAN|SNAN)$")


@dataclass
class SassFunction:
    name: str
    line: int
    body: list[Line] = field(default_factory=list)


@dataclass
class SassModule:
    arch: str = ""
    functions: list[SassFunction] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)


def parse_sass(text: str) -> SassModule:
    """Parse a disassembly. Never raises: lines that cannot be parsed are listed in `problems`."""
    module = SassModule()
    current: SassFunction | None = None
    source: Source | None = None
    for number, line in enumerate(text.split("\n"), 1):
        if len(line) > _MAX_LINE_LENGTH:
            _add_problem(module, number, "the line is too long for an instruction")
        elif match := _INSTRUCTION.match(line):
            if current is None:
                current = SassFunction("", number)
                module.functions.append(current)
            _add_instruction(module, current, match, number, source)
        elif match := _SOURCE.match(line):
            # With inlining (-gi) the first line is the instruction's own; the outermost call comes last.
            if "inlined at" not in line or source is None:
                source = Source(match[1], int(match[2]))
        elif (match := _SECTION.match(line)) or (match := _FUNCTION.match(line)):
            current, source = SassFunction(match[1], number), None
            module.functions.append(current)
        elif match := _LABEL.match(line):
            if current is not None and match[1] not in (current.name, f".text.{current.name}"):
                current.body.append(Label(match[1], number))
        elif not module.arch and (match := _ARCH.search(line)):
            module.arch = match[1] or f"sm_{match[2]}{'a' if 'EF_CUDA_ACCELERATORS' in line else ''}"
        elif "/*" in line and not _ENCODING.match(line):
            _add_problem(module, number, f"{line.strip()[:60]!r} is not an instruction")
    return module


def _add_problem(module: SassModule, line: int, message: str) -> None:
    if len(module.problems) < _MAX_PROBLEMS:
        module.problems.append(Problem(line, message))


def _add_instruction(
    module: SassModule, function: SassFunction, match: re.Match[str], line: int, source: Source | None
) -> None:
    # Braces join two instructions that are issued together. Each has its own line.
    text = _SCHEDULING.sub("", match[2]).strip().strip("{}").strip()
    if not text:
        return
    guard = None
    rest = text
    if guarded := _GUARD.match(text):
        guard, rest = Guard(guarded[2], guarded[1] == "!"), text[guarded.end() :]
    opcode = _OPCODE.match(rest)
    if opcode is None:
        _add_problem(module, line, f"{text[:60]!r} has no opcode")
        return
    if not match[3]:
        _add_problem(module, line, f"{text[:60]!r} is truncated")
    parts = _split_operands(rest[opcode.end() :])
    if len(parts) > _MAX_OPERANDS:
        _add_problem(module, line, f"{text[:60]!r} has too many operands")
        parts = parts[:_MAX_OPERANDS]
    operands = tuple(_parse_operand(part) for part in parts if part)
    address = int(match[1][:16], 16)
    function.body.append(Instruction(opcode.group(), operands, guard, text, line, source, address))


def _split_operands(text: str) -> list[str]:
    """Split at the commas outside brackets."""
    parts, depth, begin = [], 0, 0
    for i, char in enumerate(text):
        if char in "[(":
            depth += 1
        elif char in "])":
            depth = max(0, depth - 1)
        elif char == "," and depth == 0:
            parts.append(text[begin:i].strip())
            begin = i + 1
    return [*parts, text[begin:].strip()]


def _parse_operand(text: str) -> Operand:
    bare = text.lstrip("!-~+|")
    negated = text[:1] in ("!", "-", "~")
    if text.startswith("`("):
        return Operand("symbol", text, name=text[2:].rstrip(")"))
    if _NUMBER.match(text):
        return Operand("immediate", text, value=_parse_number(text))
    if "[" in text:
        return _parse_address(text)
    register = _REGISTER.match(bare)
    if register is not None:
        return Operand("register", text, name=register.group(), negated=negated)
    kind: OperandKind = "symbol" if bare[:1] in (".", "$") or bare.isidentifier() else "other"
    return Operand(kind, text, name=bare)


def _parse_address(text: str) -> Operand:
    """`[R2.64+0x10]`, `desc[UR4][R2.64]`, `c[0x0][0x210]`."""
    registers = tuple(Operand("register", match.group(), name=match.group()) for match in _REGISTER.finditer(text))
    last = text.rpartition("[")[2].rstrip("]")
    offset = 0
    for part in last.replace("+", " ").replace("-", " -").split()[:8]:
        if _NUMBER.match(part):
            value = _parse_number(part)
            offset = int(value) if isinstance(value, int) else 0
    head = text.partition("[")[0]
    if head in ("c", "cx"):
        return Operand("address", text, name="c", value=offset, parts=registers)
    base = registers[-1].name if registers else ""
    return Operand("address", text, name=base, value=offset, parts=registers)


def _parse_number(text: str) -> int | float:
    digits = text.lstrip("+-")
    sign = -1 if text.startswith("-") else 1
    if digits.startswith("0x"):
        return sign * int(digits, 16)
    if digits.isdigit():
        return sign * int(digits)
    return sign * float(digits.replace("QNAN", "nan").replace("SNAN", "nan"))
