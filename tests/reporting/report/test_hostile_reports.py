"""Reports of records from strangers, in a browser: refused in a sentence, or shown with nothing of them executed."""

from __future__ import annotations

import json
import re

from kernellab.base.errors import UserError
from kernellab.reporting.report.document import report
from support.hostile_records import MARK, SECRET, TEXTS, every_text, hostile_records
from support.report_records import rich_record
from support.reports import read_run
from support.sample_records import sample_document

_FEWEST = 60
_EVERYWHERE = " in every text"
_SLOW = {"fifty million opened lists", "fifty million opened objects", "a thousand implementations"}  # to be refused
_DRAW_ALL = "dispatchEvent(new Event('beforeprint'))"
_STRANGE = "iframe, object, embed, img, link, form[action], [onload], [onerror], [onmouseover], [onfocus]"


def _read(records, folder):
    """The runs of those records that are read, by name, and the sentences that refuse the others."""
    runs, refusals = {}, {}
    (folder / "secret.txt").write_text(SECRET)
    for number, (name, write) in enumerate(records.items()):
        place = folder / str(number)
        place.mkdir()
        write(place)
        try:
            runs[name] = read_run(place)
        except UserError as error:
            refusals[name] = error.message
    return runs, refusals


def _open(open_page, runs, act):
    """The report of several runs in the browser, every part of it opened, after `act` on its page."""
    dialogs: list[str] = []
    opened = open_page(report(runs), "report.html", java_script_enabled=True)
    page, file = opened.page, opened.page.url
    page.wait_for_selector("html[data-charts]", state="attached")
    page.on("dialog", lambda dialog: (dialogs.append(dialog.message), dialog.dismiss()))
    page.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
    act(page)
    opened.settle()
    assert page.evaluate(f"window.{MARK}") is None
    assert dialogs == []
    assert opened.errors == []
    assert (opened.requests, page.url) == ([file], file)
    assert page.evaluate(f"document.querySelectorAll({_STRANGE!r}).length") == 0
    assert page.evaluate("[...document.querySelectorAll('main a')].every((a) => a.getAttribute('href')[0] === '#')")
    assert SECRET not in page.content()
    return opened


def test_hostile_texts_are_shown_as_texts_in_every_section(open_page, tmp_path):
    runs = []
    for number, (name, text) in enumerate(TEXTS.items()):
        if name != "a long text":  # in so many places it is too large a file
            (tmp_path / f"{number}.json").write_text(json.dumps(every_text(rich_record(), text)))
            runs.append(read_run(tmp_path / f"{number}.json"))
    opened = _open(open_page, runs, lambda page: page.evaluate(_DRAW_ALL))
    script = "[...document.querySelectorAll('article:first-of-type > section')].map((section) => section.className)"
    sections = {*opened.page.evaluate(script)}
    assert {"verdicts", "roofline", "samples", "panel", "correctness", "findings", "kernels"} <= sections
    text = opened.text("main")
    for name in ("a script", "an image that fails", "a template", "an entity", "Markdown", "a formula"):
        assert TEXTS[name][:40] in text, name
    assert not re.search(r"[\x00-\x08\x1b\u202e]", opened.page.evaluate("document.querySelector('main').textContent"))


def test_every_other_hostile_record_is_refused_or_shown_harmlessly(open_page, tmp_path):
    records = hostile_records(sample_document("run-gelu", "h200"))
    texts = {f"{name}{_EVERYWHERE}" for name in TEXTS if name != "a long text"}
    runs, refusals = _read({n: write for n, write in records.items() if n not in texts | _SLOW}, tmp_path)
    assert len(runs) + len(refusals) >= _FEWEST
    assert all(sentence and "\n" not in sentence for sentence in refusals.values())
    opened = _open(open_page, list(runs.values()), lambda page: page.hover("h1"))
    assert opened.page.evaluate("document.querySelectorAll('article').length") == len(runs)
    assert "x" * 10_000 not in opened.page.content(), "long texts are cut"
