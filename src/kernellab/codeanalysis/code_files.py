"""A file of machine code opened: `.ptx`, `.cubin` or `.sass`, with the facts that can be had from it here."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

from kernellab.base.errors import UserError
from kernellab.codeanalysis.facts import Facts, facts, facts_of_ptx, facts_of_sass
from kernellab.machinecode.assembler import assemble
from kernellab.machinecode.cubin import disassemble
from kernellab.machinecode.instructions import Instruction, Problem, instructions
from kernellab.machinecode.ptx import PtxModule, parse_ptx
from kernellab.machinecode.sass import SassModule, parse_sass

SUFFIXES = (".ptx", ".cubin", ".sass")


@dataclass
class Listing:
    """What a file holds. `notes` say how it came about; `problems` what could not be read in the text itself."""

    name: str
    text: str  # PTX or SASS, as it is or disassembled
    facts: list[Facts]
    ptx: PtxModule | None = None
    sass: SassModule | None = None
    sass_text: str = ""
    notes: list[str] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)

    def code(self, kernel: str, kind: str) -> list[Instruction]:
        """A kernel's instructions as "ptx" or as "sass"; none where there is no such code."""
        if kind == "ptx":
            functions = self.ptx.functions if self.ptx is not None else []
            return next((instructions(one.body) for one in functions if one.name == kernel), [])
        parts = self.sass.functions if self.sass is not None else []
        return next((instructions(part.body) for part in parts if part.name == kernel), [])


def is_code(target: str) -> bool:
    """Whether a target names a file of machine code, not an op."""
    return target.endswith(SUFFIXES) or Path(target).suffix in (".fatbin", ".o", ".so")


def looks_like(path: Path) -> str:
    """The suffix a file of machine code would have, going by how it begins; empty where it is none."""
    try:
        with path.open("rb") as file:
            head = file.read(1 << 16)
    except OSError:
        return ""
    if head.startswith(b"\x7fELF"):
        return ".cubin"
    if re.search(rb"^\.version\s+\d", head, re.MULTILINE) and re.search(rb"^\.target\s+sm_", head, re.MULTILINE):
        return ".ptx"
    return ".sass" if re.search(rb"^\s*/\*[0-9a-f]{4,}\*/\s+\S.*;", head, re.MULTILINE) else ""


def open_code(path: Path) -> Listing:
    if path.suffix not in SUFFIXES:
        raise UserError(
            f"{path} cannot be read: only {', '.join(SUFFIXES)} can. "
            f"cuobjdump -xelf all {path.name} takes the cubins out of a fat binary, an object or a library"
        )
    try:
        data = path.read_bytes()
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror}") from None
    if path.suffix == ".cubin":
        try:
            return listing_of_cubin(path.name, data)
        except UserError as error:
            said = error.message.removeprefix(f"{path.name} ")
            raise UserError(f"{path}: {said}", error.detail) from None
    text = data.decode("utf-8", "replace")
    return listing_of_ptx(path.name, text) if path.suffix == ".ptx" else _of_sass(path.name, text)


def listing_of_cubin(name: str, cubin: bytes, ptx: str = "") -> Listing:
    text = disassemble(cubin)
    found = facts(cubin, ptx, disassembly=text)
    if not found:
        raise UserError(f"{name} holds no kernel")
    module = parse_sass(text)
    return Listing(name, text, found, parse_ptx(ptx) if ptx else None, module, text, [], module.problems)


def listing_of_ptx(name: str, text: str) -> Listing:
    """Assembled where an assembler knows its target, so that registers and SASS are known too."""
    module = parse_ptx(text)
    if not module.kernels:
        first = f" (line {module.problems[0].line}: {module.problems[0].what})" if module.problems else ""
        raise UserError(f"{name} holds no kernel: no .entry with a body was found in it{first}")
    found = Listing(name, text, [], module, problems=module.problems)
    try:
        built = assemble(text, module.target)
        found.sass_text = disassemble(built.cubin)
        found.facts = facts(built.cubin, text, spill_log=built.log, disassembly=found.sass_text)
    except UserError as error:
        found.facts = facts_of_ptx(module)
        found.notes.append(f"{error.message}: facts from the PTX alone, whose registers are virtual")
        found.notes += error.detail.splitlines()[:3]
    else:
        found.sass = parse_sass(found.sass_text)
        found.notes.append(f"assembled for {module.target} by {built.tool}; another release may give other code")
    return found


def _of_sass(name: str, text: str) -> Listing:
    module = parse_sass(text)
    found = facts_of_sass(module)
    if not found:
        raise UserError(f"{name} holds no SASS: expected what nvdisasm -c or cuobjdump -sass prints")
    notes = ["registers, shared memory and stack stand in the cubin, not in its disassembly"]
    return Listing(name, text, found, None, module, text, notes, module.problems)
