"""Prints machine code in the terminal: facts as a table, PTX explained line by line, two kernels side by side."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from kernellab.codeanalysis.diff import CountPair, DiffRow, FactValue, KernelDiff
from kernellab.codeanalysis.facts import KernelFacts, LoopFacts
from kernellab.machinecode.instruction_classes import CLASSES
from kernellab.machinecode.kernel_names import short_name
from kernellab.ptxwords.explain import ExplainedLine
from kernellab.ptxwords.stages import STAGES
from kernellab.reporting.text.numbers import count
from kernellab.reporting.text.table import Column, Row, Table, print_table

_CONTEXT = 2  # lines of equal code shown around a difference
_MAX_INSTRUCTION_LENGTH = 100  # characters; a wgmma names 64 registers
_MAX_OPCODES = 12
_MAX_LOOPS = 4
_NARROWEST = 12  # characters of the column of a kernel
_STYLES = {"same": "dim", "values": "cyan", "changed": "yellow", "left": "red", "right": "green"}
_ROW_KINDS = {
    "same": "the same",
    "values": "the same on other values (≈)",
    "changed": "changed (- +)",
    "left": "only left (-)",
    "right": "only right (+)",
}


def show_facts(kernels: Sequence[KernelFacts], notes: Iterable[str], out: Console) -> None:
    """A table with a column per kernel, then the loops and remarks of each."""
    names = [short_name(facts.name) for facts in kernels]
    columns = [Column("", "left", style="dim"), *(Column(name, "left", wrap_to=_NARROWEST) for name in names)]
    rows = [Row([title, *values]) for title, values in _facts_rows(kernels)]
    print_table(Table(columns, rows, header_style="bold"), out)
    for facts in kernels:
        prefix = f"{short_name(facts.name)}: " if len(kernels) > 1 else ""
        for sentence in _describe_loops(facts.loops):
            print_indented(f"{prefix}{sentence}", 1, out)
        for remark in facts.remarks:
            print_indented(f"{prefix}{remark}", 1, out, "yellow")
    for note in notes:
        print_indented(note, 1, out, "dim")


def _facts_rows(kernels: Sequence[KernelFacts]) -> list[tuple[str, list[str]]]:
    rows = [
        ("architecture", [facts.arch for facts in kernels]),
        ("registers per thread", [_or_unknown(facts.registers) for facts in kernels]),
        ("spilled bytes", [_or_unknown(facts.spill_bytes) for facts in kernels]),
        ("stack bytes", [_or_unknown(facts.stack_bytes) for facts in kernels]),
        ("shared bytes, static", [_or_unknown(facts.shared_bytes) for facts in kernels]),
        ("barriers", [_or_unknown(facts.barriers) for facts in kernels]),
        ("threads per block", [describe_threads(facts) for facts in kernels]),
        ("global access, bytes", [_describe_widths(facts) for facts in kernels]),
        ("uses", [", ".join(facts.uses) or "–" for facts in kernels]),
        ("predicated", [f"{facts.predicated} of {facts.size}" for facts in kernels]),
        ("", [f"{facts.counted_in} instructions" for facts in kernels]),
    ]
    for name in CLASSES:
        if any(name in facts.instructions for facts in kernels):
            rows.append((name.replace("_", " "), [_describe_class(facts, name) for facts in kernels]))
    return rows


def _or_unknown(value: int | None) -> str:
    return "not known" if value is None else str(value)


def describe_threads(facts: KernelFacts) -> str:
    if not facts.threads:
        return "any" if facts.threads is not None else "not known"
    return f"{'exactly' if facts.threads_required else 'at most'} {math.prod(facts.threads)}"


def _describe_widths(facts: KernelFacts) -> str:
    if not facts.widest_global_bytes:
        return "–"
    low, high = facts.narrowest_global_bytes, facts.widest_global_bytes
    return str(high) if low == high else f"{low} to {high}"


def _describe_class(facts: KernelFacts, name: str) -> str:
    """The instructions of one class, with the bytes they move: `24 (16 B × 16, 4 B × 8)`."""
    total = facts.instructions.get(name, 0)
    if not total:
        return "–"
    widths = [f"{a.bytes} B × {a.count}" for a in facts.accesses if a.kind == name and name != "constant_load"]
    return f"{total} ({', '.join(reversed(widths))})" if widths else str(total)


def _describe_loops(loops: Sequence[LoopFacts]) -> list[str]:
    """The hottest first, then the largest."""
    ranked = sorted(loops, key=lambda loop: (not loop.hottest, loop.waits, -loop.size))
    rest = ranked[_MAX_LOOPS:]
    more = [f"and {count(len(rest), 'smaller loop')}"] if rest else []
    return [*map(_describe_loop, ranked[:_MAX_LOOPS]), *more]


def _describe_loop(loop: LoopFacts) -> str:
    parts = ", ".join(f"{number} {name.replace('_', ' ')}" for name, number in list(loop.instructions.items())[:5])
    where = f" ({', '.join(loop.sources)})" if loop.sources else ""
    kind = "waiting loop" if loop.waits else "hottest loop" if loop.hottest else "loop"
    depth = f", {loop.depth} deep" if loop.depth > 1 else ""
    if loop.turns is not None:
        iterations = f", {count(loop.turns, 'iteration')}"
    else:
        iterations = "" if loop.waits else ", trip count not known, counted once"
    return f"{kind} at {loop.label}{where}{depth}{iterations}: {count(loop.size, 'instruction')}: {parts}"


def print_indented(text: str, indent: int, out: Console, style: str = "") -> None:
    """Print indented text. A terminal wraps it with the same indent; piped, it stays one line."""
    if out.is_terminal:
        out.print(Padding(Text(text, style=style), (0, 0, 0, indent)))
    else:
        out.print(Text(f"{'':{indent}}{text}", style=style), soft_wrap=True)


# Explained PTX ---------------------------------------------------------------------------------------------


def show_explained(lines: Sequence[ExplainedLine], out: Console) -> None:
    """Each line of PTX with its sentence below; a heading where the stage or the source line changes."""
    width = max((len(str(line.line)) for line in lines), default=1)
    previous: tuple[str, str | None] = ("", None)
    for line in fold_library_constants(lines):
        current = (line.stage, line.source_line)
        if current != previous:
            source = f"  {line.source_line}" if line.source_line else ""
            out.print()
            out.print(Text.assemble((STAGES[line.stage], "bold"), (source, "dim")))
            previous = current
        out.print(Text(f" {line.line:>{width}}  {shorten(line.text)}", style="cyan"), soft_wrap=True)
        print_indented(line.words, width + 3, out, "" if line.known else "yellow")
    out.print()
    out.print(summarise_explained(lines))


def summarise_explained(lines: Sequence[ExplainedLine]) -> str:
    unknown = sum(not line.known for line in lines)
    return f"{count(len(lines), 'line')} explained" + (f", {unknown} of them unknown" if unknown else "")


def fold_library_constants(lines: Sequence[ExplainedLine]) -> Iterator[ExplainedLine]:
    """CUDA's headers add hundreds of constants: keep the first of each run of them, and say how many follow."""
    for stage, run in itertools.groupby(lines, key=lambda line: line.stage):
        if stage != "library":
            yield from run
            continue
        first, *more = run
        words = f"{first.words}; and {len(more)} more like it" if more else first.words
        yield replace(first, words=words)


