"""Sentences for cooperation between threads (barriers, fences, shuffles, votes, tensor cores) and for branches."""

from __future__ import annotations

import re

from kernellab.machinecode.instructions import Instruction
from kernellab.ptxwords.arithmetic import Describer
from kernellab.ptxwords.phrases import (
    SCOPES,
    count,
    describe_address,
    describe_groups,
    describe_operand,
    describe_type,
    types,
)
from kernellab.ptxwords.registers import KernelContext

_SHUFFLES = {
    "bfly": "the thread whose index in the warp is this thread's, exclusive or {b}",
    "up": "the thread {b} before this one in the warp",
    "down": "the thread {b} after this one in the warp",
    "idx": "thread {b} of the warp",
}
_VOTES = {
    "ballot": "a mask of the warp's threads where {p} is true",
    "all": "whether {p} is true in all threads of the warp",
    "any": "whether {p} is true in any thread of the warp",
    "uni": "whether {p} is the same in all threads of the warp",
}
_BARRIER_REDUCTIONS = {
    "popc": "the number of its threads where {p} is true",
    "and": "whether {p} is true in all its threads",
    "or": "whether {p} is true in any of its threads",
}
_PROXIES = {
    "async": "the copy engine and the tensor cores",
    "alias": "accesses through other addresses of the same memory",
    "tensormap::generic": "the copy engine's tensor descriptors",
}
_TCGEN05 = {
    "fence::before_thread_sync": "orders the tensor core's work before a synchronisation that follows",
    "fence::after_thread_sync": "orders the tensor core's work after a synchronisation that came before",
    "relinquish_alloc_permit": "gives up the right to allocate more tensor memory",
}


def describe_shuffle(line: Instruction, context: KernelContext) -> str:
    ops = line.operands
    mode = next((m for m in line.modifiers if m in _SHUFFLES), None)
    if mode is None or len(ops) < 3:
        return ""
    to = ops[0].parts[0] if ops[0].kind == "pair" and ops[0].parts else ops[0]
    other = _SHUFFLES[mode].format(b=describe_operand(ops[2], context))
    return f"reads the value of {describe_operand(ops[1], context)} in {other}, into {to.text}"


def describe_vote(line: Instruction, context: KernelContext) -> str:
    mode = next((m for m in line.modifiers if m in _VOTES), None)
    if mode is None or len(line.operands) < 2:
        return ""
    return f"puts into {line.operands[0].text} {_VOTES[mode].format(p=describe_operand(line.operands[1], context))}"


def describe_warp_reduction(line: Instruction, context: KernelContext) -> str:
    if len(line.operands) < 2:
        return ""
    operation = line.modifiers[1] if len(line.modifiers) > 1 else ""
    result = {"add": "the sum", "min": "the smallest", "max": "the largest"}.get(operation, f"the bitwise {operation}")
    kind = f" ({describe_type(types(line)[-1])})" if types(line) else ""
    to, source = (describe_operand(operand, context) for operand in line.operands[:2])
    return f"computes {result} of {source} over the threads of the warp, into {to} of each{kind}"


def describe_match(line: Instruction, context: KernelContext) -> str:
    if len(line.operands) < 2:
        return ""
    to, source = (describe_operand(operand, context) for operand in line.operands[:2])
    return f"puts into {to} a mask of the warp's threads with the same value of {source}"


def describe_elect(line: Instruction, context: KernelContext) -> str:
    to = line.operands[0] if line.operands else None
    predicate = to.parts[-1].text if to is not None and to.parts else "a predicate"
    return f"chooses one thread of the warp: {predicate} is true there and false in the others"


def describe_active_mask(line: Instruction, context: KernelContext) -> str:
    return f"puts into {line.operands[0].text} a mask of the warp's active threads" if line.operands else ""


