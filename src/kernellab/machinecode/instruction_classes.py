"""The class of work an instruction belongs to: the memory it accesses and how many bytes, or the unit that executes it.

An opcode that is not in the tables belongs to the class "unknown".
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from kernellab.machinecode.instructions import REGISTER_BYTES, Instruction

# Every class, in the order of display.
CLASSES = {
    "global_load": "loads from global memory",
    "global_store": "stores to global memory",
    "global_atomic": "atomics on global memory",
    "async_copy": "cp.async: global to shared memory without registers",
    "bulk_copy": "TMA: whole tiles moved by the copy engine",
    "generic_load": "loads through a generic address",
    "generic_store": "stores through a generic address",
    "shared_load": "loads from shared memory",
    "shared_store": "stores to shared memory",
    "shared_atomic": "atomics on shared memory",
    "local_load": "loads from local memory: spilled registers or arrays",
    "local_store": "stores to local memory: spilled registers or arrays",
    "constant_load": "parameters and constants",
    "tensor_load": "loads from tensor memory",
    "tensor_store": "stores to tensor memory",
    "tensor_mma": "tensor core, a warp at a time (mma)",
    "tensor_wgmma": "tensor core, four warps at a time (wgmma)",
    "tensor_tcgen05": "tensor core with its own memory (tcgen05)",
    "fp32": "fp32 arithmetic",
    "fp16": "fp16 and bf16 arithmetic",
    "fp64": "fp64 arithmetic",
    "special": "special functions: exp2, log2, sin, reciprocal, square root",
    "integer": "integer arithmetic: addresses, bits, comparisons",
    "conversion": "conversions between types",
    "control": "branches and returns",
    "synchronisation": "barriers, fences, waiting",
    "movement": "moves between registers and between threads",
    "unknown": "opcodes that are not in the tables",
}
MEMORY = tuple(name for name in CLASSES if name.endswith(("_load", "_store", "_atomic", "_copy")))


@dataclass(frozen=True, slots=True)
class InstructionClass:
    """`bytes` is how many bytes one thread moves; 0 if that is not known."""

    name: str
    bytes: int = 0


def classify(instruction: Instruction) -> InstructionClass:
    """The class of an instruction of PTX or SASS. Only SASS opcodes are in capitals."""
    return _classify_sass(instruction) if instruction.opcode[:1].isupper() else _classify_ptx(instruction)


# PTX -----------------------------------------------------------------------------------------------------

_PTX_WORDS: dict[str, str] = {
    "control": "bra brx call ret exit trap brkpt",
    "synchronisation": "bar barrier mbarrier fence membar griddepcontrol nanosleep elect setmaxnreg "
    "clusterlaunchcontrol",
    "special": "ex2 lg2 sin cos tanh rcp sqrt rsqrt",
    "integer": "shl shr and or xor not cnot lop3 shf bfe bfi bfind brev popc clz fns szext bmsk sad dp4a dp2a "
    "addc subc madc mul24 mad24 isspacep",
    "movement": "mov prmt shfl selp slct vote activemask match redux cvta mapa getctarank alloca stacksave "
    "stackrestore createpolicy movmatrix discard prefetch prefetchu applypriority istypep pmevent",
    "tensor_mma": "mma wmma",
    "tensor_wgmma": "wgmma",
    "tensor_tcgen05": "tcgen05",
    "conversion": "cvt",
    "bulk_copy": "tensormap multimem",
}
_PTX = {word: name for name, words in _PTX_WORDS.items() for word in words.split()}
_ARITHMETIC = frozenset(
    ("add", "sub", "mul", "mad", "fma", "div", "rem", "abs", "neg", "min", "max", "set", "setp", "copysign", "testp")
)
_SPACES = {
    "global": "global",
    "shared": "shared",
    "shared::cta": "shared",
    "shared::cluster": "shared",
    "local": "local",
    "param": "constant",
    "const": "constant",
}
_TYPE = re.compile(r"(?:[bsuf]|bf)(\d{1,3})(x2)?")


def _classify_ptx(instruction: Instruction) -> InstructionClass:
    base, modifiers = instruction.base, instruction.modifiers
    if base in ("ld", "ldu", "st"):
        space = next((_SPACES[m] for m in modifiers if m in _SPACES), "generic")
        action = "store" if base == "st" and space != "constant" else "load"
        return InstructionClass(f"{space}_{action}", _ptx_bytes(modifiers))
    if base in ("atom", "red"):
        if "async" in modifiers:
            return InstructionClass("synchronisation")
        space = next((_SPACES[m] for m in modifiers if m in _SPACES), "global")
        if space not in ("global", "shared"):
            return InstructionClass("unknown")
        return InstructionClass(f"{space}_atomic", _ptx_bytes(modifiers))
    if base in ("ldmatrix", "stmatrix"):
        count = next((int(m[1:]) for m in modifiers if m in ("x1", "x2", "x4")), 1)
        return InstructionClass("shared_load" if base == "ldmatrix" else "shared_store", count * REGISTER_BYTES)
    if base == "cp":
        return _ptx_copy(instruction)
    if base == "wgmma" and not instruction.has("mma_async"):
        return InstructionClass("synchronisation")
    if base == "tcgen05":
        return _ptx_tcgen05(instruction)
    if base in _ARITHMETIC:
        return InstructionClass("special" if base == "div" and _ptx_unit(modifiers) == "fp32" else _ptx_unit(modifiers))
    return InstructionClass(_PTX.get(base, "unknown"))


def _ptx_unit(modifiers: tuple[str, ...]) -> str:
    """The unit for the type computed in, which comes first: `sub.rn.f32.f16` computes in fp32."""
    first = next((m for m in modifiers if _TYPE.fullmatch(m)), "")
    if first == "f64":
        return "fp64"
    if first.startswith("f32"):
        return "fp32"
    if first.startswith(("f16", "bf16")):
        return "fp16"
    return "integer"


def _ptx_bytes(modifiers: tuple[str, ...]) -> int:
    bits, count = 0, 1
    for modifier in modifiers:
        if modifier in ("v2", "v4", "v8"):
            count = int(modifier[1])
        elif match := _TYPE.fullmatch(modifier):
            bits = int(match[1]) * (2 if match[2] else 1)
    return bits * count // 8


def _ptx_copy(instruction: Instruction) -> InstructionClass:
    if instruction.has("commit_group", "wait_group", "wait_all", "mbarrier"):
        return InstructionClass("synchronisation")
    if instruction.has("bulk", "reduce"):
        return InstructionClass("bulk_copy")
    size = instruction.operands[2].value if len(instruction.operands) > 2 else None
    return InstructionClass("async_copy", int(size) if isinstance(size, int) else 0)


def _ptx_tcgen05(instruction: Instruction) -> InstructionClass:
    kind = instruction.modifiers[0] if instruction.modifiers else ""
    if kind in ("ld", "st"):
        return InstructionClass("tensor_load" if kind == "ld" else "tensor_store")
    if kind == "cp":
        return InstructionClass("bulk_copy")
    return InstructionClass("tensor_tcgen05" if kind in ("mma", "shift") else "synchronisation")


# SASS ----------------------------------------------------------------------------------------------------

_SASS_WORDS: dict[str, str] = {
    "fp32": "FADD FMUL FFMA FMNMX FMNMX3 FSEL FSET FSETP FCHK FSWZADD FADD2 FMUL2 FFMA2 FHADD FHFMA FADD32I FMUL32I "
    "FFMA32I UFADD UFMUL UFFMA UFSETP UFSEL UFMNMX UFSET",
    "fp16": "HADD2 HMUL2 HFMA2 HMNMX2 HSET2 HSETP2 HADD2_32I HMUL2_32I HFMA2_32I",
    "fp64": "DADD DMUL DFMA DSETP DMNMX DSET",
    "special": "MUFU RRO",
    "conversion": "F2F F2FP F2I F2IP I2F I2FP I2I I2IP FRND UF2FP UI2F UI2FP UF2F UF2I UFRND F2IADD",
    "integer": "IADD IADD2 IADD3 IADD32I IMAD IMUL IDP IDP4A IMNMX IABS ISETP ISET ISCADD LEA LOP LOP3 LOP32I "
    "SHF SHL SHR BFE BFI BMSK BREV FLO POPC PLOP3 PSETP SGXT VABSDIFF VABSDIFF4 VIADD VIMNMX VIMNMX3 VIADDMNMX VHMNMX "
    "UIADD3 UIMAD UISETP ULEA ULOP ULOP3 USHF USHL USHR UBMSK UBREV UFLO UPOPC UPLOP3 USGXT UIABS UIMNMX UVIADD "
    "UVIMNMX UPSETP USEL XMAD LEPC VIADDMNMX UIADD UISCADD ULOP32I",
    "movement": "MOV MOV32I UMOV SEL PRMT UPRMT S2R S2UR CS2R CS2UR P2R R2P UP2UR UR2UP R2UR SHFL VOTE VOTEU "
    "MATCH REDUX CREDUX UREDUX B2R R2B R2UR GETLMEMBASE SETLMEMBASE RPCMOV BMOV MOVM PIXLD AL2P ISBERD "
    "NOP QSPC LDCR SETCTAID",
    "control": "BRA BRX BRXU JMP JMX JMXU CALL RET EXIT BREAK BRK CONT SSY SYNC PBK PCNT KILL RTT BSSY BSYNC BPT "
    "PREEXIT YIELD UVIRTCOUNT CAL PRET ACQBULK ENDCOLLECTIVE",
    "synchronisation": "BAR DEPBAR MEMBAR ERRBAR CGAERRBAR CCTL CCTLL CCTLT WARPSYNC NANOSLEEP SYNCS FENCE LDGDEPBAR "
    "UCGABAR_ARV UCGABAR_WAIT ELECT WARPGROUP WARPGROUPSET ARRIVES UTMACCTL UTMACMDFLUSH UTCBAR UTCATOMSWS "
    "ACQSHMINIT USETMAXREG USETSHMSZ UCGABAR UTMAPF UBLKPF UGETNEXTWORKID USYNCS UCCTL PMTRIG",
    "tensor_mma": "HMMA IMMA BMMA DMMA QMMA OMMA SMMA",
    "tensor_wgmma": "HGMMA IGMMA BGMMA QGMMA",
    "tensor_tcgen05": "UTCHMMA UTCIMMA UTCQMMA UTCOMMA UTCMXQMMA UTCSHIFT",
    "tensor_load": "LDTM",
    "tensor_store": "STTM",
    "bulk_copy": "UTMALDG UTMASTG UTMAREDG UBLKCP UBLKRED UTCCP UTMASTGIM UTMALDGIM",
    "constant_load": "LDC ULDC LDCU",
    "shared_load": "LDS LDSM ULDS",
    "shared_store": "STS STSM USTS STAS",
    "shared_atomic": "ATOMS REDS REDAS",
    "local_load": "LDL",
    "local_store": "STL",
    "global_load": "LDG TLD TEX TLD4 TXQ SULD",
    "global_store": "STG SUST",
    "global_atomic": "ATOM ATOMG RED REDG SUATOM SURED",
    "async_copy": "LDGSTS",
    "generic_load": "LD",
    "generic_store": "ST",
}
_SASS = {word: name for name, words in _SASS_WORDS.items() for word in words.split()}
_SASS_BYTES = {"U8": 1, "S8": 1, "U16": 2, "S16": 2, "64": 8, "128": 16, "256": 32}


def _classify_sass(instruction: Instruction) -> InstructionClass:
    base, modifiers = instruction.base, instruction.modifiers
    name = _SASS.get(base, "unknown")
    if name in MEMORY and name not in ("bulk_copy", "tensor_load", "tensor_store"):
        return InstructionClass(name, _sass_bytes(base, modifiers))
    if base == "IMAD" and instruction.has("MOV"):
        return InstructionClass("movement")
    if base == "HADD2" and instruction.has("F32"):
        return InstructionClass("conversion")  # -RZ + x, converted to fp32
    if base == "HFMA2" and [o.name for o in instruction.operands[1:3]] == ["RZ", "RZ"]:
        return InstructionClass("movement")  # 0·0 + constant: loads a constant without using the integer unit
    return InstructionClass(name)


def _sass_bytes(base: str, modifiers: tuple[str, ...]) -> int:
    if base in ("LDSM", "STSM"):
        return REGISTER_BYTES * next((int(m) for m in reversed(modifiers) if m in ("1", "2", "4")), 1)
    return next((_SASS_BYTES[m] for m in modifiers if m in _SASS_BYTES), REGISTER_BYTES)
