"""Sentences for arithmetic, comparisons, conversions, bit operations and moves of PTX."""

from __future__ import annotations

from collections.abc import Callable

from kernellab.machinecode.instructions import Instruction, Operand
from kernellab.ptxwords.phrases import (
    FLOATS,
    ROUNDING,
    SPECIAL,
    bits,
    describe_modifiers,
    describe_operand,
    describe_type,
    join_names,
    types,
)
from kernellab.ptxwords.registers import KernelContext

# Describes one instruction; empty if its form is not known.
Describer = Callable[[Instruction, KernelContext], str]

_COMPARISONS = {
    "eq": "equals",
    "ne": "differs from",
    "lt": "is less than",
    "le": "is at most",
    "gt": "is greater than",
    "ge": "is at least",
    "lo": "is less than",
    "ls": "is at most",
    "hi": "is greater than",
    "hs": "is at least",
}
_UNORDERED = {f"{name}u": verb for name, verb in _COMPARISONS.items() if name in ("eq", "ne", "lt", "le", "gt", "ge")}
_UNARY = {
    "ex2": "2 to the power of {a}",
    "lg2": "the logarithm to base 2 of {a}",
    "sin": "the sine of {a}",
    "cos": "the cosine of {a}",
    "tanh": "the hyperbolic tangent of {a}",
    "rcp": "1 / {a}",
    "sqrt": "the square root of {a}",
    "rsqrt": "1 / the square root of {a}",
    "abs": "the absolute value of {a}",
    "neg": "{a} with the opposite sign",
    "not": "{a} with every bit inverted",
    "cnot": "1 if {a} is 0, else 0",
    "popc": "the number of bits set in {a}",
    "clz": "the number of zero bits above the highest bit set in {a}",
    "brev": "the bits of {a} in reverse order",
}
_BINARY = {"add": "{a} + {b}", "sub": "{a} - {b}", "rem": "the remainder of {a} / {b}"}
_BITWISE = {"and": "and", "or": "or", "xor": "exclusive or"}


def _operands(line: Instruction, context: KernelContext, least: int) -> list[str] | None:
    """Result and operands in words; None if there are too few for the opcode."""
    return [describe_operand(o, context) for o in line.operands] if len(line.operands) >= least else None


def _type_note(line: Instruction) -> str:
    names = types(line)
    return f" ({describe_type(names[-1])}{describe_modifiers(line)})" if names else ""


def describe_unary(line: Instruction, context: KernelContext) -> str:
    ops = _operands(line, context, 2)
    if ops is None:
        return ""
    return f"computes {_UNARY[line.base].format(a=ops[1])} into {ops[0]}{_type_note(line)}"


def describe_find_bit(line: Instruction, context: KernelContext) -> str:
    ops = _operands(line, context, 2)
    if ops is None:
        return ""
    signed = types(line) and types(line)[-1][:1] == "s"
    bit = f"the highest bit of {ops[1]} that differs from its sign" if signed else f"the highest bit set in {ops[1]}"
    result = f"the left shift that makes {bit} the first bit" if line.has("shiftamt") else f"the position of {bit}"
    return f"computes {result} into {ops[0]}{_type_note(line)}; all ones if there is none"


def describe_binary(line: Instruction, context: KernelContext) -> str:
    ops = _operands(line, context, 3)
    if ops is None:
        return ""
    names = types(line)
    mixed = f"; {ops[1]} is {describe_type(names[1])}" if len(names) > 1 and names[0] != names[1] else ""
    note = f" ({describe_type(names[0])}{describe_modifiers(line)}{mixed})" if names else ""
    return f"computes {_BINARY[line.base].format(a=ops[1], b=ops[2])} into {ops[0]}{note}{_carry_note(line)}"


def _carry_note(line: Instruction) -> str:
    return ", and keeps the carry for the next instruction" if line.has("cc") else ""


def describe_carry(line: Instruction, context: KernelContext) -> str:
    ops = _operands(line, context, 3)
    if ops is None:
        return ""
    sign, carry = ("+", "carry") if line.base == "addc" else ("-", "borrow")
    sum_ = f"{ops[1]} {sign} {ops[2]} {sign} the {carry} of the previous instruction"
    return f"computes {sum_} into {ops[0]}{_type_note(line)}"


def describe_multiply(line: Instruction, context: KernelContext) -> str:
    ops = _operands(line, context, 3)
    return "" if ops is None else f"computes {ops[1]} × {ops[2]} into {ops[0]}{_product_note(line)}"