def describe_barrier(line: Instruction, context: KernelContext) -> str:
    if line.has("cluster"):
        if line.has("arrive"):
            visible = "; its writes become visible to the cluster" if line.has("release") else ""
            return f"signals to all blocks of the cluster that this thread has arrived, and continues{visible}"
        visible = "; their writes are visible from here on" if line.has("acquire") else ""
        return f"waits until all threads of the cluster have arrived{visible}"
    first = describe_operand(line.operands[0], context) if line.operands else "0"
    if line.has("warp"):
        return "waits for the threads of the warp in the mask; their writes are visible from here on"
    number = f", {describe_operand(line.operands[1], context)} threads in all" if len(line.operands) > 1 else ""
    if line.has("arrive"):
        return f"signals to barrier {first} that this thread has arrived, and continues{number}"
    if line.has("red"):
        reduction = next((m for m in line.modifiers if m in _BARRIER_REDUCTIONS), None)
        if len(line.operands) < 3 or reduction is None:
            return ""
        to, name, *_, source = (describe_operand(operand, context) for operand in line.operands)
        return (
            f"waits for the block at barrier {name}; {_BARRIER_REDUCTIONS[reduction].format(p=source)} goes into {to}"
        )
    threads = f"the threads at barrier {first}" if number or first != "0" else "all threads of the block"
    return f"waits for {threads}{number} (barrier {first}); their writes are visible from here on"


def describe_mbarrier(line: Instruction, context: KernelContext) -> str:
    """A barrier object in shared memory. Copies can arrive at it too."""
    at = next((o for o in line.operands if o.kind == "address"), None)
    if at is None:
        return ""
    name = f"the barrier in shared memory at {describe_address(at, context)}"
    last = describe_operand(line.operands[-1], context)
    if line.has("init"):
        return f"initialises {name}, for {last} arrival{'' if last == '1' else 's'} per phase"
    if line.has("inval"):
        return f"invalidates {name}"
    if line.has("expect_tx"):
        expect = f"to expect {last} more bytes from copies"
        return f"arrives at {name} and tells it {expect}" if line.has("arrive") else f"tells {name} {expect}"
    if line.has("arrive", "arrive_drop"):
        return f"arrives at {name}"
    if line.has("try_wait", "test_wait"):
        waits = "waits for a limited time and sets" if line.has("try_wait") else "sets"
        return f"{waits} {line.operands[0].text} to whether phase {last} of {name} is complete"
    if line.has("complete_tx"):
        return f"tells {name} that {last} bytes have arrived"
    return f"reads the count of {name} into {line.operands[0].text}" if line.has("pending_count") else ""


def describe_fence(line: Instruction, context: KernelContext) -> str:
    if line.has("proxy"):
        proxy = "".join(line.modifiers[line.modifiers.index("proxy") + 1 :][:1])
        return f"makes this thread's writes visible to {_PROXIES.get(proxy, proxy)}, and their writes to this thread"
    if line.has("mbarrier_init"):
        return "makes the initialised barriers visible to the cluster"
    scopes = {**SCOPES, "gl": SCOPES["gpu"]}
    scope = next((scopes[m] for m in line.modifiers if m in scopes), "the block")
    return f"orders memory: all threads of {scope} see the accesses before it before those after it"


def describe_dependent_launch(line: Instruction, context: KernelContext) -> str:
    if line.has("wait"):
        return "waits until the launches this one depends on are done and their writes are visible"
    return "allows the next launch that depends on this one to begin"


def describe_matrix_product(line: Instruction, context: KernelContext) -> str:
    """mma, wmma and wgmma: m×n×k, and the types of the result, A, B and the sum."""
    if line.base == "wgmma" and not line.has("mma_async"):
        return _describe_wgmma_order(line)
    shape = re.search(r"\.m(\d{1,4})n(\d{1,4})k(\d{1,4})", line.opcode)
    names = types(line)
    if line.base == "wmma" and not line.has("mma"):
        action = "loads a part of a matrix for" if line.has("load") else "stores a part of a result of"
        return f"the warp {action} the tensor core"
    if shape is None or not names:
        return ""
    m, n, k = shape.groups()
    kind = describe_type(names[1] if len(names) > 1 else names[0])
    action = "four warps start" if line.base == "wgmma" else "the warp computes"
    places = " (A in registers or shared memory, B in shared memory)" if line.base == "wgmma" else ""
    registers = describe_operand(line.operands[0], context) if line.operands else "registers"
    return (
        f"{action} D = A × B + C on the tensor core, for a {m}×{k} and a {k}×{n} matrix of {kind}{places}: "
        f"{2 * int(m) * int(n) * int(k)} operations, sums in {describe_type(names[0])}, D in {registers}"
    )


def _describe_wgmma_order(line: Instruction) -> str:
    if line.has("fence"):
        return "orders accesses to registers before those of the tensor core, so that wgmma may start"
    if line.has("commit_group"):
        return "closes a group of the wgmma started so far, so that one can wait for them together"
    first = line.operands[0].text if line.operands else "0"
    return f"waits until {describe_groups(first)} of wgmma are done"


