"""Machine code in the terminal: facts as a table, PTX in words, two kernels side by side."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from kernellab.codeanalysis.diff import CountPair, Diff, Row
from kernellab.codeanalysis.facts import Facts, LoopFacts
from kernellab.machinecode.instruction_classes import CLASSES
from kernellab.machinecode.kernel_names import short_name
from kernellab.ptxwords.explain import Explained
from kernellab.ptxwords.stages import STAGES
from kernellab.reporting.text.numbers import count

_CONTEXT = 2  # lines of equal code shown around a difference
_LONGEST = 100  # characters of an instruction; a wgmma names 64 registers
_MOST_OPCODES = 12
_MOST_LOOPS = 4
_STYLES = {"same": "dim", "values": "cyan", "changed": "yellow", "left": "red", "right": "green"}


def show_facts(found: Sequence[Facts], notes: Iterable[str], out: Console) -> None:
    """A table with a column for each kernel, then its loops and what stands out."""
    table = Table(box=None, pad_edge=True, padding=(0, 1), header_style="bold")
    table.add_column("")
    for one in found:
        table.add_column(short_name(one.name), overflow="fold")
    for title, values in _facts_rows(found):
        table.add_row(Text(title, style="dim"), *map(Text, values))
    out.print(table)
    for one in found:
        whose = f"{short_name(one.name)}: " if len(found) > 1 else ""
        for said in _loops(one.loops):
            _say(f" {whose}{said}", out)
        for remark in one.remarks:
            _say(f" {whose}{remark}", out, "yellow")
    for note in notes:
        _say(f" {note}", out, "dim")


def _facts_rows(found: Sequence[Facts]) -> list[tuple[str, list[str]]]:
    rows = [
        ("architecture", [one.arch for one in found]),
        ("registers per thread", [_or_unknown(one.registers) for one in found]),
        ("spilled bytes", [_or_unknown(one.spill_bytes) for one in found]),
        ("stack bytes", [_or_unknown(one.stack_bytes) for one in found]),
        ("shared bytes, static", [_or_unknown(one.shared_bytes) for one in found]),
        ("barriers", [_or_unknown(one.barriers) for one in found]),
        ("threads per block", [threads(one) for one in found]),
        ("global access, bytes", [_widths(one) for one in found]),
        ("uses", [", ".join(one.uses) or "–" for one in found]),
        ("predicated", [f"{one.predicated} of {one.size}" for one in found]),
        ("", [f"{one.counted_in} instructions" for one in found]),
    ]
    for name in CLASSES:
        if any(name in one.instructions for one in found):
            rows.append((name.replace("_", " "), [_mix(one, name) for one in found]))
    return rows


def _or_unknown(value: Any) -> str:
    return "not known" if value is None else str(value)


def threads(one: Facts) -> str:
    if not one.threads:
        return "any" if one.threads is not None else "not known"
    total = 1
    for side in one.threads:
        total *= side
    return f"{'exactly' if one.threads_required else 'at most'} {total}"


def _widths(one: Facts) -> str:
    if not one.widest_global_bytes:
        return "–"
    low, high = one.narrowest_global_bytes, one.widest_global_bytes
    return str(high) if low == high else f"{low} to {high}"


def _mix(one: Facts, name: str) -> str:
    """`24 (16 B × 16, 4 B × 8)`."""
    total = one.instructions.get(name, 0)
    if not total:
        return "–"
    widths = [f"{a.bytes} B × {a.count}" for a in one.accesses if a.kind == name and name != "constant_load"]
    return f"{total} ({', '.join(reversed(widths))})" if widths else str(total)


def _loops(loops: Sequence[LoopFacts]) -> list[str]:
    """The hottest first, then the largest."""
    told = sorted(loops, key=lambda loop: (not loop.hottest, loop.waits, -loop.size))
    rest = told[_MOST_LOOPS:]
    more = [f"and {count(len(rest), 'smaller loop')}"] if rest else []
    return [*map(_loop, told[:_MOST_LOOPS]), *more]


def _loop(loop: LoopFacts) -> str:
    parts = ", ".join(f"{number} {name.replace('_', ' ')}" for name, number in list(loop.instructions.items())[:5])
    where = f" ({', '.join(loop.sources)})" if loop.sources else ""
    kind = "waiting loop" if loop.waits else "hottest loop" if loop.hottest else "loop"
    nested = f", {loop.depth} deep" if loop.depth > 1 else ""
    often = "" if loop.waits else ", turns not known, counted once"
    often = often if loop.turns is None else f", {count(loop.turns, 'turn')}"
    return f"{kind} at {loop.label}{where}{nested}{often}: {count(loop.size, 'instruction')}: {parts}"


def _say(text: str, out: Console, style: str = "") -> None:
    out.print(Text(text, style=style), soft_wrap=not out.is_terminal)


# In words --------------------------------------------------------------------------------------------------


def show_explained(lines: Sequence[Explained], out: Console) -> None:
    """Line by line: the PTX, and below it what it says; a heading where the stage or the source line changes."""
    width = max((len(str(one.line)) for one in lines), default=1)
    before: tuple[str, str | None] = ("", None)
    for one in folded(lines):
        now = (one.stage, one.source_line)
        if now != before:
            source = f"  {one.source_line}" if one.source_line else ""
            out.print()
            out.print(Text.assemble((STAGES[one.stage], "bold"), (source, "dim")))
            before = now
        out.print(Text(f" {one.line:>{width}}  {shortened(one.text)}", style="cyan"), soft_wrap=True)
        _below(one.words, width + 3, out, "" if one.known else "yellow")
    unknown = sum(not one.known for one in lines)
    out.print()
    _say(f"{count(len(lines), 'line')} explained" + (f", {unknown} of them unknown" if unknown else ""), out)


def folded(lines: Sequence[Explained]) -> Iterator[Explained]:
    """Headers bring hundreds of constants that no author wrote: of each run of them the first, and how many follow."""
    for stage, run in itertools.groupby(lines, key=lambda one: one.stage):
        if stage != "library":
            yield from run
            continue
        first, *more = run
        words = f"{first.words}; and {len(more)} more like it" if more else first.words
        yield replace(first, words=words)


def _below(text: str, indent: int, out: Console, style: str) -> None:
    """Indented, also where a terminal's edge breaks it; piped, a line stays one line."""
    if out.is_terminal:
        out.print(Padding(Text(text, style=style), (0, 0, 0, indent)))
    else:
        _say(f"{'':{indent}}{text}", out, style)


