"""What threads do together, in words: barriers, fences, shuffles, votes, tensor cores; and where control goes."""

from __future__ import annotations

import re

from kernellab.machinecode.instructions import Instruction
from kernellab.ptxwords.arithmetic import Words
from kernellab.ptxwords.phrases import count, groups_left, place, show, type_words, types
from kernellab.ptxwords.registers import Known

_SHUFFLES = {
    "bfly": "the thread whose index in the warp differs by exclusive or with {b}",
    "up": "the thread that stands {b} before it in the warp",
    "down": "the thread that stands {b} after it in the warp",
    "idx": "thread {b} of the warp",
}
_VOTES = {
    "ballot": "a mask of the warp's threads where {p} is true",
    "all": "whether {p} is true in all threads of the warp",
    "any": "whether {p} is true in any thread of the warp",
    "uni": "whether {p} is the same in all threads of the warp",
}
_JOINED = {
    "popc": "the number of its threads where {p} is true",
    "and": "whether {p} is true in all its threads",
    "or": "whether {p} is true in any of its threads",
}
_PROXIES = {
    "async": "the copy engine and the tensor cores",
    "alias": "other addresses of the same memory",
    "tensormap::generic": "the copy engine's tensor descriptions",
}
_TCGEN05 = {
    "fence::before_thread_sync": "orders the tensor core's work before a synchronisation that follows",
    "fence::after_thread_sync": "orders the tensor core's work after a synchronisation that went before",
    "relinquish_alloc_permit": "gives up the right to ask for more tensor memory",
}


def shuffle(line: Instruction, known: Known) -> str:
    ops = line.operands
    how = next((m for m in line.modifiers if m in _SHUFFLES), None)
    if how is None or len(ops) < 3:
        return ""
    to = ops[0].parts[0] if ops[0].kind == "pair" and ops[0].parts else ops[0]
    return f"gives {to.text} the value {show(ops[1], known)} has in {_SHUFFLES[how].format(b=show(ops[2], known))}"


def vote(line: Instruction, known: Known) -> str:
    how = next((m for m in line.modifiers if m in _VOTES), None)
    if how is None or len(line.operands) < 2:
        return ""
    return f"puts into {line.operands[0].text} {_VOTES[how].format(p=show(line.operands[1], known))}"


def reduce(line: Instruction, known: Known) -> str:
    if len(line.operands) < 2:
        return ""
    how = {"add": "sum", "min": "smallest", "max": "largest"}.get(line.modifiers[1] if len(line.modifiers) > 1 else "")
    what = f"the {how}" if how else "the bits joined"
    kind = f" ({type_words(types(line)[-1])})" if types(line) else ""
    to, of = (show(operand, known) for operand in line.operands[:2])
    return f"puts into {to}, in every thread of the warp, {what} of their {of}{kind}"


def match(line: Instruction, known: Known) -> str:
    if len(line.operands) < 2:
        return ""
    to, of = (show(operand, known) for operand in line.operands[:2])
    return f"puts into {to} a mask of the warp's threads whose {of} is the same"


def elect(line: Instruction, known: Known) -> str:
    to = line.operands[0] if line.operands else None
    predicate = to.parts[-1].text if to is not None and to.parts else "a predicate"
    return f"chooses one thread of the warp: {predicate} is true there and false elsewhere"


def active(line: Instruction, known: Known) -> str:
    return f"puts into {line.operands[0].text} a mask of the warp's threads that are running" if line.operands else ""


def barrier(line: Instruction, known: Known) -> str:
    if line.has("cluster"):
        if line.has("arrive"):
            seen = "; what it wrote will be seen" if line.has("release") else ""
            return f"tells all blocks of the cluster that this thread has arrived, and goes on{seen}"
        seen = ", and sees what they wrote" if line.has("acquire") else ""
        return f"waits until all threads of the cluster have arrived{seen}"
    first = show(line.operands[0], known) if line.operands else "0"
    if line.has("warp"):
        return "waits for the other threads of the warp named by the mask, and sees what they wrote"
    some = f", {show(line.operands[1], known)} threads in all" if len(line.operands) > 1 else ""
    if line.has("arrive"):
        return f"tells barrier {first} that this thread has arrived, and goes on{some}"
    if line.has("red"):
        how = next((m for m in line.modifiers if m in _JOINED), None)
        if len(line.operands) < 3 or how is None:
            return ""
        to, name, *_, of = (show(operand, known) for operand in line.operands)
        return f"waits for the block at barrier {name}; {_JOINED[how].format(p=of)} goes into {to}"
    who = f"the threads at barrier {first}" if some or first != "0" else "all threads of the block"
    return f"waits for {who}{some}, and sees what they wrote (barrier {first})"


