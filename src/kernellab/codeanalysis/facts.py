"""Kernel facts: the resources a kernel needs, its instructions and loops, and remarks about them.

`facts_from_cubin` gives most of them. With `facts_from_ptx` and `facts_from_sass`, numbers that only a cubin has are
None. Occupancy depends on the launch; `gpumodel` computes it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from kernellab.base.errors import UserError, nearest
from kernellab.codeanalysis.kernel_json import AccessJson, FactsJson, LoopJson
from kernellab.codeanalysis.loads_in_flight import bytes_in_flight
from kernellab.codeanalysis.loops import Loop, count_executed, find_hottest, find_loops
from kernellab.codeanalysis.remarks import write_remarks
from kernellab.codeanalysis.trigonometry import find_slow_path
from kernellab.machinecode import cuda_tools
from kernellab.machinecode.assembler import assemble, parse_spills
from kernellab.machinecode.cubin import CubinKernel, disassemble, read_cubin
from kernellab.machinecode.instruction_classes import CLASSES, classify
from kernellab.machinecode.instructions import Instruction, Line, instructions
from kernellab.machinecode.ptx import PtxFunction, PtxModule, parse_ptx
from kernellab.machinecode.sass import SassModule, parse_sass

_GLOBAL = ("global_load", "global_store", "async_copy")
# Features of the hardware, and the opcodes in SASS and PTX that show their use.
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
    """Instructions of one class that move the same number of bytes per thread."""

    kind: str
    bytes: int
    count: int

    def to_json(self) -> AccessJson:
        return {"kind": self.kind, "bytes": self.bytes, "count": self.count}


@dataclass(frozen=True)
class LoopFacts:
    label: str
    depth: int
    first_line: int
    last_line: int
    size: int
    instructions: dict[str, int]
    sources: tuple[str, ...]
    statement: str
    load_bytes: float
    waits: bool
    hottest: bool
    turns: int | None  # trip count; None if the code does not contain it
    executed: dict[str, int]  # in one iteration; an inner loop without a known trip count counts once

    def to_json(self) -> LoopJson:
        return {
            "label": self.label,
            "depth": self.depth,
            "first_line": self.first_line,
            "last_line": self.last_line,
            "size": self.size,
            "instructions": self.instructions,
            "sources": list(self.sources),
            "statement": self.statement,
            "load_bytes": self.load_bytes,
            "waits": self.waits,
            "hottest": self.hottest,
            "turns": self.turns,
            "executed": self.executed,
        }


@dataclass(frozen=True)
class Resources:
    """What a launch of the kernel needs. None if the file does not contain it."""

    name: str
    arch: str
    registers: int | None
    spill_bytes: int | None  # stored and loaded because registers ran out
    spill_known_by: str
    stack_bytes: int | None
    shared_bytes: int | None  # static; a launch may add dynamic bytes
    barriers: int | None
    threads: tuple[int, ...] | None  # the block size required, or the largest allowed; empty if any is allowed
    threads_required: bool


@dataclass(frozen=True)
class KernelFacts(Resources):
    """Everything known about one kernel from its machine code."""

    counted_in: str  # "SASS" or "PTX"
    instructions: dict[str, int]  # by class
    executed: dict[str, int]  # by a thread; a loop without a known trip count counts once
    accesses: list[Access]
    widest_global_bytes: int
    narrowest_global_bytes: int
    flight_bytes: int  # of global memory that a thread requests before it waits for any of it
    predicated: int
    uses: list[str]
    loops: list[LoopFacts]
    remarks: list[str] = field(default_factory=list)

    @property
    def size(self) -> int:
        return sum(self.instructions.values())

    def to_json(self) -> FactsJson:
        return {
            "name": self.name,
            "arch": self.arch,
            "registers": self.registers,
            "spill_bytes": self.spill_bytes,
            "spill_known_by": self.spill_known_by,
            "stack_bytes": self.stack_bytes,
            "shared_bytes": self.shared_bytes,
            "barriers": self.barriers,
            "threads": None if self.threads is None else list(self.threads),
            "threads_required": self.threads_required,
            "counted_in": self.counted_in,
            "instructions": self.instructions,
            "executed": self.executed,
            "accesses": [access.to_json() for access in self.accesses],
            "widest_global_bytes": self.widest_global_bytes,
            "narrowest_global_bytes": self.narrowest_global_bytes,
            "flight_bytes": self.flight_bytes,
            "predicated": self.predicated,
            "uses": self.uses,
            "loops": [loop.to_json() for loop in self.loops],
            "remarks": self.remarks,
        }


def facts_from_cubin(
    data: bytes, ptx: str = "", kernel: str | None = None, ptxas_log: str = "", disassembly: str = ""
) -> list[KernelFacts]:
    """Facts about every kernel of a cubin, or about the one named `kernel`.

    `ptx` is the PTX that the cubin was assembled from, `ptxas_log` the output of `ptxas -v`: with either, spills can be
    distinguished from arrays in local memory. `disassembly` saves a run of nvdisasm. Raises `UserError` if the
    cubin is damaged, cannot be disassembled or does not contain `kernel`.
    """
    cubin = read_cubin(data)
    names = [entry.name for entry in cubin.kernels]
    if kernel is not None and kernel not in names:
        raise UserError(f"this cubin contains no kernel {kernel!r}: {nearest(kernel, names)}")
    module = parse_ptx(ptx) if ptx else PtxModule()
    functions = {function.name: function for function in module.kernels}
    sass = parse_sass(disassembly or disassemble(data))
    bodies = {function.name: function.body for function in sass.functions}
    return [
        _facts_from_cubin_kernel(
            cubin.arch, entry, bodies.get(entry.name, []), functions.get(entry.name), module, ptxas_log
        )
        for entry in cubin.kernels
        if kernel in (None, entry.name)
    ]


def facts_from_ptx(module: PtxModule) -> list[KernelFacts]:
    """Facts from PTX alone: its instructions, but no registers, spills or stack."""
    return [_facts_from_ptx_kernel(module, kernel) for kernel in module.kernels]


def facts_from_sass(module: SassModule) -> list[KernelFacts]:
    """Facts from a disassembly alone: its instructions."""
    return [
        _count(
            Resources(
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
            ),
            "SASS",
            function.body,
            None,
        )
        for function in module.functions
        if function.body
    ]


def _facts_from_cubin_kernel(
    arch: str, kernel: CubinKernel, body: list[Line], source: PtxFunction | None, module: PtxModule, ptxas_log: str
) -> KernelFacts:
    """`source` is the kernel in PTX, if that is known, and `module` the PTX around it."""
    spill_bytes, known_by = _count_spills(kernel.name, instructions(body), source, module, ptxas_log)
    resources = Resources(
        name=kernel.name,
        arch=arch,
        registers=kernel.registers,
        spill_bytes=spill_bytes,
        spill_known_by=known_by,
        stack_bytes=kernel.stack_bytes,
        shared_bytes=kernel.shared_bytes,
        barriers=kernel.barriers,
        threads=kernel.threads,
        threads_required=kernel.threads_required,
    )
    return _count(resources, "SASS", body, source)


def _facts_from_ptx_kernel(module: PtxModule, kernel: PtxFunction) -> KernelFacts:
    required = kernel.directive_numbers(".reqntid")
    shared = [v for v in (*module.variables, *kernel.variables) if v.space == "shared"]
    resources = Resources(
        name=kernel.name,
        arch=module.target,
        registers=None,
        spill_bytes=None,
        spill_known_by="not known from PTX",
        stack_bytes=None,
        shared_bytes=sum(v.count * _type_bytes(v.type) for v in shared),
        barriers=None,
        threads=required or kernel.directive_numbers(".maxntid"),
        threads_required=bool(required),
    )
    return _count(resources, "PTX", kernel.body, kernel)


def _count(resources: Resources, counted_in: str, body: list[Line], source: PtxFunction | None) -> KernelFacts:
    """Count the instructions of a body of SASS or PTX. `source` is the kernel in PTX, if that is known."""
    code = [line for line in instructions(body) if line.base != "NOP"]  # padding
    kinds = [classify(line) for line in code]
    counts = Counter(kind.name for kind in kinds)
    mix = {kind: counts[kind] for kind in CLASSES if counts[kind]}
    loops = find_loops(body)
    accesses = Counter((kind.name, kind.bytes) for kind in kinds if kind.bytes)
    widths = [width for kind, width in accesses if kind in _GLOBAL]
    slow_path = find_slow_path(source) if source else None
    return KernelFacts(
        **vars(resources),
        counted_in=counted_in,
        instructions=mix,
        executed=count_executed(mix, loops),
        accesses=[Access(kind, width, accesses[kind, width]) for kind, width in sorted(accesses)],
        widest_global_bytes=max(widths, default=0),
        narrowest_global_bytes=min(widths, default=0),
        flight_bytes=bytes_in_flight(body),
        predicated=sum(line.guard is not None for line in code),
        uses=_find_uses(code),
        loops=_loop_facts(loops),
        remarks=write_remarks(resources.arch, code, mix, resources.spill_bytes, resources.registers, slow_path),
    )


def _find_uses(code: Sequence[Instruction]) -> list[str]:
    opcodes = {f"{line.opcode}." for line in code}
    return [use for use, heads in _USES.items() if any(opcode.startswith(heads) for opcode in opcodes)]


def _loop_facts(loops: list[Loop]) -> list[LoopFacts]:
    hottest = find_hottest(loops)
    return [
        LoopFacts(
            loop.label,
            loop.depth,
            loop.first_line,
            loop.last_line,
            loop.size,
            loop.instructions,
            loop.sources,
            loop.statement,
            loop.load_bytes,
            loop.waits,
            loop is hottest,
            loop.turns,
            count_executed(loop.instructions, loops, loop),
        )
        for loop in loops
    ]


def _count_spills(
    name: str, code: Sequence[Instruction], source: PtxFunction | None, module: PtxModule, ptxas_log: str
) -> tuple[int | None, str]:
    """Bytes spilled, and how that is known.

    If the PTX declares no local array, every local load and store is a spill. If it does, only ptxas can tell.
    """
    spills = parse_spills(ptxas_log).get(name)
    if spills is not None:
        return spills.total_bytes, "ptxas -v"
    moved = sum(c.bytes for line in code if (c := classify(line)).name in ("local_load", "local_store"))
    if moved == 0:
        return 0, "no local loads or stores in the SASS"
    if source is None:
        return None, "local memory is used; without the PTX a spill looks like a local array"
    if not any(variable.space == "local" for variable in (*module.variables, *source.variables)):
        return moved, "local loads and stores in the SASS; the PTX declares no local array"
    if cuda_tools.find("ptxas"):
        try:
            spills = parse_spills(assemble(module.text, module.target).log).get(name)
        except UserError:
            spills = None
        if spills is not None:
            return spills.total_bytes, "ptxas -v, run again on the PTX"
    return None, "local memory is used, by an array in the PTX or by spills"


def _type_bytes(name: str) -> int:
    digits = "".join(c for c in name.partition("x")[0] if c.isdigit())
    return int(digits) // 8 if digits and len(digits) < 4 else 1
