"""The server's own pages: the list of runs, a run in progress, and messages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlencode

from kernellab.reporting.html.document import Sources, render
from kernellab.reporting.html.parts import asset, label

PAGE_ROWS = 50
_TEMPLATES = Path(__file__).with_name("templates")
# Forms and events are those of this server. Nothing else is loaded.
_ALLOW = {"form-action": "'self'", "connect-src": "'self'"}
_CHARACTERS = 120  # of a name in the list


@dataclass(frozen=True)
class RunRow:
    """One run of the list. `tone` is a class of base.css: good, warn, bad, or empty."""

    key: str
    name: str
    when: str
    ops: str
    answer: str
    tone: str
    branch: str
    commit: str
    machine: str
    readable: bool
    unfinished: bool


class Filter(NamedTuple):
    """A choice above the list: its name, the values there are, and the one that was chosen."""

    name: str
    values: Sequence[str]
    chosen: str


def run_list(rows: Sequence[RunRow], total: int, page: int, filters: Sequence[Filter], text: str) -> str:
    """One page of the list of runs, `total` on all pages together."""
    pages = page_count(total)
    chosen = {f.name: f.chosen for f in filters if f.chosen} | ({"text": text} if text else {})
    filtered = bool(chosen)
    return _render(
        "runs.html",
        title="kernellab: runs",
        summary=_summary(total, filtered),
        filters=filters,
        text=text,
        filtered=filtered,
        rows=rows,
        nothing="No run matches." if filtered else "There are no runs yet. klab run gelu makes one.",
        page=page,
        pages=pages,
        previous=_address(chosen, page - 1) if page > 1 else "",
        next=_address(chosen, page + 1) if page < pages else "",
    )


def page_count(total: int) -> int:
    return max(1, -(-total // PAGE_ROWS))


def live_run(key: str, name: str) -> str:
    """The page of a run in progress. Its script asks for the states."""
    return _render("live.html", scripts=[asset(__file__, "live.js")], title=label(name, _CHARACTERS), key=key)


def message(title: str, text: str) -> str:
    """A page with a sentence."""
    return _render("message.html", title=title, message=label(text))


def _summary(total: int, filtered: bool) -> str:
    runs = "1 run" if total == 1 else f"{total} runs"
    return f"{runs} match" + ("es." if total == 1 else ".") if filtered else f"{runs}."


def _address(chosen: Mapping[str, str], page: int) -> str:
    return f"/?{urlencode({**chosen, 'page': page})}"


def _render(template: str, scripts: Sequence[str] = (), **values: object) -> str:
    sources = Sources(styles=[asset(__file__, "server.css")], scripts=scripts)
    home = "/" if template != "runs.html" else ""
    return render(_TEMPLATES, template, sources, allow=_ALLOW, home=home, **values)
