"""Sentences for loads, stores, atomics and copies of PTX: which memory, how many bytes, through which caches."""

from __future__ import annotations

from kernellab.machinecode.instruction_classes import classify
from kernellab.machinecode.instructions import Instruction
from kernellab.ptxwords.arithmetic import Describer
from kernellab.ptxwords.phrases import (
    SCOPES,
    bits,
    count,
    describe_address,
    describe_groups,
    describe_operand,
    describe_type,
    join_names,
    types,
)
from kernellab.ptxwords.registers import KernelContext

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
    "ca": "cached in L1 and L2",
    "cg": "cached in L2, not in L1",
    "cs": "used once: evicted first from the caches",
    "lu": "last use: need not stay in the cache",
    "cv": "always read from memory, not from a cache",
    "wb": "written back from the cache later",
    "wt": "written through to memory",
    "nc": "through the read-only path",
    "L1::evict_first": "evicted first from L1",
    "L1::evict_last": "evicted last from L1",
    "L1::evict_normal": "",
    "L1::evict_unchanged": "its eviction order in L1 unchanged",
    "L1::no_allocate": "not cached in L1",
    "L2::evict_first": "evicted first from L2",
    "L2::evict_last": "evicted last from L2",
    "L2::evict_normal": "",
    "L2::64B": "prefetching 64 bytes into L2",
    "L2::128B": "prefetching 128 bytes into L2",
    "L2::256B": "prefetching 256 bytes into L2",
    "L2::cache_hint": "with a cache policy for L2",
    "volatile": "must not be removed or merged",
    "weak": "",
    "relaxed": "not ordered with other accesses",
    "acquire": "later accesses cannot happen before it",
    "release": "earlier accesses are visible before it",
    "acq_rel": "ordered with all accesses before and after it",
    "mmio": "as access to a device's registers",
}

_ATOMICS = {
    "add": "adds {v} to",
    "min": "takes the smaller of {v} and",
    "max": "takes the larger of {v} and",
    "and": "computes the bitwise and of {v} and",
    "or": "computes the bitwise or of {v} and",
    "xor": "computes the bitwise exclusive or of {v} and",
    "exch": "writes {v} over",
    "cas": "if it equals {v}, writes {w} over",
    "inc": "adds 1 (back to 0 after {v}) to",
    "dec": "subtracts 1 (back to {v} after 0) from",
}


def _describe_space(line: Instruction) -> str:
    return next((_SPACES[m] for m in line.modifiers if m in _SPACES), "memory (generic address: any kind)")


def _describe_caching(line: Instruction) -> str:
    """Caching and ordering: "; cached in L2, not in L1; for all threads of the GPU"."""
    phrases = [_CACHES[m] for m in line.modifiers if _CACHES.get(m)]
    scope = next((SCOPES[m] for m in line.modifiers if m in SCOPES), "")
    if scope and line.has("relaxed", "acquire", "release", "acq_rel"):
        phrases.append(f"for all threads of {scope}")
    return "".join(f"; {phrase}" for phrase in phrases)


def _describe_amount(line: Instruction, values: list[str]) -> str:
    """`16 bytes: four 32-bit values`."""
    kind = types(line)[-1] if types(line) else ""
    width = classify(line).bytes
    if not width:
        return "a value"
    if len(values) == 1:
        return f"{width} byte{'s' if width > 1 else ''}"
    if kind[:1] == "b":
        return f"{width} bytes: {count(len(values), f'{bits(kind)}-bit value')}"
    return f"{width} bytes: {len(values)} × {describe_type(kind)}"


def describe_load(line: Instruction, context: KernelContext) -> str:
    if len(line.operands) < 2:
        return ""
    to, source = line.operands[0], line.operands[1]
    values = [part.text for part in to.parts] or [to.text]
    kind = types(line)[-1] if types(line) else ""
    if line.has("param", "param::entry") and source.name in context.positions:
        content = "a pointer" if source.name in context.pointers else _describe_parameter_type(kind)
        offset = f", {source.value} bytes into it" if source.value else ""
        return f"loads parameter {context.positions[source.name]} ({content}) into {join_names(values)}{offset}"
    origin = f"from {_describe_space(line)} at {describe_address(source, context)}"
    extended = f", {'sign' if kind[:1] == 's' else 'zero'}-extended" if 0 < bits(kind) < 32 else ""
    return (
        f"loads {_describe_amount(line, values)} {origin} into {join_names(values)}{extended}{_describe_caching(line)}"
    )


