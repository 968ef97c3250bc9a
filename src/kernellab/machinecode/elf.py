"""Reads the parts of ELF64 that a cubin uses: the header's flags, sections by name, symbols."""

from __future__ import annotations

import functools
import struct
from dataclasses import dataclass

from kernellab.base.errors import UserError

CUDA_MACHINE = 190  # e_machine of NVIDIA's GPUs
_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
_SECTION = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_NOBITS = 8
_MOST_SECTIONS = 65536


@dataclass(frozen=True)
class Section:
    name: str
    flags: int
    info: int
    size: int
    data: bytes  # empty for a section that only reserves memory


@dataclass(frozen=True)
class Symbol:
    name: str
    info: int
    other: int
    section: int


@dataclass(frozen=True)
class Elf:
    abi: int  # EI_ABIVERSION: it determines the layout of NVIDIA's flags
    flags: int
    sections: list[Section]
    symbols: list[Symbol]

    def section(self, name: str) -> Section | None:
        return self._by_name.get(name)

    @functools.cached_property
    def _by_name(self) -> dict[str, Section]:
        return {section.name: section for section in reversed(self.sections)}


def read_elf(data: bytes) -> Elf:
    """Read an ELF file for NVIDIA GPUs. Raises `UserError` if it is another file, damaged or truncated."""
    if data[:4] != b"\x7fELF":
        raise UserError("this is not a cubin: it does not begin like an ELF file. ptxas and NVRTC produce cubins")
    try:
        return _read(data)
    except (struct.error, IndexError) as error:
        raise UserError(f"the cubin is damaged or truncated: {error}. Compile it again") from None


def _read(data: bytes) -> Elf:
    ident, _, machine, _, _, _, at, flags, _, _, _, size, count, names_at = _HEADER.unpack_from(data)
    if ident[4] != 2 or machine != CUDA_MACHINE:
        raise UserError("this ELF file contains no code for NVIDIA GPUs: it is machine code of another processor")
    if size != _SECTION.size or at + count * size > len(data):
        raise UserError("the cubin is damaged or truncated: its section table lies outside the file. Compile it again")
    raw = [_SECTION.unpack_from(data, at + i * size) for i in range(min(count, _MOST_SECTIONS))]
    names = _bytes(data, raw[names_at])
    sections = [
        Section(_string(names, name), flag, info, length, b"" if kind == _NOBITS else _bytes(data, entry))
        for entry in raw
        for name, kind, flag, _, _, length, _, info, _, _ in (entry,)
    ]
    symbols: list[Symbol] = []
    for section, entry in zip(sections, raw, strict=True):
        if section.name == ".symtab" and entry[6] < len(sections):
            strings = sections[entry[6]].data
            whole = len(section.data) // _SYMBOL.size * _SYMBOL.size
            for name, info, other, index, _, _ in _SYMBOL.iter_unpack(section.data[:whole]):
                symbols.append(Symbol(_string(strings, name), info, other, index))
    return Elf(ident[8], flags, sections, symbols)


def _bytes(data: bytes, entry: tuple[int, ...]) -> bytes:
    offset, size = entry[4], entry[5]
    return data[offset : offset + size]


def _string(strings: bytes, at: int) -> str:
    end = strings.find(b"\0", at)
    return strings[at : end if end >= 0 else len(strings)].decode("utf-8", "replace")
