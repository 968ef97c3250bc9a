"""Reads a cubin: its architecture, its kernels, and the resources each needs. `nvdisasm` disassembles it.

Resources are attributes in `.nv.info` (for all functions) and `.nv.info.KERNEL`. An attribute is a small record: a
byte for the format of the value, a byte for the attribute's number, and the value.
"""

from __future__ import annotations

import struct
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

from kernellab.base.errors import UserError
from kernellab.machinecode import cuda_tools
from kernellab.machinecode.elf import Elf, read_elf

# Formats of an attribute's value.
_BYTE, _HALF, _SIZED = 2, 3, 4
# Numbers of attributes, under the names `cuobjdump -elf` gives them (EIATTR_…).
_MAX_THREADS, _REQNTID, _FRAME_SIZE, _MIN_STACK_SIZE, _KPARAM_INFO = 0x05, 0x10, 0x11, 0x12, 0x17
_REGCOUNT, _NUM_BARRIERS = 0x2F, 0x4C
# In .nv.compat, if the header's flags lack it: whether code is for one architecture only (the a of sm_90a).
_COMPAT_EXACT_ARCH = 0x09
_ENTRY = 0x10  # st_other of a kernel; a function that kernels call does not have it
_SYSTEM_BYTES = 1024
_TIMEOUT_S = 120.0


@dataclass(frozen=True)
class CubinKernel:
    """The resources of one kernel, per thread or per block, as the driver reads them."""

    name: str
    registers: int
    shared_bytes: int  # static; a launch may add dynamic bytes, which are not in the file
    stack_bytes: int
    barriers: int
    threads: tuple[int, ...] = ()  # the block size required, or the largest allowed; empty if there is no limit
    threads_required: bool = False
    param_bytes: tuple[int, ...] = ()
    code_bytes: int = 0


@dataclass(frozen=True)
class Cubin:
    arch: str
    kernels: list[CubinKernel] = field(default_factory=list)
    lines: bool = False  # whether it contains source lines


def read_cubin(data: bytes) -> Cubin:
    """Read a cubin. Raises `UserError` if it is damaged."""
    elf = read_elf(data)
    common = elf.section(".nv.info")
    amounts: dict[int, dict[int, int]] = {number: {} for number in (_REGCOUNT, _FRAME_SIZE, _MIN_STACK_SIZE)}
    for number, value in _read_attributes(common.data if common else b""):
        if number in amounts and len(value) >= 8:
            function, amount = struct.unpack_from("<II", value)
            amounts[number][function] = amount
    # From sm_90 on, the system reserves a block's first KiB. The section includes it, but the kernel does not use it.
    reserved = _SYSTEM_BYTES if elf.section(".nv.shared.reserved.0") is not None else 0
    kernels = []
    for index, symbol in enumerate(elf.symbols):
        text = elf.section(f".text.{symbol.name}") if symbol.name else None
        if text is None or symbol.info & 0xF != 2 or not symbol.other & _ENTRY:
            continue
        shared = elf.section(f".nv.shared.{symbol.name}")
        info = elf.section(f".nv.info.{symbol.name}")
        kernel = CubinKernel(
            symbol.name,
            # Older cubins keep the registers in the section's header, and barriers in its flags.
            registers=amounts[_REGCOUNT].get(index, text.info >> 24),
            shared_bytes=max(0, shared.size - reserved) if shared else 0,
            stack_bytes=max(amounts[number].get(index, 0) for number in (_FRAME_SIZE, _MIN_STACK_SIZE)),
            barriers=text.flags >> 20 & 0x7F,
            code_bytes=text.size,
        )
        kernels.append(_add_kernel_attributes(kernel, info.data if info else b""))
    return Cubin(_read_arch(elf), kernels, elf.section(".debug_line") is not None)


def _read_arch(elf: Elf) -> str:
    """The architecture. ABI 8 changed the layout of the header's flags. CUDA 12.9 has the `a` in the flags, CUDA 13 in
    .nv.compat."""
    if elf.abi < 8:
        return f"sm_{elf.flags & 0xFF}{'a' if elf.flags & 0x800 else ''}"
    compat = elf.section(".nv.compat")
    attributes = _read_attributes(compat.data if compat else b"")
    exact = elf.flags & 0x8 or any(
        number == _COMPAT_EXACT_ARCH and value[:1] == b"\x01" for number, value in attributes
    )
    return f"sm_{elf.flags >> 8 & 0xFF}{'a' if exact else ''}"


def _read_attributes(data: bytes) -> Iterator[tuple[int, bytes]]:
    """The number and the value of each attribute."""
    at = 0
    while at + 4 <= len(data):
        value_format, number, size = struct.unpack_from("<BBH", data, at)
        at += 4
        if value_format == _SIZED:
            yield number, data[at : at + size]
            at += size
        elif value_format in (_BYTE, _HALF):
            yield number, struct.pack("<H", size)
        else:
            yield number, b""


def _add_kernel_attributes(kernel: CubinKernel, data: bytes) -> CubinKernel:
    """The kernel with the attributes of its own section, `.nv.info.KERNEL`."""
    threads, required, barriers = kernel.threads, kernel.threads_required, kernel.barriers
    params: dict[int, int] = {}
    for number, value in _read_attributes(data):
        if number in (_MAX_THREADS, _REQNTID) and len(value) >= 12:
            threads, required = struct.unpack_from("<III", value), number == _REQNTID
        elif number == _NUM_BARRIERS and value:
            barriers = value[0]
        elif number == _KPARAM_INFO and len(value) >= 12:
            _, ordinal, _, size_bits = struct.unpack_from("<IHHI", value)
            params[ordinal] = size_bits >> 18
    return replace(
        kernel,
        threads=threads,
        threads_required=required,
        barriers=barriers,
        param_bytes=tuple(params[ordinal] for ordinal in sorted(params)),
    )


def disassemble(data: bytes) -> str:
    """The cubin's SASS as `nvdisasm` prints it, with source lines if the cubin contains them."""
    read_elf(data)  # its errors are clearer than those of nvdisasm
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "kernel.cubin"
        file.write_bytes(data)
        try:
            process = subprocess.run(
                # -ndf skips dataflow analysis: only GPUs before Volta need it, and it takes a quarter of the time.
                [cuda_tools.require("nvdisasm"), "-c", "-g", "-ndf", str(file)],
                capture_output=True,
                timeout=_TIMEOUT_S,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise UserError(f"nvdisasm did not finish this cubin within {_TIMEOUT_S:.0f} s") from None
    if process.returncode != 0:
        log = process.stderr.decode("utf-8", "replace").strip().replace(str(file), "the cubin")
        raise UserError("nvdisasm cannot read this cubin: it may be for a GPU newer than the tool supports", log)
    return process.stdout.decode("utf-8", "replace")