def mbarrier(line: Instruction, known: Known) -> str:
    """A barrier object in shared memory, which copies can arrive at too."""
    at = next((o for o in line.operands if o.kind == "address"), None)
    if at is None:
        return ""
    name = f"the barrier in shared memory at {place(at, known)}"
    last = show(line.operands[-1], known)
    if line.has("init"):
        return f"sets up {name}, for {last} arrival{'' if last == '1' else 's'} per phase"
    if line.has("inval"):
        return f"gives up {name}"
    if line.has("expect_tx"):
        expect = f"to expect {last} bytes more from copies"
        return f"arrives at {name} and tells it {expect}" if line.has("arrive") else f"tells {name} {expect}"
    if line.has("arrive", "arrive_drop"):
        return f"arrives at {name}"
    if line.has("try_wait", "test_wait"):
        waits = "waits a while and sets" if line.has("try_wait") else "sets"
        return f"{waits} {line.operands[0].text} to whether the phase {last} of {name} is over"
    if line.has("complete_tx"):
        return f"tells {name} that {last} bytes have arrived"
    return f"reads the count of {name} into {line.operands[0].text}" if line.has("pending_count") else ""


def fence(line: Instruction, known: Known) -> str:
    if line.has("proxy"):
        proxy = "".join(line.modifiers[line.modifiers.index("proxy") + 1 :][:1])
        return f"makes what this thread wrote visible to {_PROXIES.get(proxy, proxy)}, and the other way round"
    if line.has("mbarrier_init"):
        return "makes the barriers just set up visible to the cluster"
    who = {"cta": "the block", "cluster": "the cluster", "gpu": "the GPU", "gl": "the GPU", "sys": "the whole system"}
    scope = next((who[m] for m in line.modifiers if m in who), "the block")
    return f"orders memory: what came before is seen by all threads of {scope} before what comes after"


def dependent(line: Instruction, known: Known) -> str:
    if line.has("wait"):
        return "waits until the launches this one depends on are done and what they wrote is visible"
    return "lets the next launch that depends on this one begin already"


def multiply(line: Instruction, known: Known) -> str:
    """mma, wmma and wgmma: m×n×k, and the types of the result, A, B and the sum."""
    if line.base == "wgmma" and not line.has("mma_async"):
        return _wgmma_order(line)
    shape = re.search(r"\.m(\d{1,4})n(\d{1,4})k(\d{1,4})", line.opcode)
    kinds = types(line)
    if line.base == "wmma" and not line.has("mma"):
        action = "loads a piece of a matrix for" if line.has("load") else "stores a piece of a result of"
        return f"the warp {action} the tensor core"
    if shape is None or not kinds:
        return ""
    m, n, k = shape.groups()
    of = type_words(kinds[1]) if len(kinds) > 1 else type_words(kinds[0])
    who = "four warps have the tensor core begin" if line.base == "wgmma" else "the warp has the tensor core compute"
    where = " (A in registers or shared memory, B in shared memory)" if line.base == "wgmma" else ""
    registers = show(line.operands[0], known) if line.operands else "registers"
    return (
        f"{who} D = A × B + C on a {m}×{k} and a {k}×{n} matrix of {of}{where}: "
        f"{2 * int(m) * int(n) * int(k)} operations, sums in {type_words(kinds[0])}, D in {registers}"
    )


