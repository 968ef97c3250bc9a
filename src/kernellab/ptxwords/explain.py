"""Explains PTX line by line: `explain_ptx`.

Each line gets a sentence that names its operands, its stage, and the line of the author's program it comes from. A line
that is not understood is marked as unknown.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from kernellab.machinecode.instructions import Directive, Guard, Instruction, Label, Source, instructions
from kernellab.machinecode.kernel_names import is_from_cuda_headers, short_name
from kernellab.machinecode.ptx import Param, PtxFunction, PtxModule, RegisterDeclaration, Variable
from kernellab.ptxwords import arithmetic, cooperation, memory
from kernellab.ptxwords.phrases import describe_type, join_names
from kernellab.ptxwords.registers import KernelContext, build_context
from kernellab.ptxwords.stages import find_stages

DESCRIBERS = arithmetic.DESCRIBERS | memory.DESCRIBERS | cooperation.DESCRIBERS
_WARP = 32
_HEADER_LINES = 200  # .version, .target and .address_size are within these
_DEBUG_LABELS = ("$L__tmp", "$L__func_")  # marks for debuggers, which no branch jumps to


@dataclass(frozen=True)
class ExplainedLine:
    """A line of PTX in words. `known` is False if the line is not understood."""

    line: int
    text: str
    words: str
    stage: str  # a key of `stages.STAGES`
    source_line: str | None = None
    known: bool = True
    kernel: str = ""


def explain_ptx(module: PtxModule) -> list[ExplainedLine]:
    """Every line of code and every declaration, in the order of the text, without debug sections and comments."""
    lines = _explain_header(module)
    for variable in module.variables:
        stage = "library" if is_from_cuda_headers(variable.name) else "entry"
        lines.append(ExplainedLine(variable.line, variable.text, _describe_variable(variable), stage))
    for function in module.functions:
        lines += _explain_function(function)
    return lines


def _describe_instruction(line: Instruction, context: KernelContext) -> str:
    """One instruction in words; empty if its opcode, or this form of it, is not known."""
    describe = DESCRIBERS.get(line.base)
    words = describe(line, context) if describe is not None else ""
    return f"{_describe_guard(line.guard)}{words}" if words else ""


def _describe_guard(guard: Guard | None) -> str:
    if guard is None:
        return ""
    return f"only where {guard.register} is {'false' if guard.negated else 'true'}: "


def _explain_header(module: PtxModule) -> list[ExplainedLine]:
    sentences = {
        ".version": f"written in PTX {module.version}: an older assembler or driver may reject it",
        ".target": f"for GPUs of architecture {module.target}{_describe_compatibility(module.target)}",
        ".address_size": f"addresses have {module.address_size} bits",
    }
    lines = []
    for number, line in enumerate(module.text.split("\n")[:_HEADER_LINES], 1):
        word = line.split()[0] if line.strip() else ""
        if word in sentences:
            lines.append(ExplainedLine(number, line.split("//")[0].strip(), sentences.pop(word), "entry"))
    return lines


def _describe_compatibility(target: str) -> str:
    if target.endswith("a"):
        return " only: the a allows instructions that other architectures may not have"
    if target.endswith("f"):
        return " and its family"
    return " and later"


def _describe_variable(variable: Variable) -> str:
    size = variable.count * max(1, _bits(variable.type) // 8)
    space = {
        "shared": "shared memory, one copy per block",
        "global": "global memory",
        "const": "constant memory",
        "local": "local memory, one copy per thread",
    }.get(variable.space, variable.space)
    if variable.space == "shared" and variable.count == 0:
        return f"{variable.name}: shared memory whose size is set by the launch"
    origin = ", from CUDA's headers" if is_from_cuda_headers(variable.name) else ""
    return f"{variable.name}: {size} byte{'' if size == 1 else 's'} of {space}{origin}"


def _bits(name: str) -> int:
    digits = "".join(c for c in name.partition("x")[0] if c.isdigit())
    return int(digits) if digits and len(digits) < 6 else 8


def _explain_function(function: PtxFunction) -> list[ExplainedLine]:
    context = build_context(function)
    kind = "a kernel, launched from the CPU" if function.is_kernel else "a function that kernels call"
    title = f"{short_name(function.name)} is {kind}"
    lines = [ExplainedLine(function.line, function.text, title, "entry", kernel=function.name)]
    lines += [
        ExplainedLine(param.line, param.text, _describe_parameter(param, context), "entry", kernel=function.name)
        for param in function.params
    ]
    for directive in function.directives:
        words = _describe_launch_limit(directive)
        lines.append(_explained(directive.line, directive.text, words, "entry", function.name, directive.name))
    code = instructions(function.body)
    stage_of = {id(line): stage for line, stage in zip(code, find_stages(code), strict=True)}
    declarations: dict[tuple[int, str], list[RegisterDeclaration | Variable]] = {}
    all_declarations: list[RegisterDeclaration | Variable] = [*function.variables, *function.registers]
    for declaration in all_declarations:
        declarations.setdefault((declaration.line, declaration.text), []).append(declaration)
    first = function.registers[0] if function.registers else None
    for line in function.body:
        if isinstance(line, Instruction):
            words, stage = _describe_instruction(line, context), stage_of[id(line)]
            lines.append(
                _explained(line.line, f"{line.text};", words, stage, function.name, line.opcode, _source(line.source))
            )
        elif isinstance(line, Label):
            if not line.name.startswith(_DEBUG_LABELS):
                words = "a label that branches jump to"
                lines.append(ExplainedLine(line.line, f"{line.name}:", words, "control", kernel=function.name))
        else:
            declared = declarations.get((line.line, line.text), [])
            stage, words = _describe_directive(line, declared, first)
            text = line.text if line.name in ("{", "}") else f"{line.text};"
            lines.append(_explained(line.line, text, words, stage, function.name, line.name))
    return lines


def _explained(
    number: int, text: str, words: str, stage: str, kernel: str, name: str, source_line: str | None = None
) -> ExplainedLine:
    """A line with its sentence. If `words` is empty, the sentence says that `name` is unknown."""
    sentence = words or f"unknown: kernellab has no explanation of {name}"
    return ExplainedLine(number, text, sentence, stage, source_line, bool(words), kernel)


def _source(source: Source | None) -> str | None:
    return source.name if source is not None and source.line else None


def _describe_parameter(param: Param, context: KernelContext) -> str:
    unread = "" if param.name in context.read else ", not read by this kernel"
    return f"parameter {context.positions[param.name]}: {_describe_parameter_type(param, context)}{unread}"


def _describe_parameter_type(param: Param, context: KernelContext) -> str:
    if param.count != 1:
        return f"{param.count * max(1, _bits(param.type) // 8)} bytes, a struct passed by value"
    if param.name in context.pointers:
        evidence = "" if param.pointer else " (it is used as an address)"
        space = f" to {param.space} memory" if param.space else ""
        return f"a pointer{space}{evidence}"
    if param.type[:1] == "f":
        return f"a number ({describe_type(param.type)})"
    # NVRTC declares 64-bit integers and pointers with the same type; nothing uses this one as an address.
    return f"an integer of {_bits(param.type)} bits"


def _describe_launch_limit(directive: Directive) -> str:
    """The sentence for a directive that limits the launch of a kernel; empty if the directive is unknown."""
    numbers = [int(word) for word in directive.words if word.isdigit() and len(word) < 12]
    if directive.name in (".reqntid", ".maxntid") and numbers:
        threads = math.prod(numbers[:3])
        verb = "must be launched with exactly" if directive.name == ".reqntid" else "may be launched with at most"
        return f"{verb} {threads} thread{'' if threads == 1 else 's'} per block: {_describe_warps(threads)}"
    if directive.name == ".minnctapersm" and numbers:
        fit = "1 block fits" if numbers[0] == 1 else f"{numbers[0]} blocks fit"
        return f"registers are limited so that {fit} on an SM at once"
    if directive.name == ".maxnreg" and numbers:
        return f"at most {numbers[0]} register{'' if numbers[0] == 1 else 's'} per thread"
    if directive.name == ".reqnctapercluster" and numbers:
        return f"blocks are launched in clusters of {' × '.join(map(str, numbers))}"
    if directive.name == ".maxclusterrank" and numbers:
        return f"at most {numbers[0]} block{'' if numbers[0] == 1 else 's'} in a cluster"
    return {
        ".explicitcluster": "blocks are launched in clusters",
        ".blocksareclusters": "the grid counts clusters, not blocks",
        ".noreturn": "does not return",
        ".pragma": f"a hint to the assembler: {' '.join(directive.words)}",
    }.get(directive.name, "")


def _describe_warps(threads: int) -> str:
    if threads % _WARP:
        return f"{threads / _WARP:.1f} warps of {_WARP}, the last one not full"
    return f"{threads // _WARP} warp{'' if threads == _WARP else 's'} × {_WARP}"


def _describe_directive(
    line: Directive, declared: list[RegisterDeclaration | Variable], first: RegisterDeclaration | None
) -> tuple[str, str]:
    """The stage of a directive and its sentence, which is empty if the directive is unknown."""
    if line.name == ".reg":
        registers = [declaration for declaration in declared if isinstance(declaration, RegisterDeclaration)]
        return "registers", _describe_registers(registers, first)
    if line.name in ("{", "}"):
        return "control", "begins a block with its own names" if line.name == "{" else "ends the block"
    if line.name == ".pragma":
        return "control", f"a hint to the assembler: {' '.join(line.words)}"
    if line.name == ".branchtargets":
        return "control", f"the labels that an indirect branch may jump to: {', '.join(line.words)}"
    if line.name == ".callprototype":
        return "control", "the parameters of a function called through a pointer"
    variables = [declaration for declaration in declared if isinstance(declaration, Variable)]
    return "registers", "; ".join(map(_describe_variable, variables))


def _describe_registers(declarations: list[RegisterDeclaration], first: RegisterDeclaration | None) -> str:
    """The registers that one `.reg` declares: a range `%r<9>`, or single names. Only the first explains "virtual"."""
    if not declarations:
        return ""
    total = sum(declaration.count for declaration in declarations)
    names = [f"{d.prefix}0…{d.prefix}{d.count - 1}" if d.count > 1 else d.prefix for d in declarations]
    note = ". How many physical registers the GPU needs is only in the cubin" if declarations[0] is first else ""
    registers = "a virtual register" if total == 1 else f"{total} virtual registers"
    return f"{registers} for {describe_type(declarations[0].type)}: {join_names(names)}{note}"
