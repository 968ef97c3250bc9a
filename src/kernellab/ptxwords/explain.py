"""PTX explained line by line, for someone who has never read any: `explain_ptx`.

Each line in words that name its own operands, its stage, and the line of the author's program it came from.
What is not understood is said to be unknown.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from kernellab.machinecode.instructions import Directive, Guard, Instruction, Label, Source, instructions
from kernellab.machinecode.kernel_names import is_from_cuda_headers, short_name
from kernellab.machinecode.ptx import Entry, Param, PtxModule, Registers, Variable
from kernellab.ptxwords import arithmetic as words_arithmetic
from kernellab.ptxwords import cooperation as words_together
from kernellab.ptxwords import memory as words_memory
from kernellab.ptxwords.phrases import listed, type_words
from kernellab.ptxwords.registers import Known, know
from kernellab.ptxwords.stages import stages

WORDS = words_arithmetic.WORDS | words_memory.WORDS | words_together.WORDS
_WARP = 32
_DEBUG_LABELS = ("$L__tmp", "$L__func_")  # marks in the text for debuggers, which nothing branches to


@dataclass(frozen=True)
class Explained:
    """A line of PTX in words. `known` is False where the opcode is not."""

    line: int
    text: str
    words: str
    stage: str  # a key of `stages.STAGES`
    source_line: str | None = None
    known: bool = True
    kernel: str = ""


def explain_ptx(module: PtxModule) -> list[Explained]:
    """Every line of code and declaration, in the order of the text. Debug sections and comments are left out."""
    found = _header(module)
    for variable in module.variables:
        stage = "library" if is_from_cuda_headers(variable.name) else "entry"
        found.append(Explained(variable.line, variable.text, _declared(variable), stage))
    for entry in module.functions:
        found += _function(entry)
    return found


def explain(line: Instruction, known: Known) -> str:
    """One instruction in words; empty where its opcode, or this form of it, is not known."""
    say = WORDS.get(line.base)
    said = say(line, known) if say is not None else ""
    return f"{_condition(line.guard)}{said}" if said else ""


def _condition(guard: Guard | None) -> str:
    if guard is None:
        return ""
    return f"only where {guard.register} is {'false' if guard.negated else 'true'}: "


def _header(module: PtxModule) -> list[Explained]:
    lines = module.text.split("\n")
    found = []
    said = {
        ".version": f"written in PTX {module.version}: an older assembler or driver may refuse it",
        ".target": f"for GPUs of architecture {module.target}{_alone(module.target)}",
        ".address_size": f"addresses have {module.address_size} bits",
    }
    for number, line in enumerate(lines[:200], 1):
        word = line.split()[0] if line.strip() else ""
        if word in said:
            found.append(Explained(number, line.split("//")[0].strip(), said.pop(word), "entry"))
    return found


def _alone(target: str) -> str:
    if target.endswith("a"):
        return ", and no other: the a allows instructions that later ones need not have"
    if target.endswith("f"):
        return " and its family"
    return " and later"


def _declared(variable: Variable) -> str:
    size = variable.count * max(1, _bits(variable.type) // 8)
    where = {
        "shared": "shared memory, one copy per block",
        "global": "global memory",
        "const": "constant memory",
        "local": "local memory, one copy per thread",
    }.get(variable.space, variable.space)
    if variable.space == "shared" and variable.count == 0:
        return f"{variable.name}: shared memory whose size the launch decides"
    whose = ", of CUDA's own headers" if is_from_cuda_headers(variable.name) else ""
    return f"{variable.name}: {size} byte{'' if size == 1 else 's'} of {where}{whose}"


def _bits(name: str) -> int:
    digits = "".join(c for c in name.partition("x")[0] if c.isdigit())
    return int(digits) if digits and len(digits) < 6 else 8


def _function(entry: Entry) -> list[Explained]:
    known = know(entry)
    kind = "a kernel, launched from the CPU" if entry.kernel else "a function that kernels call"
    found = [Explained(entry.line, entry.text, f"{short_name(entry.name)} is {kind}", "entry", kernel=entry.name)]
    found += [
        Explained(param.line, param.text, _parameter(param, known), "entry", kernel=entry.name)
        for param in entry.params
    ]
    for one in entry.directives:
        said = _limit(one)
        words = said or f"unknown: {one.name} is not explained here"
        found.append(Explained(one.line, one.text, words, "entry", known=bool(said), kernel=entry.name))
    code = instructions(entry.body)
    stage_of = {id(line): stage for line, stage in zip(code, stages(code), strict=True)}
    declared: dict[tuple[int, str], list[Registers | Variable]] = {}
    things: list[Registers | Variable] = [*entry.variables, *entry.registers]
    for thing in things:
        declared.setdefault((thing.line, thing.text), []).append(thing)
    first = entry.registers[0] if entry.registers else None
    for line in entry.body:
        if isinstance(line, Instruction):
            said = explain(line, known)
            found.append(
                Explained(
                    line.line,
                    f"{line.text};",
                    said or f"unknown: {line.opcode} is not explained here",
                    stage_of[id(line)],
                    _source(line.source),
                    bool(said),
                    entry.name,
                )
            )
        elif isinstance(line, Label):
            if not line.name.startswith(_DEBUG_LABELS):
                words = "a place that branches lead to"
                found.append(Explained(line.line, f"{line.name}:", words, "control", kernel=entry.name))
        else:
            found.append(_directive(line, declared.get((line.line, line.text), []), entry.name, first))
    return found


def _source(source: Source | None) -> str | None:
    return source.name if source is not None and source.line else None


def _parameter(param: Param, known: Known) -> str:
    order = known.order[param.name]
    unread = "" if param.name in known.read else ", never read here"
    return f"parameter {order}: {_kind(param, known)}{unread}"


def _kind(param: Param, known: Known) -> str:
    if param.count != 1:
        return f"{param.count * max(1, _bits(param.type) // 8)} bytes, a struct passed by value"
    if param.name in known.pointers:
        how = "" if param.pointer else " (it is used as an address)"
        space = f" to {param.space} memory" if param.space else ""
        return f"a pointer{space}{how}"
    if param.type[:1] == "f":
        return f"a number ({type_words(param.type)})"
    # NVRTC declares a 64-bit integer and a pointer alike; nothing uses this one as an address.
    return f"an integer of {_bits(param.type)} bits"


def _limit(one: Directive) -> str:
    """What a kernel demands of its launch."""
    numbers = [int(word) for word in one.words if word.isdigit() and len(word) < 12]
    if one.name in (".reqntid", ".maxntid") and numbers:
        threads = math.prod(numbers[:3])
        must = "must be launched with exactly" if one.name == ".reqntid" else "may be launched with at most"
        return f"{must} {threads} thread{'' if threads == 1 else 's'} per block: {_warps(threads)}"
    if one.name == ".minnctapersm" and numbers:
        fit = "1 block fits" if numbers[0] == 1 else f"{numbers[0]} blocks fit"
        return f"registers are limited so that {fit} on an SM at once"
    if one.name == ".maxnreg" and numbers:
        return f"at most {numbers[0]} register{'' if numbers[0] == 1 else 's'} per thread"
    if one.name == ".reqnctapercluster" and numbers:
        return f"blocks come in clusters of {' × '.join(map(str, numbers))}"
    if one.name == ".maxclusterrank" and numbers:
        return f"at most {numbers[0]} block{'' if numbers[0] == 1 else 's'} in a cluster"
    return {
        ".explicitcluster": "blocks are launched in clusters",
        ".blocksareclusters": "the grid counts clusters, not blocks",
        ".noreturn": "does not return",
        ".pragma": f"a hint to the assembler: {' '.join(one.words)}",
    }.get(one.name, "")


def _warps(threads: int) -> str:
    if threads % _WARP:
        return f"{threads / _WARP:.1f} warps of {_WARP}, the last of them not full"
    return f"{threads // _WARP} warp{'' if threads == _WARP else 's'} × {_WARP}"


def _directive(
    line: Directive, declared: list[Registers | Variable], kernel: str, first: Registers | None
) -> Explained:
    stage, said = "control", ""
    if line.name == ".reg":
        stage, said = "registers", _registers([one for one in declared if isinstance(one, Registers)], first)
    elif line.name in ("{", "}"):
        said = "begins a block with names of its own" if line.name == "{" else "ends the block"
    elif line.name == ".pragma":
        said = f"a hint to the assembler: {' '.join(line.words)}"
    elif line.name == ".branchtargets":
        said = f"the places an indirect branch may lead to: {', '.join(line.words)}"
    elif line.name == ".callprototype":
        said = "the parameters of a function called through a pointer"
    else:
        stage = "registers"
        said = "; ".join(_declared(one) for one in declared if isinstance(one, Variable))
    known = bool(said)
    return Explained(
        line.line,
        f"{line.text}" if line.name in ("{", "}") else f"{line.text};",
        said or f"unknown: {line.name} is not explained here",
        stage,
        None,
        known,
        kernel,
    )


def _registers(found: list[Registers], first: Registers | None) -> str:
    """What one `.reg` declares: a range `%r<9>`, or names one by one."""
    if not found:
        return ""
    many = sum(one.count for one in found)
    names = [f"{one.prefix}0…{one.prefix}{one.count - 1}" if one.count > 1 else one.prefix for one in found]
    virtual = "virtual: how many registers the GPU really uses stands in the cubin" if found[0] is first else "virtual"
    return f"{f'{many} names' if many > 1 else 'a name'} for {type_words(found[0].type)}, {listed(names)} ({virtual})"