def shorten(text: str) -> str:
    limit = _MAX_INSTRUCTION_LENGTH
    return text if len(text) <= limit else f"{text[: limit - 20]} … {text[-15:]}"


# Two kernels -----------------------------------------------------------------------------------------------


def show_diff(diff: KernelDiff, names: tuple[str, str], level: str, out: Console) -> None:
    """Facts, instruction mix and code of two kernels; of the code only the differences with some context."""
    rows = []
    for pair in diff.facts:
        style = "bold" if pair.differs else "dim"
        cells = [_describe_value(pair.left), _describe_value(pair.right), _describe_change(pair.left, pair.right)]
        name = Text(pair.name.replace("_", " "), style="dim")
        rows.append(Row([name, *(Text(text, style=style) for text in cells)]))
    print_table(Table(_diff_columns(names), rows, header_style="bold"), out)
    _show_counts("instructions by class", diff.classes, names, out)
    _show_counts("opcodes that differ", diff.opcodes[:_MAX_OPCODES], names, out)
    if len(diff.opcodes) > _MAX_OPCODES:
        print_indented(f"and {len(diff.opcodes) - _MAX_OPCODES} more", 1, out, "dim")
    out.print()
    out.print(Text(f"{level.upper()}, aligned", style="bold"))
    _show_rows(diff.rows, out)


def _describe_value(value: FactValue) -> str:
    if value is None:
        return "not known"
    if isinstance(value, str):
        return short_name(value)
    return str(value) if isinstance(value, int) else ", ".join(map(str, value)) or "–"


def _describe_change(left: FactValue, right: FactValue) -> str:
    if isinstance(left, int) and isinstance(right, int) and left != right:
        return f"{right - left:+d}"
    return ""


def _show_counts(title: str, pairs: Sequence[CountPair], names: tuple[str, str], out: Console) -> None:
    if not pairs:
        return
    rows = []
    for pair in pairs:
        name = pair.name.replace("_", " ") if pair.name in CLASSES else pair.name
        rows.append(Row([name, str(pair.left), str(pair.right), _describe_change(pair.left, pair.right)]))
    out.print(Text(f" {title}", style="italic"))
    print_table(Table(_diff_columns(names), rows), out)


def _diff_columns(names: tuple[str, str]) -> list[Column]:
    return [Column("", "left"), *(Column(name, wrap_to=_NARROWEST) for name in names), Column("change")]


def _show_rows(rows: Sequence[DiffRow], out: Console) -> None:
    shown = {j for i, row in enumerate(rows) if row.kind != "same" for j in range(i - _CONTEXT, i + _CONTEXT + 1)}
    skipped = 0
    for i, row in enumerate(rows):
        if i not in shown:
            skipped += 1
            continue
        _show_skipped(skipped, out)
        skipped = 0
        for mark, line in _marked_lines(row):
            out.print(Text(f" {mark} {shorten(line)}", style=_STYLES[row.kind]), soft_wrap=True)
    _show_skipped(skipped, out)
    totals = {kind: sum(row.kind == kind for row in rows) for kind in _ROW_KINDS}
    parts = [f"{total} {_ROW_KINDS[kind]}" for kind, total in totals.items() if total]
    out.print()
    print_indented(" · ".join(parts) or "no instructions", 0, out)


def _show_skipped(skipped: int, out: Console) -> None:
    if skipped:
        print_indented(f"… {count(skipped, 'instruction')} the same", 6, out, "dim")


def _marked_lines(row: DiffRow) -> list[tuple[str, str]]:
    left, right = row.left.text if row.left else "", row.right.text if row.right else ""
    if row.kind == "same":
        return [(" ", left)]
    if row.kind == "values":
        return [("≈", left), (" ", right)] if left != right else [("≈", left)]
    return [(mark, text) for mark, text in (("-", left), ("+", right)) if text]