def describe_multiply_add(line: Instruction, context: KernelContext) -> str:
    ops = _operands(line, context, 4)
    if ops is None:
        return ""
    if line.base == "fma":
        return (
            f"computes {ops[1]} × {ops[2]} + {ops[3]} into {ops[0]} "
            f"({describe_type(types(line)[-1] if types(line) else '')}"
            f"{describe_modifiers(line).replace(', rounded ', ', rounded once, ', 1)})"
        )
    carry = " + the carry of the previous instruction" if line.base == "madc" else ""
    return f"computes {ops[1]} × {ops[2]} + {ops[3]}{carry} into {ops[0]}{_product_note(line)}{_carry_note(line)}"


def _product_note(line: Instruction) -> str:
    """Which bits of an integer product are kept: `lo` as many as the operands have, `wide` all of them."""
    names = types(line)
    name = names[-1] if names else ""
    if name in FLOATS or not name:
        return f" ({describe_type(name)}{describe_modifiers(line)})"
    if line.has("wide"):
        return f": {bits(name)}-bit operands, the whole {2 * bits(name)}-bit product (wide)"
    half = "high" if line.has("hi") else "low"
    if line.base in ("mul24", "mad24"):
        return f": the low 24 bits of both, the {half} 32 bits of the 48-bit product{describe_modifiers(line)}"
    suffix = "hi" if half == "high" else "lo"
    return f": the {half} {bits(name)} bits of the product ({suffix}){describe_modifiers(line)}"


def describe_divide(line: Instruction, context: KernelContext) -> str:
    ops = _operands(line, context, 3)
    if ops is None:
        return ""
    # PTX ISA, div: .full.f32 has an error of at most 2 units in the last place for all operands.
    error = ", with an error of at most 2 units in the last place" if line.has("full") else ""
    return f"computes {ops[1]} / {ops[2]} into {ops[0]}{_type_note(line)}{error}"


def describe_min_max(line: Instruction, context: KernelContext) -> str:
    ops = _operands(line, context, 3)
    if ops is None:
        return ""
    comparative, superlative = ("smaller", "smallest") if line.base == "min" else ("larger", "largest")
    adjective = superlative if len(ops) > 3 else comparative
    nan = ""
    if types(line) and types(line)[-1] in FLOATS:
        nan = "; NaN if any operand is NaN" if line.has("NaN") else "; NaN operands are ignored"
    if line.has("xorsign"):
        sign = "negative if exactly one of the two is"
        return f"puts the {adjective} of |{ops[1]}| and |{ops[2]}| into {ops[0]}, {sign}{_type_note(line)}{nan}"
    if line.has("abs"):
        ops[1:] = [f"|{operand}|" for operand in ops[1:]]
    return f"puts the {adjective} of {join_names(ops[1:])} into {ops[0]}{_type_note(line)}{nan}"


def describe_bitwise(line: Instruction, context: KernelContext) -> str:
    ops = _operands(line, context, 3)
    if ops is None:
        return ""
    if line.has("pred"):
        return f"sets {ops[0]} to {ops[1]} {_BITWISE[line.base]} {ops[2]}"
    mask = line.operands[2].value
    low = isinstance(mask, int) and mask > 0 and mask & (mask + 1) == 0
    note = f": the remainder of a division by {mask + 1}" if line.base == "and" and low and mask is not None else ""
    return f"computes the bitwise {_BITWISE[line.base]} of {ops[1]} and {ops[2]} into {ops[0]}{note}"


def describe_shift(line: Instruction, context: KernelContext) -> str:
    ops = _operands(line, context, 3)
    if ops is None:
        return ""
    amount = line.operands[2].value
    factor = 1 << amount if isinstance(amount, int) and 0 <= amount < 63 else None
    distance = "1 bit" if ops[2] == "1" else f"{ops[2]} bits"
    if line.base == "shl":
        return f"shifts {ops[1]} left by {distance} into {ops[0]}" + (f": × {factor}" if factor else "")
    signed = bool(types(line)) and types(line)[-1][:1] == "s"
    fill = "copying the sign bit" if signed else "filling with zeros"
    divided = f": / {factor}" if factor and not signed else ""
    return f"shifts {ops[1]} right by {distance} into {ops[0]}, {fill}{divided}"


def describe_funnel_shift(line: Instruction, context: KernelContext) -> str:
    ops = _operands(line, context, 4)
    if ops is None:
        return ""
    direction, half = ("left", "upper") if line.has("l") else ("right", "lower")
    return f"shifts the 64 bits of {ops[2]} and {ops[1]} {direction} by {ops[3]} and keeps the {half} 32 in {ops[0]}"


