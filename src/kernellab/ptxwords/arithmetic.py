"""Arithmetic, comparisons, conversions, bits and copies of PTX, in words."""

from __future__ import annotations

from collections.abc import Callable

from kernellab.machinecode.instructions import Instruction, Operand
from kernellab.ptxwords.phrases import (
    FLOATS,
    ROUNDING,
    SPECIAL,
    bits,
    listed,
    precision,
    show,
    type_words,
    types,
)
from kernellab.ptxwords.registers import Known

Words = Callable[[Instruction, Known], str]
_COMPARED = {
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
_UNORDERED = {f"{name}u": said for name, said in _COMPARED.items() if name in ("eq", "ne", "lt", "le", "gt", "ge")}
_FUNCTIONS = {
    "ex2": "2 to the power of {a}",
    "lg2": "the logarithm to base 2 of {a}",
    "sin": "the sine of {a}",
    "cos": "the cosine of {a}",
    "tanh": "the hyperbolic tangent of {a}",
    "rcp": "1 / {a}",
    "sqrt": "the square root of {a}",
    "rsqrt": "1 / the square root of {a}",
    "abs": "{a} without its sign",
    "neg": "{a} with its sign turned",
    "not": "{a} with every bit turned",
    "cnot": "1 if {a} is 0, else 0",
    "popc": "the number of bits set in {a}",
    "clz": "the number of zeros before the first bit set in {a}",
    "brev": "the bits of {a} in reverse order",
}
_JOINED = {"add": "{a} + {b}", "sub": "{a} - {b}", "rem": "the remainder of {a} / {b}"}
_BITWISE = {"and": "and", "or": "or", "xor": "exclusive or"}


def _operands(line: Instruction, known: Known, least: int) -> list[str] | None:
    """Result and operands in words; None where there are too few for the opcode."""
    return [show(o, known) for o in line.operands] if len(line.operands) >= least else None


def _in(line: Instruction) -> str:
    kinds = types(line)
    return f" ({type_words(kinds[-1])}{precision(line)})" if kinds else ""


def function(line: Instruction, known: Known) -> str:
    """One operand in, one result out."""
    said = _operands(line, known, 2)
    if said is None:
        return ""
    return f"computes {_FUNCTIONS[line.base].format(a=said[1])} into {said[0]}{_in(line)}"


def find_bit(line: Instruction, known: Known) -> str:
    said = _operands(line, known, 2)
    if said is None:
        return ""
    signed = types(line) and types(line)[-1][:1] == "s"
    bit = f"the highest bit of {said[1]} that differs from its sign" if signed else f"the highest bit set in {said[1]}"
    what = f"by how much {bit} must be shifted left to come first" if line.has("shiftamt") else f"the position of {bit}"
    return f"computes {what} into {said[0]}{_in(line)}; all ones where there is none"


def joined(line: Instruction, known: Known) -> str:
    said = _operands(line, known, 3)
    if said is None:
        return ""
    kinds = types(line)
    mixed = f"; {said[1]} is {type_words(kinds[1])}" if len(kinds) > 1 and kinds[0] != kinds[1] else ""
    unit = f" ({type_words(kinds[0])}{precision(line)}{mixed})" if kinds else ""
    carry = ", and keeps the carry for the next instruction" if line.has("cc") else ""
    return f"computes {_JOINED[line.base].format(a=said[1], b=said[2])} into {said[0]}{unit}{carry}"


def with_carry(line: Instruction, known: Known) -> str:
    said = _operands(line, known, 3)
    if said is None:
        return ""
    sign, what = ("+", "carry") if line.base == "addc" else ("-", "borrow")
    return f"computes {said[1]} {sign} {said[2]} {sign} the {what} of the instruction before into {said[0]}{_in(line)}"


def multiply(line: Instruction, known: Known) -> str:
    said = _operands(line, known, 3)
    return "" if said is None else f"computes {said[1]} × {said[2]} into {said[0]}{_kept(line)}"


def multiply_add(line: Instruction, known: Known) -> str:
    said = _operands(line, known, 4)
    if said is None:
        return ""
    if line.base == "fma":
        return (
            f"computes {said[1]} × {said[2]} + {said[3]} into {said[0]} "
            f"({type_words(types(line)[-1] if types(line) else '')}"
            f"{precision(line).replace(', rounded ', ', rounded once, ', 1)})"
        )
    carry = " + the carry of the instruction before" if line.base == "madc" else ""
    keeps = ", and keeps the carry for the next instruction" if line.has("cc") else ""
    return f"computes {said[1]} × {said[2]} + {said[3]}{carry} into {said[0]}{_kept(line)}{keeps}"


def _kept(line: Instruction) -> str:
    """Which part of an integer product stays: `lo` as wide as the operands, `wide` all of it."""
    kinds = types(line)
    name = kinds[-1] if kinds else ""
    if name in FLOATS or not name:
        return f" ({type_words(name)}{precision(line)})"
    if line.has("wide"):
        return f": {bits(name)}-bit operands, the whole {2 * bits(name)}-bit product (wide)"
    half = "high" if line.has("hi") else "low"
    if line.base in ("mul24", "mad24"):
        return f": of both only the low 24 bits, the {half} 32 bits of the 48-bit product{precision(line)}"
    return f": the {half} {bits(name)} bits of the product ({'hi' if half == 'high' else 'lo'}){precision(line)}"


def divide(line: Instruction, known: Known) -> str:
    said = _operands(line, known, 3)
    if said is None:
        return ""
    # PTX ISA, div: .full.f32 is off by 2 units in the last place at most, whatever the operands.
    how = ", off by 2 units in the last place at most" if line.has("full") else ""
    return f"computes {said[1]} / {said[2]} into {said[0]}{_in(line)}{how}"


def extreme(line: Instruction, known: Known) -> str:
    said = _operands(line, known, 3)
    if said is None:
        return ""
    which = "smallest" if line.base == "min" else "largest"
    which = which if len(said) > 3 else {"smallest": "smaller", "largest": "larger"}[which]
    nan = ""
    if types(line) and types(line)[-1] in FLOATS:
        nan = "; NaN if any is NaN" if line.has("NaN") else "; a NaN gives way to a number"
    if line.has("xorsign"):
        signed = "negative where one of the two is, but not both"
        return f"puts the {which} of |{said[1]}| and |{said[2]}| into {said[0]}, {signed}{_in(line)}{nan}"
    if line.has("abs"):
        said[1:] = [f"|{one}|" for one in said[1:]]
    return f"puts the {which} of {listed(said[1:])} into {said[0]}{_in(line)}{nan}"


def bitwise(line: Instruction, known: Known) -> str:
    said = _operands(line, known, 3)
    if said is None:
        return ""
    if line.has("pred"):
        return f"sets {said[0]} to {said[1]} {_BITWISE[line.base]} {said[2]}"
    mask = line.operands[2].value
    low = isinstance(mask, int) and mask > 0 and mask & (mask + 1) == 0
    note = f": the remainder of a division by {mask + 1}" if line.base == "and" and low and mask is not None else ""
    return f"joins the bits of {said[1]} and {said[2]} by {_BITWISE[line.base]} into {said[0]}{note}"


def shift(line: Instruction, known: Known) -> str:
    said = _operands(line, known, 3)
    if said is None:
        return ""
    by = line.operands[2].value
    power = f": × {1 << by}" if isinstance(by, int) and 0 <= by < 63 else ""
    if line.base == "shl":
        return f"shifts {said[1]} left by {said[2]} bits into {said[0]}{power}"
    fill = "repeating the sign" if types(line) and types(line)[-1][:1] == "s" else "filling with zeros"
    divided = f": / {1 << by}" if power and isinstance(by, int) and fill == "filling with zeros" else ""
    return f"shifts {said[1]} right by {said[2]} bits into {said[0]}, {fill}{divided}"


def funnel(line: Instruction, known: Known) -> str:
    said = _operands(line, known, 4)
    if said is None:
        return ""
    way, half = ("left", "upper") if line.has("l") else ("right", "lower")
    return f"shifts the 64 bits of {said[2]} and {said[1]} {way} by {said[3]} and keeps the {half} 32 in {said[0]}"


def field(line: Instruction, known: Known) -> str:
    said = _operands(line, known, 4)
    if said is None:
        return ""
    if line.base == "bfi":
        if len(said) < 5:
            return ""
        return f"puts the low {said[4]} bits of {said[1]} into {said[2]} at bit {said[3]}, result in {said[0]}"
    fill = ", repeating their sign" if types(line) and types(line)[-1][:1] == "s" else ""
    length = "1 bit" if said[3] == "1" else f"{said[3]} bits"
    return f"takes {length} of {said[1]} from bit {said[2]} on into {said[0]}{fill}"


def logic3(line: Instruction, known: Known) -> str:
    said = _operands(line, known, 5)
    if said is None:
        return ""
    table = line.operands[-1].text
    return f"joins the bits of {listed(said[1:4])} into {said[0]} by the truth table {table}"


def permute(line: Instruction, known: Known) -> str:
    said = _operands(line, known, 4)
    if said is None:
        return ""
    selector = line.operands[3].value
    if isinstance(selector, int) and selector >= 0 and len(line.modifiers) == 1:
        picked = [selector >> 4 * i & 7 for i in range(4)]
        chosen = ", ".join(map(str, picked))
        return f"builds {said[0]} of bytes {chosen}, lowest first, where 0–3 are {said[1]}'s and 4–7 {said[2]}'s"
    return f"builds {said[0]} of four bytes of {said[1]} and {said[2]} picked by {said[3]}"


def select(line: Instruction, known: Known) -> str:
    said = _operands(line, known, 4)
    if said is None:
        return ""
    test = f"{said[3]} is true" if line.base == "selp" else f"{said[3]} is not negative"
    return f"puts {said[1]} into {said[0]} where {test}, else {said[2]}"


def compare(line: Instruction, known: Known) -> str:
    said = _operands(line, known, 3)
    how = next((m for m in line.modifiers if m in _COMPARED or m in _UNORDERED or m in ("num", "nan")), None)
    if said is None or how is None:
        return ""
    a, b = said[1], said[2]
    if how in ("num", "nan"):
        test = f"neither {a} nor {b} is NaN" if how == "num" else f"{a} or {b} is NaN"
    else:
        test = f"{a} {_COMPARED.get(how) or _UNORDERED[how]} {b}"
        test += ", or either is NaN" if how in _UNORDERED else ""
    joint = next((m for m in line.modifiers if m in _BITWISE), None)
    also = f", {_BITWISE[joint]} {said[3]}" if joint and len(said) > 3 else ""
    pair = line.operands[0]
    kind = type_words(types(line)[-1]) if types(line) else "values"
    if line.base == "set":
        return f"puts all ones (or 1.0) into {said[0]} where {test}{also}, else 0 ({kind})"
    if pair.kind == "pair" and len(pair.parts) > 1:
        return f"sets {pair.parts[0].text} where {test}{also}, and {pair.parts[1].text} where not ({kind})"
    return f"sets {said[0]} to whether {test}{also} ({kind})"


def convert(line: Instruction, known: Known) -> str:
    said = _operands(line, known, 2)
    kinds = types(line)
    if said is None or len(kinds) < 2:
        return ""
    to, of = kinds[0], kinds[-1]
    if len(line.operands) > 2 and "x2" in to:
        each = type_words(to).removeprefix("pairs of ")
        return (
            f"converts {said[1]} and {said[2]} from {type_words(of)} to {each}{precision(line)}, "
            f"and packs them into {said[0]}: {said[1]} in the upper half, {said[2]} in the lower"
        )
    head = f"converts {said[1]} from {type_words(of)} to {type_words(to)}"
    if to in FLOATS or of in FLOATS:
        whole = next((m for m in line.modifiers if m in ("rni", "rzi", "rmi", "rpi")), None)
        if whole and to == of:
            return f"rounds {said[1]} {ROUNDING[whole]} into {said[0]} ({type_words(to)})"
        exact = ", exactly" if to in FLOATS and of in FLOATS and bits(to) > bits(of) else ""
        return f"{head} in {said[0]}{exact}{precision(line)}{_finite(line)}"
    if line.has("sat"):
        return f"{head} in {said[0]}{precision(line)}"
    if bits(to) > bits(of):
        fill = "repeating the sign" if of[:1] == "s" else "filling with zeros"
        return f"widens {said[1]} from {bits(of)} to {bits(to)} bits into {said[0]}, {fill}"
    if bits(to) < bits(of):
        return f"keeps the low {bits(to)} bits of {said[1]} in {said[0]}"
    return f"{head} in {said[0]}: the same bits{precision(line)}"


def _finite(line: Instruction) -> str:
    return ", the largest finite number in place of infinity" if line.has("satfinite") else ""


def move(line: Instruction, known: Known) -> str:
    if len(line.operands) < 2:
        return ""
    to, of = line.operands[:2]
    if to.kind == "vector":
        return f"takes {show(of, known)} apart into {listed([p.text for p in to.parts])}, lowest bits first"
    if of.kind == "vector":
        return f"packs {listed([p.text for p in of.parts])} into {to.text}, lowest bits first"
    if of.kind == "register" and of.name in SPECIAL:
        return f"reads {SPECIAL[of.name]}, into {to.text}"
    if of.kind == "register" and of.name.startswith("%") and _is_special(of):
        return f"reads the special register {of.name} into {to.text}"
    if of.kind == "immediate":
        return f"puts {show(of, known)} into {to.text}"
    if of.kind == "symbol" and line.has("pred"):
        return f"puts {of.text} into {to.text}"
    if of.kind == "symbol" and not line.has("b32", "b64", "u32", "u64"):
        return f"copies {of.text} into {to.text}"
    if of.kind == "symbol":
        return f"puts the address of {of.text} into {to.text}"
    return f"copies {show(of, known)} into {to.text}"


def _is_special(operand: Operand) -> bool:
    return not operand.name[-1:].isdigit() or operand.name.startswith(("%pm", "%envreg"))


def dot(line: Instruction, known: Known) -> str:
    said = _operands(line, known, 4)
    if said is None:
        return ""
    many = "four pairs of bytes" if line.base == "dp4a" else "two pairs of numbers"
    return f"multiplies {many} of {said[1]} and {said[2]}, adds the products and {said[3]} into {said[0]}"


def difference(line: Instruction, known: Known) -> str:
    said = _operands(line, known, 4)
    return "" if said is None else f"computes |{said[1]} - {said[2]}| + {said[3]} into {said[0]}{_in(line)}"


def tested(line: Instruction, known: Known) -> str:
    said = _operands(line, known, 2)
    kind = line.modifiers[0] if line.modifiers else ""
    return "" if said is None else f"sets {said[0]} to whether {said[1]} is {kind}"


def signed_like(line: Instruction, known: Known) -> str:
    said = _operands(line, known, 3)
    return "" if said is None else f"puts {said[2]} with the sign of {said[1]} into {said[0]}{_in(line)}"


WORDS: dict[str, Words] = {
    **dict.fromkeys(_FUNCTIONS, function),
    **dict.fromkeys(_JOINED, joined),
    **dict.fromkeys(_BITWISE, bitwise),
    **dict.fromkeys(("addc", "subc"), with_carry),
    **dict.fromkeys(("mul", "mul24"), multiply),
    **dict.fromkeys(("mad", "madc", "fma", "mad24"), multiply_add),
    **dict.fromkeys(("min", "max"), extreme),
    **dict.fromkeys(("shl", "shr"), shift),
    **dict.fromkeys(("bfe", "bfi"), field),
    **dict.fromkeys(("selp", "slct"), select),
    **dict.fromkeys(("setp", "set"), compare),
    **dict.fromkeys(("dp4a", "dp2a"), dot),
    "bfind": find_bit,
    "div": divide,
    "shf": funnel,
    "lop3": logic3,
    "prmt": permute,
    "cvt": convert,
    "mov": move,
    "sad": difference,
    "testp": tested,
    "copysign": signed_like,
}
