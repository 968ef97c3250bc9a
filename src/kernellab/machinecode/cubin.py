"""A cubin read as it is: for which GPU, which kernels, and what each of them takes. Disassembled by NVIDIA's tool.

Attributes live in `.nv.info` (for all functions) and `.nv.info.KERNEL`, as small records: a byte that says how
the value is stored, a byte that says which attribute it is, and the value.
"""

from __future__ import annotations

import struct
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from kernellab.base.errors import UserError
from kernellab.machinecode import cuda_tools
from kernellab.machinecode.elf import Elf, read_elf

# How an attribute's value is stored.
_BYTE, _HALF, _SIZED = 2, 3, 4
# Attributes, named as `cuobjdump -elf` names them (EIATTR_…).
_MAX_THREADS, _REQNTID, _FRAME_SIZE, _MIN_STACK_SIZE, _KPARAM_INFO = 0x05, 0x10, 0x11, 0x12, 0x17
_REGCOUNT, _NUM_BARRIERS = 0x2F, 0x4C
# In .nv.compat, where the flags no longer tell: whether code is for one architecture alone (the a of sm_90a).
_COMPAT_EXACT_ARCH = 0x09
_ENTRY = 0x10  # st_other of a kernel, as against a function that kernels call
_SYSTEM_BYTES = 1024
_SECONDS = 120.0


@dataclass(frozen=True)
class CubinKernel:
    """What one kernel takes, per thread or per block, as the driver will read it."""

    name: str
    registers: int
    shared_bytes: int  # static; what a launch adds is not in the file
    stack_bytes: int
    barriers: int
    threads: tuple[int, ...] = ()  # the block this kernel must be launched with, or the largest it may be
    threads_required: bool = False
    param_bytes: tuple[int, ...] = ()
    code_bytes: int = 0


@dataclass(frozen=True)
class Cubin:
    arch: str
    kernels: list[CubinKernel] = field(default_factory=list)
    lines: bool = False  # whether it knows its source lines


def read_cubin(data: bytes) -> Cubin:
    """What a cubin says about itself. A damaged one raises `UserError`."""
    elf = read_elf(data)
    common = elf.section(".nv.info")
    of_function = {kind: {} for kind in (_REGCOUNT, _FRAME_SIZE, _MIN_STACK_SIZE)}  # type: dict[int, dict[int, int]]
    for kind, value in _attributes(common.data if common else b""):
        if kind in of_function and len(value) >= 8:
            function, amount = struct.unpack_from("<II", value)
            of_function[kind][function] = amount
    # From sm_90 on, a block's first KiB is the system's: it counts towards the section but not as the kernel's own.
    reserved = _SYSTEM_BYTES if elf.section(".nv.shared.reserved.0") is not None else 0
    kernels = []
    for index, symbol in enumerate(elf.symbols):
        text = elf.section(f".text.{symbol.name}") if symbol.name else None
        if text is None or symbol.info & 0xF != 2 or not symbol.other & _ENTRY:
            continue
        shared = elf.section(f".nv.shared.{symbol.name}")
        own = elf.section(f".nv.info.{symbol.name}")
        # Older cubins keep the registers in the section's header, and barriers in its flags.
        registers = of_function[_REGCOUNT].get(index, text.info >> 24)
        threads, required, barriers, params = _own(own.data if own else b"", text.flags >> 20 & 0x7F)
        kernels.append(
            CubinKernel(
                symbol.name,
                registers,
                max(0, shared.size - reserved) if shared else 0,
                max(of_function[kind].get(index, 0) for kind in (_FRAME_SIZE, _MIN_STACK_SIZE)),
                barriers,
                threads,
                required,
                params,
                text.size,
            )
        )
    return Cubin(_arch(elf), kernels, elf.section(".debug_line") is not None)


def _arch(elf: Elf) -> str:
    """ABI 8 lays the header's flags out anew: CUDA 12.9 keeps the `a` in them, CUDA 13 in .nv.compat."""
    if elf.abi < 8:
        return f"sm_{elf.flags & 0xFF}{'a' if elf.flags & 0x800 else ''}"
    compat = elf.section(".nv.compat")
    told = _attributes(compat.data if compat else b"")
    exact = elf.flags & 0x8 or any(kind == _COMPAT_EXACT_ARCH and value[:1] == b"\x01" for kind, value in told)
    return f"sm_{elf.flags >> 8 & 0xFF}{'a' if exact else ''}"


def _attributes(data: bytes) -> Iterator[tuple[int, bytes]]:
    at = 0
    while at + 4 <= len(data):
        stored, kind, size = struct.unpack_from("<BBH", data, at)
        at += 4
        if stored == _SIZED:
            yield kind, data[at : at + size]
            at += size
        elif stored in (_BYTE, _HALF):
            yield kind, struct.pack("<H", size)
        else:
            yield kind, b""


def _own(data: bytes, barriers: int) -> tuple[tuple[int, ...], bool, int, tuple[int, ...]]:
    threads: tuple[int, ...] = ()
    required, params = False, {}
    for kind, value in _attributes(data):
        if kind in (_MAX_THREADS, _REQNTID) and len(value) >= 12:
            threads, required = struct.unpack_from("<III", value), kind == _REQNTID
        elif kind == _NUM_BARRIERS and value:
            barriers = value[0]
        elif kind == _KPARAM_INFO and len(value) >= 12:
            _, ordinal, _, described = struct.unpack_from("<IHHI", value)
            params[ordinal] = described >> 18
    return threads, required, barriers, tuple(params[ordinal] for ordinal in sorted(params))


def disassemble(data: bytes) -> str:
    """The cubin's SASS, with source lines where it has them, by `nvdisasm`."""
    read_elf(data)  # says in a sentence what the tool would say in its own way
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "kernel.cubin"
        file.write_bytes(data)
        try:
            done = subprocess.run(
                # Dataflow analysis is for the branches of GPUs before Volta, and a quarter of the time.
                [cuda_tools.require("nvdisasm"), "-c", "-g", "-ndf", str(file)],
                capture_output=True,
                timeout=_SECONDS,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise UserError(f"nvdisasm did not come to an end within {_SECONDS:.0f} s on this cubin") from None
    if done.returncode != 0:
        said = done.stderr.decode("utf-8", "replace").strip().replace(str(file), "the cubin")
        raise UserError("nvdisasm cannot read this cubin: it may be for a newer GPU than the tool knows", said)
    return done.stdout.decode("utf-8", "replace")
