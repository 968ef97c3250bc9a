"""Loads, stores, atomics and copies of PTX, in words: which memory, how many bytes, through which caches."""

from __future__ import annotations

from kernellab.machinecode.instruction_classes import classify
from kernellab.machinecode.instructions import Instruction
from kernellab.ptxwords.arithmetic import Words
from kernellab.ptxwords.phrases import bits, count, groups_left, listed, place, show, type_words, types
from kernellab.ptxwords.registers import Known

_SPACES = {
    "global": "global memory",
    "shared": "shared memory",
    "shared::cta": "shared memory",
    "shared::cluster": "the shared memory of a block of the cluster",
    "local": "local memory (the thread's own stack)",
    "param": "the parameters",
    "param::entry": "the parameters",
    "param::func": "the parameters of a call",
    "const": "constant memory",
}
_CACHES = {
    "ca": "kept in all caches",
    "cg": "kept in L2, not in L1",
    "cs": "used once: first to leave the caches",
    "lu": "last use: need not be kept",
    "cv": "read again from memory, never from a cache",
    "wb": "written back from the cache later",
    "wt": "written through to memory",
    "nc": "through the read-only path",
    "L1::evict_first": "first to leave L1",
    "L1::evict_last": "last to leave L1",
    "L1::evict_normal": "",
    "L1::evict_unchanged": "its place in L1 unchanged",
    "L1::no_allocate": "not kept in L1",
    "L2::evict_first": "first to leave L2",
    "L2::evict_last": "last to leave L2",
    "L2::evict_normal": "",
    "L2::64B": "with its 64 bytes fetched into L2",
    "L2::128B": "with its 128 bytes fetched into L2",
    "L2::256B": "with its 256 bytes fetched into L2",
    "L2::cache_hint": "L2 told by a policy how long to keep it",
    "volatile": "not to be left out or merged",
    "weak": "",
    "relaxed": "seen by other threads in no set order",
    "acquire": "nothing after it may come before it",
    "release": "everything before it is seen first",
    "acq_rel": "orders everything before and after it",
    "mmio": "as device memory",
}
_SCOPES = {"cta": "the block", "cluster": "the cluster", "gpu": "the GPU", "sys": "the whole system"}
_ATOMICS = {
    "add": "adds {v} to",
    "min": "takes the smaller of {v} and",
    "max": "takes the larger of {v} and",
    "and": "joins {v} by and with",
    "or": "joins {v} by or with",
    "xor": "joins {v} by exclusive or with",
    "exch": "puts {v} in place of",
    "cas": "puts {w} in place of, if it equals {v},",
    "inc": "counts up to {v}",
    "dec": "counts down from {v}",
}


def _space(line: Instruction) -> str:
    return next((_SPACES[m] for m in line.modifiers if m in _SPACES), "memory of whichever kind the address is in")


def _manner(line: Instruction) -> str:
    said = [_CACHES[m] for m in line.modifiers if _CACHES.get(m)]
    scope = next((_SCOPES[m] for m in line.modifiers if m in _SCOPES), "")
    if scope and line.has("relaxed", "acquire", "release", "acq_rel"):
        said.append(f"for all threads of {scope}")
    return "".join(f"; {part}" for part in said)


def _amount(line: Instruction, values: list[str]) -> str:
    """`16 bytes: four 32-bit values`."""
    kind = types(line)[-1] if types(line) else ""
    width = classify(line).bytes
    if not width:
        return "a value"
    what = f"{bits(kind)}-bit value" if kind[:1] == "b" else type_words(kind)
    if len(values) == 1:
        return f"{width} byte{'s' if width > 1 else ''}"
    return f"{width} bytes: {count(len(values), what)}" if kind[:1] == "b" else f"{width} bytes: {len(values)} × {what}"


def load(line: Instruction, known: Known) -> str:
    if len(line.operands) < 2:
        return ""
    to, of = line.operands[0], line.operands[1]
    values = [part.text for part in to.parts] or [to.text]
    if line.has("param", "param::entry") and of.name in known.order:
        kind = "a pointer" if of.name in known.pointers else _one(types(line)[-1] if types(line) else "")
        offset = f", {of.value} bytes into it" if of.value else ""
        return f"loads parameter {known.order[of.name]} ({kind}) into {listed(values)}{offset}"
    named = f"from {_space(line)} at {place(of, known)}"
    wide = bits(types(line)[-1]) if types(line) else 0
    grown = f", widened {'with its sign' if types(line)[-1][:1] == 's' else 'with zeros'}" if 0 < wide < 32 else ""
    return f"loads {_amount(line, values)} {named} into {listed(values)}{grown}{_manner(line)}"