def describe_bit_field(line: Instruction, context: KernelContext) -> str:
    ops = _operands(line, context, 4)
    if ops is None:
        return ""
    if line.base == "bfi":
        if len(ops) < 5:
            return ""
        return f"inserts the low {ops[4]} bits of {ops[1]} into {ops[2]} at bit {ops[3]}, result in {ops[0]}"
    extended = ", sign-extended" if types(line) and types(line)[-1][:1] == "s" else ""
    length = "1 bit" if ops[3] == "1" else f"{ops[3]} bits"
    return f"extracts {length} of {ops[1]}, starting at bit {ops[2]}, into {ops[0]}{extended}"


def describe_logic3(line: Instruction, context: KernelContext) -> str:
    ops = _operands(line, context, 5)
    if ops is None:
        return ""
    table = line.operands[-1].text
    return f"combines the bits of {join_names(ops[1:4])} into {ops[0]} by the truth table {table}"


def describe_permute(line: Instruction, context: KernelContext) -> str:
    ops = _operands(line, context, 4)
    if ops is None:
        return ""
    selector = line.operands[3].value
    if isinstance(selector, int) and selector >= 0 and len(line.modifiers) == 1:
        chosen = ", ".join(str(selector >> 4 * i & 7) for i in range(4))
        return f"builds {ops[0]} from bytes {chosen}, lowest first, where 0–3 are {ops[1]}'s and 4–7 {ops[2]}'s"
    return f"builds {ops[0]} from four bytes of {ops[1]} and {ops[2]} selected by {ops[3]}"


def describe_select(line: Instruction, context: KernelContext) -> str:
    ops = _operands(line, context, 4)
    if ops is None:
        return ""
    test = f"{ops[3]} is true" if line.base == "selp" else f"{ops[3]} is not negative"
    return f"puts {ops[1]} into {ops[0]} where {test}, else {ops[2]}"


def describe_compare(line: Instruction, context: KernelContext) -> str:
    ops = _operands(line, context, 3)
    comparison = next((m for m in line.modifiers if m in _COMPARISONS or m in _UNORDERED or m in ("num", "nan")), None)
    if ops is None or comparison is None:
        return ""
    a, b = ops[1], ops[2]
    if comparison in ("num", "nan"):
        test = f"neither {a} nor {b} is NaN" if comparison == "num" else f"{a} or {b} is NaN"
    else:
        test = f"{a} {_COMPARISONS.get(comparison) or _UNORDERED[comparison]} {b}"
        test += ", or either is NaN" if comparison in _UNORDERED else ""
    logical = next((m for m in line.modifiers if m in _BITWISE), None)
    combined = f", {_BITWISE[logical]} {ops[3]}" if logical and len(ops) > 3 else ""
    target = line.operands[0]
    kind = describe_type(types(line)[-1]) if types(line) else "values"
    if line.base == "set":
        return f"puts all ones (or 1.0) into {ops[0]} where {test}{combined}, else 0 ({kind})"
    if target.kind == "pair" and len(target.parts) > 1:
        first, second = target.parts[0].text, target.parts[1].text
        opposite = f"whether the comparison fails{combined}" if combined else "the opposite"
        return f"sets {first} to whether {test}{combined}, and {second} to {opposite} ({kind})"
    return f"sets {ops[0]} to whether {test}{combined} ({kind})"


def describe_convert(line: Instruction, context: KernelContext) -> str:
    ops = _operands(line, context, 2)
    names = types(line)
    if ops is None or len(names) < 2:
        return ""
    to, source = names[0], names[-1]
    if len(line.operands) > 2 and "x2" in to:
        each = describe_type(to).removeprefix("pairs of ")
        return (
            f"converts {ops[1]} and {ops[2]} from {describe_type(source)} to {each}{describe_modifiers(line)}, "
            f"and packs them into {ops[0]}: {ops[1]} in the upper half, {ops[2]} in the lower"
        )
    head = f"converts {ops[1]} from {describe_type(source)} to {describe_type(to)}"
    if to in FLOATS or source in FLOATS:
        rounding = next((m for m in line.modifiers if m in ("rni", "rzi", "rmi", "rpi")), None)
        if rounding and to == source:
            return f"rounds {ops[1]} {ROUNDING[rounding]} into {ops[0]} ({describe_type(to)})"
        exact = ", exactly" if to in FLOATS and source in FLOATS and bits(to) > bits(source) else ""
        finite = ", with the largest finite number instead of infinity" if line.has("satfinite") else ""
        return f"{head} in {ops[0]}{exact}{describe_modifiers(line)}{finite}"
    if line.has("sat"):
        return f"{head} in {ops[0]}{describe_modifiers(line)}"
    if bits(to) > bits(source):
        extended = "sign-extended" if source[:1] == "s" else "zero-extended"
        return f"widens {ops[1]} from {bits(source)} to {bits(to)} bits into {ops[0]}, {extended}"
    if bits(to) < bits(source):
        return f"keeps the low {bits(to)} bits of {ops[1]} in {ops[0]}"
    return f"{head} in {ops[0]}: the same bits{describe_modifiers(line)}"