def describe_tcgen05(line: Instruction, context: KernelContext) -> str:
    """Blackwell's tensor core, which has its own memory."""
    kind = line.modifiers[0] if line.modifiers else ""
    ops = line.operands
    if kind in _TCGEN05:
        return _TCGEN05[kind]
    if kind == "alloc" and len(ops) > 1:
        columns, address = describe_operand(ops[1], context), describe_address(ops[0], context)
        return f"allocates {columns} columns of tensor memory; writes their address to shared memory at {address}"
    if kind == "dealloc" and len(ops) > 1:
        columns, address = describe_operand(ops[1], context), describe_operand(ops[0], context)
        return f"frees {columns} columns of tensor memory at {address}"
    if kind in ("ld", "st") and len(ops) > 1:
        registers, at = (ops[0], ops[1]) if kind == "ld" else (ops[1], ops[0])
        verb, preposition = ("loads", "from") if kind == "ld" else ("stores", "to")
        number = count(len(registers.parts) or 1, "register")
        return (
            f"the warp {verb} {number} per thread, {describe_operand(registers, context)}, {preposition} tensor memory "
            f"at {describe_address(at, context)}"
        )
    if kind in ("wait::ld", "wait::st"):
        accesses = "loads from" if kind.endswith("ld") else "stores to"
        return f"waits until this thread's {accesses} tensor memory are done"
    if kind == "mma" and len(ops) > 3:
        operand_kind = next((m.removeprefix("kind::") for m in line.modifiers if m.startswith("kind::")), "")
        blocks = "two blocks" if "cta_group::2" in line.modifiers else "one block"
        return (
            f"one thread starts D = A × B (+ D where {describe_operand(ops[-1], context)} is true) on the tensor core "
            f"for {blocks}, operands of kind {operand_kind}; D in tensor memory at "
            f"{describe_address(ops[0], context)}, A and B described by {describe_operand(ops[1], context)} and "
            f"{describe_operand(ops[2], context)}"
        )
    if kind == "commit" and ops:
        return f"signals the barrier at {describe_address(ops[0], context)} when the tensor core's work so far is done"
    if kind in ("cp", "shift") and ops:
        verb = "copies from shared memory to" if kind == "cp" else "shifts rows of"
        return f"{verb} tensor memory at {describe_address(ops[0], context)}"
    return ""


def describe_branch(line: Instruction, context: KernelContext) -> str:
    if not line.operands:
        return ""
    if line.base == "brx":
        return f"jumps to one of several labels, selected by {describe_operand(line.operands[0], context)}"
    return f"jumps to {line.operands[0].text}" + (" (all threads of the warp together)" if line.has("uni") else "")


def describe_call(line: Instruction, context: KernelContext) -> str:
    name = next((o.text for o in line.operands if o.kind in ("symbol", "register")), "")
    return f"calls the function {name}" if name else ""


def describe_end(line: Instruction, context: KernelContext) -> str:
    return {
        "ret": "returns: the thread has finished this function",
        "exit": "ends the thread",
        "trap": "stops the kernel with an error",
        "brkpt": "stops here under a debugger",
    }[line.base]


def describe_sleep(line: Instruction, context: KernelContext) -> str:
    return f"sleeps for about {describe_operand(line.operands[0], context)} ns" if line.operands else ""


def describe_register_limit(line: Instruction, context: KernelContext) -> str:
    action = "increase their registers to" if line.has("inc") else "release all but"
    return f"the warps {action} {line.operands[0].text} registers per thread" if line.operands else ""


DESCRIBERS: dict[str, Describer] = {
    "shfl": describe_shuffle,
    "vote": describe_vote,
    "redux": describe_warp_reduction,
    "match": describe_match,
    "elect": describe_elect,
    "activemask": describe_active_mask,
    "bar": describe_barrier,
    "barrier": describe_barrier,
    "mbarrier": describe_mbarrier,
    "fence": describe_fence,
    "membar": describe_fence,
    "griddepcontrol": describe_dependent_launch,
    **dict.fromkeys(("mma", "wmma", "wgmma"), describe_matrix_product),
    "tcgen05": describe_tcgen05,
    "bra": describe_branch,
    "brx": describe_branch,
    "call": describe_call,
    **dict.fromkeys(("ret", "exit", "trap", "brkpt"), describe_end),
    "nanosleep": describe_sleep,
    "setmaxnreg": describe_register_limit,
}
