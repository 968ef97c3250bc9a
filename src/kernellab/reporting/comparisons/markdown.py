"""A comparison as Markdown, for a comment on a pull request: a short answer and a table, details folded.

Every text from a record stands in a code span, where Markdown interprets nothing: no link, no HTML, no mention of a
user. The two characters that end a code span or a cell of a table are replaced.
"""

from __future__ import annotations

from collections.abc import Sequence

from kernellab.comparison.compare import Comparison
from kernellab.comparison.pairs import Pair
from kernellab.comparison.statuses import StatusChange
from kernellab.reporting.comparisons import words
from kernellab.reporting.html.parts import label
from kernellab.reporting.text import numbers

_LONGEST = 120  # characters of a name
_LONGEST_TEXT = 300  # of a reason or a note
_MOST_CHARACTERS = 60_000  # GitHub accepts 65,536
_ROWS = (40, 20, 10, 5)  # of a table
_MARKS = {0: "✅", 1: "❌", 3: "❔"}
_REPLACED = str.maketrans({"`": "'", "|": "¦"})


def document(comparison: Comparison) -> str:
    """The whole comment; it ends with a newline. Tables are cut where GitHub would refuse a longer text."""
    texts = (_document(comparison, rows) for rows in _ROWS)
    return next((text for text in texts if len(text) <= _MOST_CHARACTERS), _document(comparison, 0))


def _document(comparison: Comparison, most: int) -> str:
    mark = _MARKS[comparison.exit_code]
    lines = [f"### {mark} {_headline(comparison)}", "", f"{words.counts(comparison)}."]
    lines += _changes(words.status_changes(comparison), most)
    pairs = words.ordered(comparison.pairs)
    resolved = [pair for pair in pairs if pair.verdict in ("slower", "faster")]
    others = [pair for pair in pairs if pair.verdict not in ("slower", "faster")]
    if resolved:
        lines += ["", *_table(comparison, resolved, most)]
    if others:
        lines += ["", *_folded("Times that are the same or not resolved", _table(comparison, others, most))]
    foreign = [*words.sides(comparison), *words.warnings(comparison)]
    own = filter(None, [words.variation_sentence(comparison)])
    notes = [*(f"- {code(line, _LONGEST_TEXT)}" for line in foreign), *(f"- {line}" for line in own)]
    lines += ["", *_folded("How this was compared", notes)]
    return "\n".join(lines) + "\n"


def code(text: str, longest: int = _LONGEST) -> str:
    """A text from a record, as a code span."""
    return f"`{label(text.translate(_REPLACED), longest)}`"


def _headline(comparison: Comparison) -> str:
    """The answer without names, which a heading cannot hold safely."""
    slower, worse = len(comparison.with_verdict("slower")), len(comparison.changes_with("worse"))
    parts = [f"{numbers.count(slower, 'time')} slower"] if slower else []
    parts += [f"{numbers.count(worse, 'result')} worse"] if worse else []
    if parts:
        return ", ".join(parts)
    return "Nothing is slower or worse" if comparison.exit_code == 0 else "Cannot tell whether anything is slower"


def _changes(changes: Sequence[StatusChange], most: int) -> list[str]:
    if not changes:
        return []
    rows = [
        [
            change.verdict,
            code(change.key.op),
            code(change.key.impl),
            code(words.case_label(change.key.case)),
            f"{code(change.before.status)} → {code(change.after.status)}",
            _optional(change.after.reason or ""),
        ]
        for change in changes[:most]
    ]
    return ["", *_rows(["status", "op", "impl", "case", "change", "reason"], rows, len(changes))]


def _table(comparison: Comparison, pairs: Sequence[Pair], most: int) -> list[str]:
    with_series, with_remarks = words.has_several_series(comparison), words.has_remarks(pairs)
    rows = [
        [
            f"**{pair.verdict}**" if pair.verdict == "slower" else pair.verdict,
            code(pair.key.result.op),
            code(pair.key.result.impl),
            code(words.case_label(pair.key.result.case)),
            *([code(words.series(pair.key))] if with_series else []),
            numbers.duration(pair.before_us),
            numbers.duration(pair.after_us),
            words.change(pair.ratio),
            words.interval(pair),
            *([_optional(words.remark(pair))] if with_remarks else []),
        ]
        for pair in pairs[:most]
    ]
    head = ["", "op", "impl", "case", *(["series"] if with_series else []), "before", "after", "change", "interval"]
    return _rows([*head, *(["remark"] if with_remarks else [])], rows, len(pairs))


def _optional(text: str) -> str:
    return code(text, _LONGEST_TEXT) if text else ""


def _rows(head: Sequence[str], rows: Sequence[Sequence[str]], total: int) -> list[str]:
    lines = [f"| {' | '.join(cells)} |" for cells in (head, ["---"] * len(head), *rows)]
    return [*lines, "", f"… and {total - len(rows)} more"] if total > len(rows) else lines


def _folded(title: str, lines: Sequence[str]) -> list[str]:
    """Lines that are shown on a click. Markdown inside HTML begins after an empty line."""
    return ["<details>", f"<summary>{title}</summary>", "", *lines, "", "</details>"]
