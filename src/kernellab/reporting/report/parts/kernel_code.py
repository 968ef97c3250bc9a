"""The kernels of a run with the texts they were compiled from and to, linked line by line."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from kernellab.base.json import JsonObject
from kernellab.base.text import printable
from kernellab.machinecode.source_links import LinkedText, SourcePart, link_code
from kernellab.reporting.html.parts import label
from kernellab.reporting.report.parts.section import Run
from kernellab.reporting.sentences.configuration import describe_configuration
from kernellab.reporting.terminal.inspection import InspectedKernel, build_table, list_kernels
from kernellab.reporting.text.numbers import case_label

_MOST_KERNELS = 60
_MOST_CHARACTERS = 2_500_000  # of all texts, so that the report stays small
_MOST_BYTES, _MOST_BYTES_READ = 4 << 20, 8 << 20  # of a text, and of all: as many are read in seconds
_MOST_LINES = 4000  # of a text in the report
_LINE_CHARACTERS = 300
_NAME_CHARACTERS = 120
_SOURCES = ("py", "cu")  # the levels that are an author's source


@dataclass
class KernelCode:
    """One kernel: its facts, and its texts as a script reads them."""

    op: str
    title: str
    facts: Sequence[tuple[str, str]]
    remarks: Sequence[str]
    texts: JsonObject
    cases: list[str] = field(default_factory=list)
    cut: list[str] = field(default_factory=list)  # what the report leaves out, in sentences
    characters: int = 0


def read_kernels(run: Run) -> tuple[list[KernelCode], bool]:
    """The kernels whose PTX or SASS is in the run's folder, as many as there is room for, and whether there are more.

    Kernels with the same texts and facts at several cases are one.
    """
    read: dict[str, KernelCode] = {}
    bytes_read = characters = 0
    for kernel in list_kernels(run.record):
        if not {"ptx", "sass"} & kernel["files"].keys():
            continue
        if len(read) >= _MOST_KERNELS or bytes_read > _MOST_BYTES_READ:
            return list(read.values()), True
        texts = {level: _read(run, kernel, level) for level in ("ptx", "sass")}
        if not any(texts.values()):
            continue
        code = _read_kernel(run, kernel, texts["ptx"], texts["sass"])
        bytes_read += sum(map(len, texts.values()))
        known = read.setdefault(repr((code.op, code.title, code.facts, code.texts)), code)
        if known is not code:
            known.cases += [case for case in code.cases if case not in known.cases]
            continue
        characters += code.characters
        if characters > _MOST_CHARACTERS and len(read) > 1:
            return list(read.values())[:-1], True
    return list(read.values()), False


def _read_kernel(run: Run, kernel: InspectedKernel, ptx: str, sass: str) -> KernelCode:
    level = next((level for level in _SOURCES if level in kernel["files"]), "")
    source = _read(run, kernel, level) if level else ""
    parts = _source_parts(kernel)
    linked = link_code(source, parts, ptx, sass)
    table = build_table([kernel]) if "registers" in kernel else None
    facts = [
        (column.title, str(cell))
        for column, cell in (zip(table.columns, table.rows[0].cells, strict=True) if table else ())
        if str(cell) and column.title not in ("impl", "kernel", "arch", "configuration")
    ]
    code = KernelCode(
        op=kernel["op"],
        title=_title(kernel),
        facts=[(name, label(value)) for name, value in facts],
        remarks=[label(remark) for remark in kernel.get("remarks", ())],
        texts={},
        cases=[label(case_label(kernel["case"]), _NAME_CHARACTERS)] if kernel["case"] else [],
    )
    for name, text, file in (
        ("source", linked.source, kernel["files"].get(level, "")),
        ("ptx", linked.ptx, kernel["files"].get("ptx", "")),
        ("sass", linked.sass, kernel["files"].get("sass", "")),
    ):
        _add_text(code, name, text, label(file, _NAME_CHARACTERS))
    code.texts["files"] = {
        str(part.text_line - 1): label(part.file.rpartition("/")[2], _NAME_CHARACTERS) for part in parts
    }
    return code


def _title(kernel: InspectedKernel) -> str:
    parts = [kernel["impl"], kernel["name"], kernel["arch"], describe_configuration(kernel["tuned"], kernel["config"])]
    parts += [kernel["pass"]] if kernel["pass"] != "forward" else []
    return " · ".join(label(part, _NAME_CHARACTERS) for part in parts if part)


def _source_parts(kernel: InspectedKernel) -> list[SourcePart]:
    """Where each source begins in the text that the run keeps. Older runs say it only of a single source."""
    sources = kernel["sources"]
    if len(sources) == 1:
        return [SourcePart(sources[0]["file"], sources[0]["first_line"], sources[0].get("text_line", 1))]
    return [SourcePart(s["file"], s["first_line"], s["text_line"]) for s in sources if "text_line" in s]


def _add_text(code: KernelCode, name: str, text: LinkedText, file: str) -> None:
    if len(text.lines) > _MOST_LINES:
        code.cut.append(f"{file} has {len(text.lines)} lines; the first {_MOST_LINES} are shown.")
    lines = [printable(line, _LINE_CHARACTERS) for line in text.lines[:_MOST_LINES]]
    code.characters += sum(map(len, lines)) + 20 * len(lines)
    code.texts[name] = {
        "lines": list(lines),
        "numbers": list(text.numbers[:_MOST_LINES]),
        "groups": [list(groups) for groups in text.groups[:_MOST_LINES]],
        "outer": [list(groups) for groups in text.outer[:_MOST_LINES]],
    }


def _read(run: Run, kernel: InspectedKernel, level: str) -> str:
    """A text of a kernel; empty where the run has none."""
    name = kernel["files"].get(level)
    content = run.read(name, _MOST_BYTES) if name else None
    return content.decode("utf-8", "replace") if content else ""