def _wgmma_order(line: Instruction) -> str:
    if line.has("fence"):
        return "orders register accesses before the tensor core's: wgmma may begin"
    if line.has("commit_group"):
        return "closes a group of the wgmma begun so far, to be waited for together"
    first = line.operands[0].text if line.operands else "0"
    return f"waits until {groups_left(first)} of wgmma are done"


def tcgen05(line: Instruction, known: Known) -> str:
    """Blackwell's tensor core, which has a memory of its own."""
    kind = line.modifiers[0] if line.modifiers else ""
    ops = line.operands
    if kind in _TCGEN05:
        return _TCGEN05[kind]
    if kind == "alloc" and len(ops) > 1:
        columns, kept_at = show(ops[1], known), place(ops[0], known)
        return f"takes {columns} columns of tensor memory; their address goes to shared memory at {kept_at}"
    if kind == "dealloc" and len(ops) > 1:
        return f"gives {show(ops[1], known)} columns of tensor memory at {show(ops[0], known)} back"
    if kind in ("ld", "st") and len(ops) > 1:
        registers, at = (ops[0], ops[1]) if kind == "ld" else (ops[1], ops[0])
        verb, way = ("loads", "from") if kind == "ld" else ("stores", "to")
        many = count(len(registers.parts) or 1, "register")
        return f"the warp {verb} {many} per thread, {show(registers, known)}, {way} tensor memory at {place(at, known)}"
    if kind in ("wait::ld", "wait::st"):
        what = "loads from" if kind.endswith("ld") else "stores to"
        return f"waits until this thread's {what} tensor memory are done"
    if kind == "mma" and len(ops) > 3:
        of = next((m.removeprefix("kind::") for m in line.modifiers if m.startswith("kind::")), "")
        blocks = "two blocks" if "cta_group::2" in line.modifiers else "one block"
        return (
            f"one thread has the tensor core begin D = A × B (+ D where {show(ops[-1], known)} is true) for {blocks}, "
            f"operands of kind {of}; D in tensor memory at {place(ops[0], known)}, A and B described by "
            f"{show(ops[1], known)} and {show(ops[2], known)}"
        )
    if kind == "commit" and ops:
        return f"has the barrier at {place(ops[0], known)} told when the tensor core's work so far is done"
    if kind in ("cp", "shift") and ops:
        verb = "copies from shared memory to" if kind == "cp" else "shifts rows of"
        return f"{verb} tensor memory at {place(ops[0], known)}"
    return ""


def branch(line: Instruction, known: Known) -> str:
    if not line.operands:
        return ""
    if line.base == "brx":
        return f"goes on at one of several places, chosen by {show(line.operands[0], known)}"
    return f"goes on at {line.operands[0].text}" + (" (all threads of the warp alike)" if line.has("uni") else "")


def call(line: Instruction, known: Known) -> str:
    name = next((o.text for o in line.operands if o.kind in ("symbol", "register")), "")
    return f"calls the function {name}" if name else ""


def end(line: Instruction, known: Known) -> str:
    return {
        "ret": "returns: the thread is done with this function",
        "exit": "ends the thread",
        "trap": "stops the kernel with an error",
        "brkpt": "stops here under a debugger",
    }[line.base]


def sleep(line: Instruction, known: Known) -> str:
    return f"rests for about {show(line.operands[0], known)} ns" if line.operands else ""


def registers(line: Instruction, known: Known) -> str:
    way = "takes up to" if line.has("inc") else "gives back all but"
    return f"the warps {way} {line.operands[0].text} registers per thread" if line.operands else ""


WORDS: dict[str, Words] = {
    "shfl": shuffle,
    "vote": vote,
    "redux": reduce,
    "match": match,
    "elect": elect,
    "activemask": active,
    "bar": barrier,
    "barrier": barrier,
    "mbarrier": mbarrier,
    "fence": fence,
    "membar": fence,
    "griddepcontrol": dependent,
    **dict.fromkeys(("mma", "wmma", "wgmma"), multiply),
    "tcgen05": tcgen05,
    "bra": branch,
    "brx": branch,
    "call": call,
    **dict.fromkeys(("ret", "exit", "trap", "brkpt"), end),
    "nanosleep": sleep,
    "setmaxnreg": registers,
}