def _one(name: str) -> str:
    """A parameter's type: whether a plain integer is signed is not known, where it is widened it is."""
    if name[:1] in ("u", "b"):
        return f"{bits(name)} bits"
    return type_words(name).replace("integers", "integer")


def store(line: Instruction, known: Known) -> str:
    if len(line.operands) < 2:
        return ""
    to, of = line.operands[0], line.operands[1]
    values = [part.text for part in of.parts] or [show(of, known)]
    late = ", and counts it at a barrier when it is done" if line.has("async") else ""
    said = f"stores {_amount(line, values)}, {listed(values)}, to {_space(line)} at {place(to, known)}"
    return f"{said}{late}{_manner(line)}"


def atomic(line: Instruction, known: Known) -> str:
    how = next((m for m in line.modifiers if m in _ATOMICS), None)
    ops = line.operands
    least = 2 if line.base == "red" else 3
    if how is None or len(ops) < least:
        return ""
    at, values = (ops[0], ops[1:]) if line.base == "red" else (ops[1], ops[2:])
    said = _ATOMICS[how].format(v=show(values[0], known), w=show(values[-1], known))
    old = "" if line.base == "red" else f"; what was there before goes into {ops[0].text}"
    kind = f" ({type_words(types(line)[-1])})" if types(line) else ""
    many = _elements(line)
    noun = "value" if many == 1 else "values"
    step = "in one step that no other thread can come between"
    step = step if many == 1 else f"for each of {count(many, 'value')} {step}, not for all at once"
    return f"{step}: {said} the {noun} in {_space(line)} at {place(at, known)}{kind}{old}{_manner(line)}"


def _elements(line: Instruction) -> int:
    """Values an atomic changes one by one: a vector's, each a pair where it is packed."""
    vector = next((int(m[1:]) for m in line.modifiers if m in ("v2", "v4", "v8")), 1)
    return vector * (2 if types(line) and types(line)[-1].endswith("x2") else 1)


def matrix(line: Instruction, known: Known) -> str:
    """ldmatrix and stmatrix: 8×8 pieces spread over a warp as the tensor core wants them."""
    if len(line.operands) < 2:
        return ""
    many = next((int(m[1:]) for m in line.modifiers if m in ("x1", "x2", "x4")), 1)
    turned = ", transposed" if line.has("trans") else ""
    pieces = count(many, "8×8 matrix").replace("matrixs", "matrices")
    a, b = line.operands[:2]
    if line.base == "ldmatrix":
        return (
            f"the warp loads {pieces} from shared memory{turned}, each thread its share into {show(a, known)}; "
            f"this thread's row is at {place(b, known)}"
        )
    return (
        f"the warp stores {pieces} to shared memory{turned}, each thread its share from {show(b, known)}; "
        f"this thread's row is at {place(a, known)}"
    )


def copy(line: Instruction, known: Known) -> str:
    """cp.async, and the bulk copies the TMA carries out."""
    ops = line.operands
    first = ops[0].text if ops else ""
    bulk = "bulk copies" if line.has("bulk") else "copies"
    if line.has("commit_group"):
        return f"closes a group of the {bulk} begun so far, to be waited for together"
    if line.has("wait_group"):
        state = "have read their source" if line.has("read") else "are done"
        return f"waits until {groups_left(first)} of {bulk} {state}"
    if line.has("wait_all"):
        return "waits until all copies begun so far are done"
    if line.has("mbarrier"):
        return f"has the barrier at {first} told when the copies begun so far are done"
    if line.has("bulk"):
        return _bulk(line, known)
    if len(ops) < 3:
        return ""
    way = "past the registers and L1" if line.has("cg") else "past the registers"
    part = f", of which {show(ops[3], known)} bytes are read and the rest are zeros" if len(ops) > 3 else ""
    return (
        f"begins copying {show(ops[2], known)} bytes from global memory at {place(ops[1], known)} to shared memory at "
        f"{place(ops[0], known)}, {way}, while the thread goes on{part}"
    )


