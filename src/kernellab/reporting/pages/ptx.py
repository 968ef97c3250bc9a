"""Explained PTX as one HTML page without network access or scripts, for phones and desktops, light or dark."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from kernellab.codeanalysis.facts import KernelFacts
from kernellab.machinecode.kernel_names import short_name
from kernellab.ptxwords.explain import ExplainedLine
from kernellab.ptxwords.stages import STAGES
from kernellab.reporting.terminal.code import describe_threads, fold_library_constants, shorten, summarise_explained

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


def write_page(title: str, lines: Sequence[ExplainedLine], kernels: Sequence[KernelFacts], notes: Sequence[str]) -> str:
    """The whole document. All text that comes from a file is escaped."""
    parts = [f"<h1>{escape(title)}, line by line</h1>"]
    parts += [f"<p>{escape(note)}</p>" for note in notes]
    parts += [_write_facts(facts) for facts in kernels]
    parts.append(_write_lines(lines))
    summary = summarise_explained(lines)
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<meta name="color-scheme" content="light dark">'
        f"<title>{escape(title)}</title><style>{_STYLE}</style></head>\n"
        f"<body>{''.join(parts)}<footer>{summary}. Registers in PTX are virtual.</footer></body></html>\n"
    )


def _write_facts(facts: KernelFacts) -> str:
    rows = {
        "architecture": facts.arch,
        "registers per thread": facts.registers,
        "spilled bytes": facts.spill_bytes,
        "shared bytes, static": facts.shared_bytes,
        "threads per block": describe_threads(facts),
        "widest global access": f"{facts.widest_global_bytes} bytes" if facts.widest_global_bytes else "none",
        "uses": ", ".join(facts.uses) or "–",
        f"{facts.counted_in} instructions": facts.size,
    }
    table = "".join(
        f"<dt>{escape(name)}</dt><dd>{escape('not known' if value is None else str(value))}</dd>"
        for name, value in rows.items()
    )
    remarks = "".join(f'<p class="warn">{escape(remark)}</p>' for remark in facts.remarks)
    return f"<h2>{escape(short_name(facts.name))}</h2><dl>{table}</dl>{remarks}"


def _write_lines(lines: Sequence[ExplainedLine]) -> str:
    parts: list[str] = []
    previous: tuple[str, str | None, str] | None = None
    for line in fold_library_constants(lines):
        current = (line.stage, line.source_line, line.kernel)
        if current != previous:
            if previous is not None:
                parts.append("</ol>")
            if previous is None or previous[2] != line.kernel:
                parts.append(f"<h2>{escape(short_name(line.kernel) or 'the module')}</h2>")
            source = f"<span>{escape(line.source_line)}</span>" if line.source_line else ""
            parts.append(f"<h3>{escape(STAGES[line.stage])}{source}</h3><ol>")
            previous = current
        warn = "" if line.known else ' class="warn"'
        text, words = escape(shorten(line.text)), escape(line.words)
        parts.append(f"<li><b>{line.line}</b><code>{text}</code><span{warn}>{words}</span></li>")
    return "".join(parts) + ("</ol>" if previous is not None else "")
