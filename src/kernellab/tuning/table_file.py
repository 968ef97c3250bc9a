"""The file of a tuned table: a section is put in, or taken out, and the file is replaced as a whole."""

from __future__ import annotations

from pathlib import Path

from kernellab.base.errors import UserError
from kernellab.base.paths import replace_file
from kernellab.library.tuned import read_tuned
from kernellab.tuning.table_text import Section, join_sections, section_text, split_sections


def put_section(path: Path, section: Section) -> None:
    """Write an op's section. Those of other ops stay, unless the table is for other kernels or cannot be read."""
    sections = {}
    if path.exists() and not read_tuned(path, section.stamp.architecture).problem:
        sections = split_sections(path.read_text())
    sections[section.op] = section_text(section)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        replace_file(path, join_sections(section.stamp, sections).encode())
    except OSError as error:
        raise UserError(f"cannot write the table {path}: {error.strerror}. Name another file with --out") from None


def remove_sections(path: Path, ops: list[str]) -> list[str]:
    """Take sections out, all of them where no op is named; the ops whose sections were there. A table without sections
    is removed."""
    if not path.exists():
        return []
    text = path.read_text(errors="replace")
    sections = split_sections(text)
    removed = [op for op in sections if op in ops or not ops]
    if not ops or len(removed) == len(sections):
        path.unlink()
    else:
        first = min(text.index(part) for part in sections.values())
        kept = "\n\n".join(part.strip() for op, part in sections.items() if op not in removed)
        replace_file(path, f"{text[:first]}{kept}\n".encode())
    return removed
