"""Opens a file of machine code: `.ptx`, `.cubin` or `.sass`, with the facts that this machine's tools can extract."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

from kernellab.base.errors import UserError
from kernellab.codeanalysis.facts import KernelFacts, facts_from_cubin, facts_from_ptx, facts_from_sass
from kernellab.machinecode.assembler import assemble
from kernellab.machinecode.cubin import disassemble
from kernellab.machinecode.instructions import Instruction, Problem, instructions
from kernellab.machinecode.ptx import PtxModule, parse_ptx
from kernellab.machinecode.sass import SassModule, parse_sass

SUFFIXES = (".ptx", ".cubin", ".sass")


@dataclass
class Listing:
    """The contents of a file. `notes` say how the facts were obtained; `problems` list lines that were not parsed."""

    name: str
    text: str  # PTX or SASS: the file's own text, or the disassembly of a cubin
    facts: list[KernelFacts]
    ptx: PtxModule | None = None
    sass: SassModule | None = None
    sass_text: str = ""
    notes: list[str] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)

    def code(self, kernel: str, level: str) -> list[Instruction]:
        """A kernel's instructions as "ptx" or "sass"; empty if the file has no such code."""
        if level == "ptx":
            functions = self.ptx.functions if self.ptx is not None else []
            return next((instructions(function.body) for function in functions if function.name == kernel), [])
        sass_functions = self.sass.functions if self.sass is not None else []
        return next((instructions(function.body) for function in sass_functions if function.name == kernel), [])


def is_code_file(target: str) -> bool:
    """Whether a target names a file of machine code, not an op."""
    return target.endswith(SUFFIXES) or Path(target).suffix in (".fatbin", ".o", ".so")


def guess_suffix(path: Path) -> str:
    """The suffix that fits a file's first bytes; empty if it is not machine code."""
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


def read_code_file(path: Path) -> Listing:
    if path.suffix not in SUFFIXES:
        raise UserError(
            f"{path} cannot be read: klab inspect reads {', '.join(SUFFIXES)}. "
            f"cuobjdump -xelf all {path.name} extracts the cubins of a fat binary, an object or a library"
        )
    try:
        data = path.read_bytes()
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror}") from None
    if path.suffix == ".cubin":
        try:
            return listing_from_cubin(path.name, data)
        except UserError as error:
            message = error.message.removeprefix(f"{path.name} ")
            raise UserError(f"{path}: {message}", error.detail) from None
    text = data.decode("utf-8", "replace")
    return listing_from_ptx(path.name, text) if path.suffix == ".ptx" else _listing_from_sass(path.name, text)


def listing_from_cubin(name: str, cubin: bytes, ptx: str = "") -> Listing:
    text = disassemble(cubin)
    facts = facts_from_cubin(cubin, ptx, disassembly=text)
    if not facts:
        raise UserError(f"{name} contains no kernel")
    module = parse_sass(text)
    return Listing(name, text, facts, parse_ptx(ptx) if ptx else None, module, text, [], module.problems)


def listing_from_ptx(name: str, text: str) -> Listing:
    """The listing of a PTX file. If a ptxas supports its target, the PTX is assembled to get registers and SASS too."""
    module = parse_ptx(text)
    if not module.kernels:
        problem = f" (line {module.problems[0].line}: {module.problems[0].message})" if module.problems else ""
        raise UserError(f"{name} contains no kernel: it has no .entry with a body{problem}")
    try:
        assembled = assemble(text, module.target)
        sass_text = disassemble(assembled.cubin)
        facts = facts_from_cubin(assembled.cubin, text, ptxas_log=assembled.log, disassembly=sass_text)
    except UserError as error:
        note = f"{error.message}: the facts are from the PTX alone, where registers are virtual"
        return Listing(
            name,
            text,
            facts_from_ptx(module),
            module,
            notes=[note, *error.detail.splitlines()[:3]],
            problems=module.problems,
        )
    return Listing(
        name,
        text,
        facts,
        module,
        parse_sass(sass_text),
        sass_text,
        [f"assembled for {module.target} by {assembled.tool}; another release may produce different code"],
        module.problems,
    )


def _listing_from_sass(name: str, text: str) -> Listing:
    module = parse_sass(text)
    facts = facts_from_sass(module)
    if not facts:
        raise UserError(f"{name} contains no SASS: expected the output of nvdisasm -c or cuobjdump -sass")
    notes = ["a disassembly does not contain registers, shared memory and stack; the cubin does"]
    return Listing(name, text, facts, None, module, text, notes, module.problems)