def _describe_parameter_type(name: str) -> str:
    """A plain integer type does not tell whether the parameter is signed; a signed type does."""
    if name[:1] in ("u", "b"):
        return f"{bits(name)} bits"
    return describe_type(name).replace("integers", "integer")


def describe_store(line: Instruction, context: KernelContext) -> str:
    if len(line.operands) < 2:
        return ""
    to, source = line.operands[0], line.operands[1]
    values = [part.text for part in source.parts] or [describe_operand(source, context)]
    signal = ", and signals a barrier when it is done" if line.has("async") else ""
    target = f"{_describe_space(line)} at {describe_address(to, context)}"
    return (
        f"stores {_describe_amount(line, values)}, {join_names(values)}, to {target}{signal}{_describe_caching(line)}"
    )


def describe_atomic(line: Instruction, context: KernelContext) -> str:
    operation = next((m for m in line.modifiers if m in _ATOMICS), None)
    ops = line.operands
    least = 2 if line.base == "red" else 3
    if operation is None or len(ops) < least:
        return ""
    at, values = (ops[0], ops[1:]) if line.base == "red" else (ops[1], ops[2:])
    action = _ATOMICS[operation].format(v=describe_operand(values[0], context), w=describe_operand(values[-1], context))
    old = "" if line.base == "red" else f"; the old value goes into {ops[0].text}"
    kind = f" ({describe_type(types(line)[-1])})" if types(line) else ""
    elements = _count_elements(line)
    noun = "value" if elements == 1 else "values"
    manner = "atomically, so that no other thread can interfere"
    manner = manner if elements == 1 else f"atomically for each of {count(elements, 'value')}, not for all at once"
    target = f"the {noun} in {_describe_space(line)} at {describe_address(at, context)}"
    return f"{manner}: {action} {target}{kind}{old}{_describe_caching(line)}"


def _count_elements(line: Instruction) -> int:
    """The number of values that an atomic changes one by one: elements of a vector, times two if they are packed."""
    vector = next((int(m[1:]) for m in line.modifiers if m in ("v2", "v4", "v8")), 1)
    return vector * (2 if types(line) and types(line)[-1].endswith("x2") else 1)


def describe_matrix(line: Instruction, context: KernelContext) -> str:
    """ldmatrix and stmatrix: 8×8 matrices distributed over a warp in the layout of the tensor core."""
    if len(line.operands) < 2:
        return ""
    matrices = next((int(m[1:]) for m in line.modifiers if m in ("x1", "x2", "x4")), 1)
    transposed = ", transposed" if line.has("trans") else ""
    number = count(matrices, "8×8 matrix").replace("matrixs", "matrices")
    a, b = line.operands[:2]
    if line.base == "ldmatrix":
        return (
            f"the warp loads {number} from shared memory{transposed}, each thread its part into "
            f"{describe_operand(a, context)}; this thread's row is at {describe_address(b, context)}"
        )
    return (
        f"the warp stores {number} to shared memory{transposed}, each thread its part from "
        f"{describe_operand(b, context)}; this thread's row is at {describe_address(a, context)}"
    )


def describe_copy(line: Instruction, context: KernelContext) -> str:
    """cp.async, and the bulk copies that the TMA executes."""
    ops = line.operands
    first = ops[0].text if ops else ""
    copies = "bulk copies" if line.has("bulk") else "copies"
    if line.has("commit_group"):
        return f"closes a group of the {copies} started so far, so that one can wait for them together"
    if line.has("wait_group"):
        state = "have read their source" if line.has("read") else "are done"
        return f"waits until {describe_groups(first)} of {copies} {state}"
    if line.has("wait_all"):
        return "waits until all copies started so far are done"
    if line.has("mbarrier"):
        return f"signals the barrier at {first} when the copies started so far are done"
    if line.has("bulk"):
        return _describe_bulk_copy(line, context)
    if len(ops) < 3:
        return ""
    bypass = "without registers or L1" if line.has("cg") else "without registers"
    part = f"; only {describe_operand(ops[3], context)} bytes are read, the rest are zeros" if len(ops) > 3 else ""
    return (
        f"starts copying {describe_operand(ops[2], context)} bytes from global memory at "
        f"{describe_address(ops[1], context)} to shared memory at {describe_address(ops[0], context)}, {bypass}, "
        f"while the thread continues{part}"
    )


