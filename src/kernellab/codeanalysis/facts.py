"""Facts about kernels from their binaries: what they take, what they are made of, what stands out.

`facts` reads a cubin; `facts_of_ptx` says what PTX alone can say. Occupancy needs a launch and is not worked out here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from kernellab.base.errors import UserError, nearest
from kernellab.codeanalysis.control_flow import Loop, executed, find_loops, hottest
from kernellab.codeanalysis.loads_in_flight import flight_bytes
from kernellab.codeanalysis.remarks import remarks
from kernellab.codeanalysis.trigonometry import trigonometry
from kernellab.machinecode import cuda_tools
from kernellab.machinecode.assembler import assemble, parse_spills
from kernellab.machinecode.cubin import CubinKernel, disassemble, read_cubin
from kernellab.machinecode.instruction_classes import CLASSES, classify
from kernellab.machinecode.instructions import Instruction, Line, instructions
from kernellab.machinecode.ptx import Entry, PtxModule, parse_ptx
from kernellab.machinecode.sass import SassModule, parse_sass

_GLOBAL = ("global_load", "global_store", "async_copy")
# What a kernel makes use of, by the opcodes that show it, in SASS and in PTX.
_USES = {
    "TMA": ("UTMALDG", "UTMASTG", "UTMAREDG", "UBLKCP", "cp.async.bulk"),
    "cp.async": ("LDGSTS", "cp.async.ca", "cp.async.cg"),
    "mma": ("HMMA", "IMMA", "BMMA", "DMMA", "QMMA", "OMMA", "mma.", "wmma."),
    "wgmma": ("HGMMA", "IGMMA", "BGMMA", "QGMMA", "wgmma.mma_async"),
    "tcgen05": ("UTCHMMA", "UTCIMMA", "UTCQMMA", "UTCOMMA", "tcgen05.mma"),
    "ldmatrix": ("LDSM", "ldmatrix"),
    "clusters": ("UCGABAR", "barrier.cluster", "mapa."),
    "mbarrier": ("SYNCS", "mbarrier."),
    "atomics": ("ATOM", "RED.", "REDG", "atom.", "red."),
    "shuffles": ("SHFL", "shfl."),
    "dependent launch": ("ACQBULK", "PREEXIT", "griddepcontrol"),
    "packed fp32": ("FADD2", "FMUL2", "FFMA2"),
}


@dataclass(frozen=True)
class Access:
    """Instructions that move the same number of bytes per thread to or from one memory."""

    kind: str
    bytes: int
    count: int


@dataclass(frozen=True)
class LoopFacts:
    label: str
    depth: int
    first_line: int
    last_line: int
    size: int
    instructions: dict[str, int]
    sources: tuple[str, ...]
    waits: bool
    hottest: bool
    turns: int | None  # None where the code does not tell
    executed: dict[str, int]  # in one turn: loops inside as often as they turn, or once where that is not known


@dataclass(frozen=True)
class Facts:
    """One kernel. What only a cubin knows is None where there was none."""

    name: str
    arch: str
    registers: int | None
    spill_bytes: int | None  # stored and loaded because registers ran out
    spill_known_by: str
    stack_bytes: int | None
    shared_bytes: int | None  # static; a launch may add dynamic
    barriers: int | None
    threads: tuple[int, ...] | None  # the block it must have, or the largest it may have; empty where it may be any
    threads_required: bool
    counted_in: str  # "SASS" or "PTX"
    instructions: dict[str, int]
    executed: dict[str, int]  # by a thread: loops as often as they turn, or once where that is not known
    accesses: list[Access]
    widest_global_bytes: int
    narrowest_global_bytes: int
    flight_bytes: int  # of global memory that a thread asks for before it waits for any of it
    predicated: int
    uses: list[str]
    loops: list[LoopFacts]
    remarks: list[str] = field(default_factory=list)

    @property
    def size(self) -> int:
        return sum(self.instructions.values())


def facts(
    cubin: bytes, ptx: str = "", kernel: str | None = None, spill_log: str = "", disassembly: str = ""
) -> list[Facts]:
    """Facts about every kernel of a cubin, or about one.

    `ptx` is what the cubin was made from and `spill_log` what `ptxas -v` said: with either, spills are told
    from arrays in local memory. A `disassembly` at hand saves making one. Raises `UserError` where the cubin is
    damaged or nothing can disassemble it.
    """
    read = read_cubin(cubin)
    names = [found.name for found in read.kernels]
    if kernel is not None and kernel not in names:
        raise UserError(f"no kernel {kernel!r} in this cubin: {nearest(kernel, names)}")
    module = parse_ptx(ptx) if ptx else PtxModule()
    entries = {entry.name: entry for entry in module.kernels}
    sass = parse_sass(disassembly or disassemble(cubin))
    bodies = {function.name: function.body for function in sass.functions}
    found = []
    for one in read.kernels:
        if kernel in (None, one.name):
            body = bodies.get(one.name, [])
            spilled, known_by = _spilled(one, instructions(body), entries.get(one.name), module, spill_log)
            found.append(_facts_of_kernel(read.arch, one, body, spilled, known_by, entries.get(one.name)))
    return found


def facts_of_ptx(module: PtxModule) -> list[Facts]:
    """What PTX alone tells: its own instructions, and nothing of registers, spills or the stack."""
    return [_facts_of_entry(module, entry) for entry in module.kernels]


def facts_of_sass(module: SassModule) -> list[Facts]:
    """What a disassembly alone tells: its instructions."""
    return [
        _filled(
            function.body,
            None,
            name=function.name,
            arch=module.arch,
            registers=None,
            spill_bytes=None,
            spill_known_by="not known from a disassembly",
            stack_bytes=None,
            shared_bytes=None,
            barriers=None,
            threads=None,
            threads_required=False,
            counted_in="SASS",
        )
        for function in module.functions
        if function.body
    ]


def _facts_of_kernel(
    arch: str, one: CubinKernel, body: list[Line], spilled: int | None, known_by: str, entry: Entry | None
) -> Facts:
    return _filled(
        body,
        entry,
        name=one.name,
        arch=arch,
        registers=one.registers,
        spill_bytes=spilled,
        spill_known_by=known_by,
        stack_bytes=one.stack_bytes,
        shared_bytes=one.shared_bytes,
        barriers=one.barriers,
        threads=one.threads,
        threads_required=one.threads_required,
        counted_in="SASS",
    )


def _facts_of_entry(module: PtxModule, entry: Entry) -> Facts:
    required = entry.numbers(".reqntid")
    shared = [v for v in (*module.variables, *entry.variables) if v.space == "shared"]
    return _filled(
        entry.body,
        entry,
        name=entry.name,
        arch=module.target,
        registers=None,
        spill_bytes=None,
        spill_known_by="not known from PTX",
        stack_bytes=None,
        shared_bytes=sum(v.count * _type_bytes(v.type) for v in shared),
        barriers=None,
        threads=required or entry.numbers(".maxntid"),
        threads_required=bool(required),
        counted_in="PTX",
    )


def _filled(
    body: list[Line],
    entry: Entry | None,
    *,
    name: str,
    arch: str,
    registers: int | None,
    spill_bytes: int | None,
    spill_known_by: str,
    stack_bytes: int | None,
    shared_bytes: int | None,
    barriers: int | None,
    threads: tuple[int, ...] | None,
    threads_required: bool,
    counted_in: str,
) -> Facts:
    """What is counted, the same way for SASS and for PTX. `entry` is the kernel in PTX, where there is any."""
    code = [line for line in instructions(body) if line.base != "NOP"]  # padding
    kinds = [classify(line) for line in code]
    counts = Counter(kind.name for kind in kinds)
    mix = {kind: counts[kind] for kind in CLASSES if counts[kind]}
    loops = find_loops(body)
    accesses = Counter((kind.name, kind.bytes) for kind in kinds if kind.bytes)
    widths = [width for kind, width in accesses if kind in _GLOBAL]
    return Facts(
        name=name,
        arch=arch,
        registers=registers,
        spill_bytes=spill_bytes,
        spill_known_by=spill_known_by,
        stack_bytes=stack_bytes,
        shared_bytes=shared_bytes,
        barriers=barriers,
        threads=threads,
        threads_required=threads_required,
        counted_in=counted_in,
        instructions=mix,
        executed=executed(mix, loops),
        accesses=[Access(kind, width, accesses[kind, width]) for kind, width in sorted(accesses)],
        widest_global_bytes=max(widths, default=0),
        narrowest_global_bytes=min(widths, default=0),
        flight_bytes=flight_bytes(body),
        predicated=sum(line.guard is not None for line in code),
        uses=_uses(code),
        loops=_loops(loops),
        remarks=remarks(arch, code, mix, spill_bytes, registers, trigonometry(entry) if entry else None),
    )


def _uses(code: Sequence[Instruction]) -> list[str]:
    opcodes = {f"{line.opcode}." for line in code}
    return [use for use, heads in _USES.items() if any(opcode.startswith(heads) for opcode in opcodes)]


def _loops(loops: list[Loop]) -> list[LoopFacts]:
    hot = hottest(loops)
    return [
        LoopFacts(
            loop.label,
            loop.depth,
            loop.first_line,
            loop.last_line,
            loop.size,
            loop.instructions,
            loop.sources,
            loop.waits,
            loop is hot,
            loop.turns,
            executed(loop.instructions, loops, loop),
        )
        for loop in loops
    ]


def _spilled(
    one: CubinKernel, code: Sequence[Instruction], entry: Entry | None, module: PtxModule, log: str
) -> tuple[int | None, str]:
    """Bytes spilled, and how that is known.

    Without a local array in the PTX every local load and store is a spill; with one, only ptxas can tell.
    """
    said = parse_spills(log).get(one.name)
    if said is not None:
        return said.stored_bytes + said.loaded_bytes, "ptxas -v"
    moved = sum(c.bytes for line in code if (c := classify(line)).name in ("local_load", "local_store"))
    if moved == 0:
        return 0, "no local loads or stores in the SASS"
    if entry is None:
        return None, "local memory is used; without the PTX a spill looks like a local array"
    if not any(variable.space == "local" for variable in (*module.variables, *entry.variables)):
        return moved, "local loads and stores in the SASS; the PTX declares no local array"
    if cuda_tools.find("ptxas"):
        try:
            said = parse_spills(assemble(module.text, module.target).log).get(one.name)
        except UserError:
            said = None
        if said is not None:
            return said.stored_bytes + said.loaded_bytes, "ptxas -v, run again on the PTX"
    return None, "local memory is used, by an array in the PTX or by spills"


def _type_bytes(name: str) -> int:
    digits = "".join(c for c in name.partition("x")[0] if c.isdigit())
    return int(digits) // 8 if digits and len(digits) < 4 else 1
