"""A console that writes HTML: what prints to a terminal prints tables and paragraphs into a fragment of a page.

Colours are the page's own, so that the fragment is readable on light and dark alike. All texts are escaped.
"""

from __future__ import annotations

import io
from html import escape

from rich.console import Console
from rich.style import Style
from rich.text import Text

from kernellab.base.text import printable
from kernellab.reporting.text.table import Table

_WIDE = 10_000  # columns: nothing is left out, cut or wrapped, because a page scrolls
_PLAIN = ' class="plain"'
_STYLE = """
.klab { color: inherit; line-height: 1.4; font-variant-numeric: tabular-nums }
.klab .scroll { overflow-x: auto } .klab p { margin: .3em 0; white-space: pre-wrap; overflow-wrap: anywhere }
.klab table { border-collapse: collapse; margin: .2em 0 .4em; color: inherit; background: none;
  font-size: inherit }
.klab th, .klab td { padding: .15em .8em .15em 0; white-space: nowrap; color: inherit; background: none;
  border: 0; border-bottom: 1px solid rgba(128, 128, 128, .4) }
.klab .plain td { border: 0 } .klab th { font-weight: 600 } .klab .l { text-align: left } .klab .r { text-align: right }
.klab .w { white-space: normal; overflow-wrap: anywhere }
.klab svg { display: block; max-width: 100%; height: auto; margin: .2em 0 1em }
""".strip()


class FragmentConsole(Console):
    """Collects what is printed as HTML: a `Table` becomes a table, a text a paragraph."""

    def __init__(self) -> None:
        super().__init__(file=io.StringIO(), width=_WIDE, markup=False, highlight=False, force_jupyter=False)
        self._parts: list[str] = []
        self._open_rows = 0  # columns of the last table, if it has no header

    # rich's own signature has a dozen parameters about terminals.
    def print(self, *objects: object, style: str | Style | None = None, **_: object) -> None:
        for thing in objects:
            if isinstance(thing, Table):
                self._add_table(thing)
            elif isinstance(thing, Text):
                self._add_paragraph(self._text(thing, str(style or "")))
            else:
                self._add_paragraph(self._text(Text(str(thing)), str(style or "")))

    def add(self, html: str) -> None:
        """Adds trusted HTML."""
        self._parts.append(html)

    def html(self) -> str:
        """The fragment. A page that allows no styles still shows its tables."""
        return f'<div class="klab">\n<style>{_STYLE}</style>\n' + "\n".join(self._parts) + "\n</div>"

    def _add_paragraph(self, html: str) -> None:
        if html.strip():
            self._parts.append(f"<p>{html}</p>")

    def _text(self, text: Text, style: str = "") -> str:
        """A text with its bold parts; colours are left out, because none is readable on every page."""
        pieces = []
        for line in [text] if "\n" not in text.plain else text.split("\n", allow_blank=True):
            html = ""
            for segment in line.render(self):
                bold = "bold" in style or bool(segment.style and segment.style.bold)
                piece = escape(printable(segment.text.rstrip("\n")))
                html += f"<strong>{piece}</strong>" if bold and piece else piece
            pieces.append(html)
        return "<br>".join(pieces)

    def _add_table(self, table: Table) -> None:
        classes = [
            f"{'l' if column.align == 'left' else 'r'}{' w' if column.wrap_to is not None else ''}"
            for column in table.columns
        ]
        head = ""
        if table.header:
            titles = (escape(printable(column.title)) for column in table.columns)
            cells = (f'<th class="{name}">{title}</th>' for name, title in zip(classes, titles, strict=True))
            head = f"<thead><tr>{''.join(cells)}</tr></thead>"
        body = ""
        for row in table.rows:
            texts = (cell if isinstance(cell, Text) else Text(printable(cell)) for cell in row.cells)
            pairs = zip(classes, texts, strict=True)
            body += f"<tr>{''.join(f'<td class={name!r}>{self._text(t, row.style)}</td>' for name, t in pairs)}</tr>"
        more = table.total - len(table.rows)
        note = f"<p>… and {more} more</p>" if more > 0 else ""
        end = "</tbody></table></div>"
        before = self._parts[-1] if self._parts else ""
        if not head and self._open_rows == len(classes) and before.endswith(end):
            self._parts[-1] = before.removesuffix(end) + body + end  # rows that are printed one by one are one table
        else:
            self._parts.append(f'<div class="scroll"><table{"" if head else _PLAIN}>{head}<tbody>{body}{end}{note}')
        self._open_rows = 0 if head else len(classes)