def _describe_bulk_copy(line: Instruction, context: KernelContext) -> str:
    if not line.operands:
        return ""
    if len(line.operands) < 2:
        return f"has the copy engine (TMA) fetch {describe_address(line.operands[0], context)} into L2"
    to, source = line.operands[:2]
    dims = next((m for m in line.modifiers if m in ("1d", "2d", "3d", "4d", "5d")), None)
    into = "global memory" if line.modifiers[_destination_space(line)] == "global" else "shared memory"
    if dims is None:
        amount = f"{describe_operand(line.operands[2], context)} bytes" if len(line.operands) > 2 else "bytes"
        ends = f"from {describe_address(source, context)} to {into} at {describe_address(to, context)}"
        return f"has the copy engine (TMA) move {amount} {ends}"
    tile = source if into == "shared memory" else to
    position = join_names([part.text for part in tile.parts[1].parts]) if len(tile.parts) > 1 else "its origin"
    arrives = "; a barrier counts the bytes that arrive" if "mbarrier" in line.opcode else ""
    verb = "add a tile onto one" if line.has("reduce") else "move a tile"
    side = (
        f"to shared memory at {describe_address(to, context)}"
        if into == "shared memory"
        else f"from shared memory at {describe_address(source, context)}"
    )
    return (
        f"one thread has the copy engine (TMA) {verb} of a {dims[0]}-dimensional tensor described at "
        f"{tile.parts[0].text if tile.parts else tile.text}, position {position}, {side}{arrives}"
    )


def _destination_space(line: Instruction) -> int:
    """The index of the destination's space among the modifiers: the first space in the opcode."""
    spaces = [i for i, m in enumerate(line.modifiers) if m == "global" or m.startswith("shared")]
    return spaces[0] if spaces else 0


def describe_policy(line: Instruction, context: KernelContext) -> str:
    if not line.operands:
        return ""
    priority = next((m.removeprefix("L2::evict_") for m in line.modifiers if m.startswith("L2::evict_")), "")
    eviction = {
        "first": "evicted first",
        "last": "evicted last",
        "normal": "evicted as usual",
        "unchanged": "left in its eviction order",
    }.get(priority, priority)
    share = line.operands[1] if len(line.operands) > 1 and line.has("fractional") else None
    part = "" if share is None or share.value == 1.0 else f", for a share of {describe_operand(share, context)}"
    return f"creates a cache policy for L2 in {line.operands[0].text}: data accessed with it is {eviction}{part}"


def describe_prefetch(line: Instruction, context: KernelContext) -> str:
    if not line.operands:
        return ""
    cache = next((m.partition("::")[0] for m in line.modifiers if m.startswith("L")), "cache")
    return f"prefetches {describe_address(line.operands[0], context)} into {cache}"


def describe_descriptor(line: Instruction, context: KernelContext) -> str:
    """tensormap.replace: a TMA descriptor filled in field by field on the GPU."""
    if not line.operands:
        return ""
    if line.has("cp_fenceproxy") and len(line.operands) > 1:
        to, source = (describe_address(operand, context) for operand in line.operands[:2])
        return f"copies the tensor descriptor from {source} to {to} and makes it visible to the TMA"
    field = next((m for m in line.modifiers if m not in ("replace", "tile")), "a field").replace("_", " ")
    index = f" {line.operands[1].text}" if len(line.operands) > 2 else ""
    value = describe_operand(line.operands[-1], context) if len(line.operands) > 1 else "?"
    return (
        f"writes {field}{index} = {value} into the tensor descriptor at {describe_address(line.operands[0], context)}"
    )


def describe_address_conversion(line: Instruction, context: KernelContext) -> str:
    if len(line.operands) < 2:
        return ""
    to, source = line.operands[0].text, describe_operand(line.operands[1], context)
    space = next((_SPACES[m] for m in line.modifiers if m in _SPACES), "one memory")
    if line.has("to"):
        return f"converts the generic address {source} into an address in {space}, in {to}"
    return f"converts {source}, an address in {space}, into a generic address, in {to}"


def describe_cluster_address(line: Instruction, context: KernelContext) -> str:
    if len(line.operands) < 3:
        return ""
    to, source, rank = (describe_operand(operand, context) for operand in line.operands[:3])
    return f"computes into {to} the address of {source} in the shared memory of block {rank} of the cluster"


DESCRIBERS: dict[str, Describer] = {
    "ld": describe_load,
    "ldu": describe_load,
    "st": describe_store,
    "atom": describe_atomic,
    "red": describe_atomic,
    "ldmatrix": describe_matrix,
    "stmatrix": describe_matrix,
    "cp": describe_copy,
    "createpolicy": describe_policy,
    "prefetch": describe_prefetch,
    "prefetchu": describe_prefetch,
    "tensormap": describe_descriptor,
    "cvta": describe_address_conversion,
    "mapa": describe_cluster_address,
}