def shortened(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 20]} … {text[-15:]}"


# Side by side ----------------------------------------------------------------------------------------------


def show_diff(found: Diff, names: tuple[str, str], kind: str, out: Console) -> None:
    """Facts, mix and code of two kernels; of the code, what differs and a little around it."""
    table = Table(box=None, pad_edge=True, padding=(0, 1), header_style="bold")
    for title in ("", *names, "change"):
        table.add_column(title, justify="left" if title == "" else "right", overflow="fold")
    for pair in found.facts:
        style = "bold" if pair.differs else "dim"
        shown = [_value(pair.left), _value(pair.right), _change(pair.left, pair.right)]
        table.add_row(Text(pair.name.replace("_", " "), style="dim"), *(Text(text, style=style) for text in shown))
    out.print(table)
    _counts("instructions by class", found.classes, names, out)
    _counts("opcodes that differ", found.opcodes[:_MOST_OPCODES], names, out)
    if len(found.opcodes) > _MOST_OPCODES:
        _say(f" and {count(len(found.opcodes) - _MOST_OPCODES, 'opcode')} more", out, "dim")
    out.print()
    out.print(Text(f"{kind.upper()}, aligned", style="bold"))
    _rows(found.rows, out)


def _value(value: Any) -> str:
    if value is None:
        return "not known"
    if isinstance(value, str):
        return short_name(value)
    return ", ".join(map(str, value)) or "–" if isinstance(value, (list, tuple)) else str(value)


def _change(left: Any, right: Any) -> str:
    numbers = isinstance(left, int) and isinstance(right, int)
    return f"{right - left:+d}" if numbers and left != right else ""


def _counts(title: str, pairs: Sequence[CountPair], names: tuple[str, str], out: Console) -> None:
    if not pairs:
        return
    table = Table(box=None, pad_edge=True, padding=(0, 1), header_style="dim", title=title, title_justify="left")
    for head in ("", *names, "change"):
        table.add_column(head, justify="left" if head == "" else "right", overflow="fold")
    for pair in pairs:
        name = pair.name.replace("_", " ") if pair.name in CLASSES else pair.name
        table.add_row(*map(Text, (name, str(pair.left), str(pair.right), _change(pair.left, pair.right))))
    out.print(table)


def _rows(rows: Sequence[Row], out: Console) -> None:
    near = {j for i, row in enumerate(rows) if row.kind != "same" for j in range(i - _CONTEXT, i + _CONTEXT + 1)}
    skipped = 0
    for i, row in enumerate(rows):
        if i not in near:
            skipped += 1
            continue
        if skipped:
            _say(f"      … {count(skipped, 'instruction')} the same", out, "dim")
            skipped = 0
        for mark, line in _marked(row):
            out.print(Text(f" {mark} {shortened(line)}", style=_STYLES[row.kind]), soft_wrap=True)
    if skipped:
        _say(f"      … {count(skipped, 'instruction')} the same", out, "dim")
    totals = {kind: sum(row.kind == kind for row in rows) for kind in _STYLES}
    told = {
        "same": "the same",
        "values": "the same on other values (≈)",
        "changed": "changed (- +)",
        "left": "only left (-)",
        "right": "only right (+)",
    }
    out.print()
    _say(" · ".join(f"{number} {told[kind]}" for kind, number in totals.items() if number) or "no instructions", out)


def _marked(row: Row) -> list[tuple[str, str]]:
    left, right = row.left.text if row.left else "", row.right.text if row.right else ""
    if row.kind == "same":
        return [(" ", left)]
    if row.kind == "values":
        return [("≈", left), (" ", right)] if left != right else [("≈", left)]
    return [(mark, text) for mark, text in (("-", left), ("+", right)) if text]
