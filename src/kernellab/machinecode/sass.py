"""SASS, the GPU's own instructions, as `nvdisasm` and `cuobjdump -sass` print them: `parse_sass` reads any text.

Encodings and scheduling codes are passed over. What cannot be read is listed, not raised.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from kernellab.machinecode.instructions import Guard, Instruction, Kind, Label, Line, Operand, Problem, Source

_MOST_PROBLEMS = 100
_LONGEST = 4096  # characters of one line; an instruction has a hundred
_MOST_OPERANDS = 64  # an instruction has at most nine or so

# "/*0110*/  @P0 BRA `(.L_x_0) ;", with a bracket of scheduling codes before it in some tools' output.
_INSTRUCTION = re.compile(r"\s*(?:\[[^\]]*\])?\s*/\*([0-9a-fA-F]{4,})\*/\s*([^;]*)(;?)")
_ENCODING = re.compile(r"\s*/\*\s*0x[0-9a-fA-F]+\s*\*/\s*$")
_LABEL = re.compile(r"\s*([.$\w]+):\s*$")
_SECTION = re.compile(r'\s*\.section\s+"?\.text\.([^\s,"]+)')
_FUNCTION = re.compile(r"\s*Function\s*:\s*(\S+)")
_ARCH = re.compile(r"(?:code for |\.target\s+)(sm_\d+[a-z]?)|EF_CUDA_SM(\d+)\b")
_SOURCE = re.compile(r'\s*//## File "([^"]*)", line (\d{1,9})')
# Some releases of nvdisasm write scheduling after the operands: "&req={0,1} &wr=0x2 ?trans5".
_SCHEDULING = re.compile(r"\s+[&?][A-Za-z][^;]*")
_GUARD = re.compile(r"@(!?)(U?P(?:T|\d{1,2}))\s+")
_OPCODE = re.compile(r"[A-Z][A-Z0-9_]*(?:\.[A-Za-z0-9_]+)*")
# Registers of all kinds: general, uniform, predicate, uniform predicate, barrier, special.
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
    """Read a disassembly. Never raises: what cannot be read is listed in `problems`."""
    module = SassModule()
    current: SassFunction | None = None
    source: Source | None = None
    for number, line in enumerate(text.split("\n"), 1):
        if len(line) > _LONGEST:
            _problem(module, number, "the line is too long for an instruction")
        elif found := _INSTRUCTION.match(line):
            if current is None:
                current = SassFunction("", number)
                module.functions.append(current)
            _add(module, current, found, number, source)
        elif found := _SOURCE.match(line):
            # With inlining told (-gi) the outermost call comes last; the first line is the instruction's own.
            if "inlined at" not in line or source is None:
                source = Source(found[1], int(found[2]))
        elif (found := _SECTION.match(line)) or (found := _FUNCTION.match(line)):
            current, source = SassFunction(found[1], number), None
            module.functions.append(current)
        elif found := _LABEL.match(line):
            if current is not None and found[1] not in (current.name, f".text.{current.name}"):
                current.body.append(Label(found[1], number))
        elif not module.arch and (found := _ARCH.search(line)):
            module.arch = found[1] or f"sm_{found[2]}{'a' if 'EF_CUDA_ACCELERATORS' in line else ''}"
        elif "/*" in line and not _ENCODING.match(line):
            _problem(module, number, f"{line.strip()[:60]!r} is no instruction")
    return module


def _problem(module: SassModule, line: int, what: str) -> None:
    if len(module.problems) < _MOST_PROBLEMS:
        module.problems.append(Problem(line, what))


def _add(module: SassModule, function: SassFunction, found: re.Match[str], line: int, source: Source | None) -> None:
    # Braces join two instructions issued together; each has its own line.
    text = _SCHEDULING.sub("", found[2]).strip().strip("{}").strip()
    if not text:
        return
    guard = None
    rest = text
    if guarded := _GUARD.match(text):
        guard, rest = Guard(guarded[2], guarded[1] == "!"), text[guarded.end() :]
    opcode = _OPCODE.match(rest)
    if opcode is None:
        _problem(module, line, f"{text[:60]!r} has no opcode")
        return
    if not found[3]:
        _problem(module, line, f"{text[:60]!r} is cut off")
    parts = _split(rest[opcode.end() :])
    if len(parts) > _MOST_OPERANDS:
        _problem(module, line, f"{text[:60]!r} has too many operands")
        parts = parts[:_MOST_OPERANDS]
    operands = tuple(_operand(part) for part in parts if part)
    address = int(found[1][:16], 16)
    function.body.append(Instruction(opcode.group(), operands, guard, text, line, source, address))


def _split(text: str) -> list[str]:
    """At commas, and at the blanks that stand for commas after a leading predicate, outside brackets."""
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


def _operand(text: str) -> Operand:
    bare = text.lstrip("!-~+|")
    negated = text[:1] in ("!", "-", "~")
    if text.startswith("`("):
        return Operand("symbol", text, name=text[2:].rstrip(")"))
    if _NUMBER.match(text):
        return Operand("immediate", text, value=_number(text))
    if "[" in text:
        return _bracketed(text)
    register = _REGISTER.match(bare)
    if register is not None:
        return Operand("register", text, name=register.group(), negated=negated)
    kind: Kind = "symbol" if bare[:1] in (".", "$") or bare.isidentifier() else "other"
    return Operand(kind, text, name=bare)


def _bracketed(text: str) -> Operand:
    """`[R2.64+0x10]`, `desc[UR4][R2.64]`, `c[0x0][0x210]`."""
    registers = tuple(Operand("register", found.group(), name=found.group()) for found in _REGISTER.finditer(text))
    last = text.rpartition("[")[2].rstrip("]")
    offset = 0
    for part in last.replace("+", " ").replace("-", " -").split()[:8]:
        if _NUMBER.match(part):
            value = _number(part)
            offset = int(value) if isinstance(value, int) else 0
    head = text.partition("[")[0]
    if head in ("c", "cx"):
        return Operand("address", text, name="c", value=offset, parts=registers)
    base = registers[-1].name if registers else ""
    return Operand("address", text, name=base, value=offset, parts=registers)


def _number(text: str) -> int | float:
    digits = text.lstrip("+-")
    sign = -1 if text.startswith("-") else 1
    if digits.startswith("0x"):
        return sign * int(digits, 16)
    if digits.isdigit():
        return sign * int(digits)
    return sign * float(digits.replace("QNAN", "nan").replace("SNAN", "nan"))