def describe_move(line: Instruction, context: KernelContext) -> str:
    if len(line.operands) < 2:
        return ""
    to, source = line.operands[:2]
    if to.kind == "vector":
        parts = join_names([part.text for part in to.parts])
        return f"splits {describe_operand(source, context)} into {parts}, lowest bits first"
    if source.kind == "vector":
        return f"packs {join_names([part.text for part in source.parts])} into {to.text}, lowest bits first"
    if source.kind == "register" and source.name in SPECIAL:
        return f"reads {SPECIAL[source.name]}, into {to.text}"
    if source.kind == "register" and source.name.startswith("%") and _is_special(source):
        return f"reads the special register {source.name} into {to.text}"
    if source.kind == "immediate":
        return f"puts {describe_operand(source, context)} into {to.text}"
    if source.kind == "symbol" and line.has("pred"):
        return f"puts {source.text} into {to.text}"
    if source.kind == "symbol" and not line.has("b32", "b64", "u32", "u64"):
        return f"copies {source.text} into {to.text}"
    if source.kind == "symbol":
        return f"puts the address of {source.text} into {to.text}"
    return f"copies {describe_operand(source, context)} into {to.text}"


def _is_special(operand: Operand) -> bool:
    return not operand.name[-1:].isdigit() or operand.name.startswith(("%pm", "%envreg"))


def describe_dot(line: Instruction, context: KernelContext) -> str:
    ops = _operands(line, context, 4)
    if ops is None:
        return ""
    pairs = "four pairs of bytes" if line.base == "dp4a" else "two pairs of numbers"
    return f"multiplies {pairs} of {ops[1]} and {ops[2]}, adds the products and {ops[3]} into {ops[0]}"


def describe_difference(line: Instruction, context: KernelContext) -> str:
    ops = _operands(line, context, 4)
    return "" if ops is None else f"computes |{ops[1]} - {ops[2]}| + {ops[3]} into {ops[0]}{_type_note(line)}"


def describe_test(line: Instruction, context: KernelContext) -> str:
    ops = _operands(line, context, 2)
    property_ = line.modifiers[0] if line.modifiers else ""
    return "" if ops is None else f"sets {ops[0]} to whether {ops[1]} is {property_}"


def describe_copysign(line: Instruction, context: KernelContext) -> str:
    ops = _operands(line, context, 3)
    return "" if ops is None else f"puts {ops[2]} with the sign of {ops[1]} into {ops[0]}{_type_note(line)}"


DESCRIBERS: dict[str, Describer] = {
    **dict.fromkeys(_UNARY, describe_unary),
    **dict.fromkeys(_BINARY, describe_binary),
    **dict.fromkeys(_BITWISE, describe_bitwise),
    **dict.fromkeys(("addc", "subc"), describe_carry),
    **dict.fromkeys(("mul", "mul24"), describe_multiply),
    **dict.fromkeys(("mad", "madc", "fma", "mad24"), describe_multiply_add),
    **dict.fromkeys(("min", "max"), describe_min_max),
    **dict.fromkeys(("shl", "shr"), describe_shift),
    **dict.fromkeys(("bfe", "bfi"), describe_bit_field),
    **dict.fromkeys(("selp", "slct"), describe_select),
    **dict.fromkeys(("setp", "set"), describe_compare),
    **dict.fromkeys(("dp4a", "dp2a"), describe_dot),
    "bfind": describe_find_bit,
    "div": describe_divide,
    "shf": describe_funnel_shift,
    "lop3": describe_logic3,
    "prmt": describe_permute,
    "cvt": describe_convert,
    "mov": describe_move,
    "sad": describe_difference,
    "testp": describe_test,
    "copysign": describe_copysign,
}