def _bulk(line: Instruction, known: Known) -> str:
    if len(line.operands) < 2:
        return f"has the copy engine (TMA) fetch {place(line.operands[0], known)} into L2" if line.operands else ""
    to, of = line.operands[:2]
    dims = next((m for m in line.modifiers if m in ("1d", "2d", "3d", "4d", "5d")), None)
    into = "global memory" if line.modifiers[_after(line)] == "global" else "shared memory"
    tile = of if into == "shared memory" else to
    if dims is None:
        many = f"{show(line.operands[2], known)} bytes" if len(line.operands) > 2 else "a run of bytes"
        return f"has the copy engine (TMA) move {many} from {place(of, known)} to {into} at {place(to, known)}"
    where = listed([part.text for part in tile.parts[1].parts]) if len(tile.parts) > 1 else "its origin"
    arrives = "; a barrier counts the bytes that arrive" if "mbarrier" in line.opcode else ""
    verb = "add a tile onto" if line.has("reduce") else "move a tile"
    other = place(to, known) if into == "shared memory" else place(of, known)
    side = f"to shared memory at {other}" if into == "shared memory" else f"from shared memory at {other}"
    return (
        f"one thread has the copy engine (TMA) {verb} of a {dims[0]}-dimensional tensor described at "
        f"{tile.parts[0].text if tile.parts else tile.text}, position {where}, {side}{arrives}"
    )


def _after(line: Instruction) -> int:
    """Where the destination's space stands among the modifiers: the first space named."""
    spaces = [i for i, m in enumerate(line.modifiers) if m == "global" or m.startswith("shared")]
    return spaces[0] if spaces else 0


def policy(line: Instruction, known: Known) -> str:
    if not line.operands:
        return ""
    how = next((m.removeprefix("L2::evict_") for m in line.modifiers if m.startswith("L2::evict_")), "")
    order = {
        "first": "first to leave",
        "last": "last to leave",
        "normal": "treated as usual",
        "unchanged": "left alone",
    }
    share = line.operands[1] if len(line.operands) > 1 and line.has("fractional") else None
    part = "" if share is None or share.value == 1.0 else f", for a share of {show(share, known)}"
    return f"makes a policy for L2 in {line.operands[0].text}: what is accessed with it is {order.get(how, how)}{part}"


def prefetch(line: Instruction, known: Known) -> str:
    if not line.operands:
        return ""
    into = next((m.partition("::")[0] for m in line.modifiers if m.startswith("L")), "cache")
    return f"has {place(line.operands[0], known)} fetched into {into}"


def descriptor(line: Instruction, known: Known) -> str:
    """tensormap.replace: a TMA descriptor filled in field by field on the GPU."""
    if not line.operands:
        return ""
    if line.has("cp_fenceproxy") and len(line.operands) > 1:
        to, of = line.operands[:2]
        return f"copies the tensor's description from {place(of, known)} to {place(to, known)} and makes the TMA see it"
    field = next((m for m in line.modifiers if m not in ("replace", "tile")), "a field").replace("_", " ")
    index = f" {line.operands[1].text}" if len(line.operands) > 2 else ""
    value = show(line.operands[-1], known) if len(line.operands) > 1 else "?"
    return f"writes {field}{index} = {value} into the tensor's description at {place(line.operands[0], known)}"


def address(line: Instruction, known: Known) -> str:
    if len(line.operands) < 2:
        return ""
    to, of = line.operands[0].text, show(line.operands[1], known)
    space = next((_SPACES[m] for m in line.modifiers if m in _SPACES), "one memory")
    if line.has("to"):
        return f"turns the generic address {of} into one of {space}, in {to}"
    return f"turns {of}, an address in {space}, into a generic one, in {to}"


def neighbour(line: Instruction, known: Known) -> str:
    if len(line.operands) < 3:
        return ""
    to, of, rank = (show(operand, known) for operand in line.operands[:3])
    return f"puts into {to} the address that block {rank} of the cluster has for {of} of its own shared memory"


WORDS: dict[str, Words] = {
    "ld": load,
    "ldu": load,
    "st": store,
    "atom": atomic,
    "red": atomic,
    "ldmatrix": matrix,
    "stmatrix": matrix,
    "cp": copy,
    "createpolicy": policy,
    "prefetch": prefetch,
    "prefetchu": prefetch,
    "tensormap": descriptor,
    "cvta": address,
    "mapa": neighbour,
}
