"""Explained PTX as one HTML page that needs nothing else: no network, no script; readable on a phone, light or dark."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from kernellab.codeanalysis.facts import Facts
from kernellab.machinecode.kernel_names import short_name
from kernellab.ptxwords.explain import Explained
from kernellab.ptxwords.stages import STAGES
from kernellab.reporting.terminal.code import folded, shortened, threads
from kernellab.reporting.text.numbers import count

_STYLE = """
:root { --ink: #1c1e21; --faint: #5c6370; --paper: #fff; --band: #f3f5f7; --rule: #d9dde2;
  --code: #0b4f8a; --warn: #8a5a00 }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e4e6ea; --faint: #9aa1ac; --paper: #16181b; --band: #1f2226; --rule: #33373d;
    --code: #7cc0ff; --warn: #ffc66b }
}
* { box-sizing: border-box }
body { margin: 0 auto; padding: 1rem; max-width: 72rem; color: var(--ink); background: var(--paper);
  font: 16px/1.5 system-ui, sans-serif; overflow-wrap: anywhere }
h1 { font-size: 1.4rem } h2 { font-size: 1.15rem; margin-top: 2rem }
h3 { font-size: 0.95rem; margin: 1.2rem 0 0.2rem; padding: 0.2rem 0.5rem; background: var(--band);
  display: flex; flex-wrap: wrap; justify-content: space-between; gap: 0 1rem }
h3 span { font-weight: normal; color: var(--faint); min-width: 0 }
dl { display: grid; grid-template-columns: max-content minmax(0, 1fr); gap: 0.1rem 1rem; margin: 0.5rem 0 }
dt { color: var(--faint) } dd { margin: 0; min-width: 0 }
ol { list-style: none; margin: 0; padding: 0 }
li { display: grid; grid-template-columns: 3rem minmax(0, 5fr) minmax(0, 6fr); gap: 0 0.8rem; padding: 0.15rem 0.5rem;
  border-bottom: 1px solid var(--rule) }
li b { font-weight: normal; color: var(--faint); text-align: right }
code { font: 0.85rem/1.6 ui-monospace, monospace; color: var(--code) }
p { margin: 0.3rem 0 } .warn { color: var(--warn) } footer { color: var(--faint); margin-top: 2rem; font-size: 0.85rem }
@media (max-width: 45rem) {
  li { grid-template-columns: 2.2rem minmax(0, 1fr) } li span { grid-column: 2 } dl { grid-template-columns: 1fr }
  dd { margin-bottom: 0.3rem }
}
"""


def page(title: str, lines: Sequence[Explained], facts: Sequence[Facts], notes: Sequence[str]) -> str:
    """The whole document. Everything that comes from a file is escaped."""
    parts = [f"<h1>{escape(title)}, line by line</h1>"]
    parts += [f"<p>{escape(note)}</p>" for note in notes]
    parts += [_facts(one) for one in facts]
    parts.append(_lines(lines))
    unknown = sum(not one.known for one in lines)
    said = f"{count(len(lines), 'line')} explained" + (f", {unknown} of them unknown" if unknown else "")
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<meta name="color-scheme" content="light dark">'
        f"<title>{escape(title)}</title><style>{_STYLE}</style></head>\n"
        f"<body>{''.join(parts)}<footer>{said}. Registers named in PTX are virtual.</footer></body></html>\n"
    )


def _facts(one: Facts) -> str:
    rows = {
        "architecture": one.arch,
        "registers per thread": one.registers,
        "spilled bytes": one.spill_bytes,
        "shared bytes, static": one.shared_bytes,
        "threads per block": threads(one),
        "widest global access": f"{one.widest_global_bytes} bytes" if one.widest_global_bytes else "none",
        "uses": ", ".join(one.uses) or "–",
        f"{one.counted_in} instructions": one.size,
    }
    listed = "".join(
        f"<dt>{escape(name)}</dt><dd>{escape('not known' if value is None else str(value))}</dd>"
        for name, value in rows.items()
    )
    remarks = "".join(f'<p class="warn">{escape(remark)}</p>' for remark in one.remarks)
    return f"<h2>{escape(short_name(one.name))}</h2><dl>{listed}</dl>{remarks}"


def _lines(lines: Sequence[Explained]) -> str:
    parts: list[str] = []
    before: tuple[str, str | None, str] | None = None
    for one in folded(lines):
        now = (one.stage, one.source_line, one.kernel)
        if now != before:
            if before is not None:
                parts.append("</ol>")
            if before is None or before[2] != one.kernel:
                parts.append(f"<h2>{escape(short_name(one.kernel) or 'the module')}</h2>")
            source = f"<span>{escape(one.source_line)}</span>" if one.source_line else ""
            parts.append(f"<h3>{escape(STAGES[one.stage])}{source}</h3><ol>")
            before = now
        warn = "" if one.known else ' class="warn"'
        parts.append(
            f"<li><b>{one.line}</b><code>{escape(shortened(one.text))}</code><span{warn}>{escape(one.words)}</span></li>"
        )
    return "".join(parts) + ("</ol>" if before is not None else "")
