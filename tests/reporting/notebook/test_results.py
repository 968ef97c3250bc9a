"""A run in a notebook: the answer first, every result, also of hostile records, and readable on light and dark."""

import re

import pytest

from kernellab.record.reading import load
from kernellab.record.verdict import derive
from kernellab.reporting.notebook.results import render
from support.browser import launch_chromium
from support.hostile_names import HOSTILE_NAMES
from support.hostile_records import MARK, TEXTS, every_text
from support.sample_records import sample_record, sample_run
from support.sweeps import swept

TAGS = {
    *("div", "style", "p", "strong", "br", "table", "thead", "tbody", "tr", "th", "td"),
    *("svg", "title", "text", "rect", "path", "circle"),
}


@pytest.mark.parametrize("machine", ["cpu", "h200"])
def test_the_answer_comes_first_then_every_implementation(machine):
    run = sample_record("run-gelu", machine)
    html = render(run)
    answer = html.index("<p><strong>gelu ")
    assert "fastest" in html[answer : html.index("</p>", answer)] or "equally" in html
    assert answer < html.index("<table")
    for result in run["results"]:
        assert f">{result['impl']}" in html
    assert "<svg" in html


def test_a_check_shows_what_was_tried_and_a_sweep_its_curves():
    assert "the battery" in render(sample_record("check-square"))
    html = render(swept())
    assert html.count("<svg") == 1
    assert "liar" in html


def test_hostile_records_add_no_markup():
    run = sample_record("run-gelu")
    for result, name in zip(run["results"], HOSTILE_NAMES[:4] * 2, strict=False):
        result["impl"] = name
        result["derived"]["reason"] = name
        result["derived"]["status"] = "wrong"
        result["guards"] = [{"name": "g", "detail": name}]
    html = render(run)
    assert "<script" not in html
    assert "<img" not in html


def test_it_is_readable_on_light_and_dark_and_a_narrow_page_scrolls_the_table():
    html = render(sample_record("run-gelu"))
    hostile = [render(derive(every_text(load(sample_run("run-gelu")), text))) for text in TEXTS.values()]
    with launch_chromium() as browser:
        page = browser.new_page(viewport={"width": 500, "height": 700}, java_script_enabled=True)
        for background, ink in (("rgb(255, 255, 255)", "rgb(0, 0, 0)"), ("rgb(17, 17, 17)", "rgb(225, 225, 225)")):
            page.set_content(f'<body style="background: {background}; color: {ink}">{html}')
            colours = page.evaluate(
                """() => [...document.querySelectorAll(".klab td, .klab th, .klab p, .klab strong")].map(e =>
                getComputedStyle(e).color + getComputedStyle(e).backgroundColor)"""
            )
            assert set(colours) == {f"{ink}rgba(0, 0, 0, 0)"}
            fills = page.evaluate("[...document.querySelectorAll('.klab text')].map(e => getComputedStyle(e).fill)")
            assert set(fills) == {ink}
        assert page.evaluate("document.documentElement.scrollWidth <= 500")
        box = page.evaluate("(e => [e.scrollWidth > e.clientWidth])(document.querySelector('.klab .scroll'))")
        assert box == [True]
        page.set_content("".join(hostile))
        page.wait_for_timeout(50)
        assert page.evaluate(f"window.{MARK}") is None
        tags = page.evaluate("[...new Set([...document.body.querySelectorAll('*')].map(e => e.tagName.toLowerCase()))]")
        assert set(tags) <= TAGS
        assert page.evaluate("document.querySelectorAll('.klab > *').length") > 100  # nothing closed a fragment early
        assert not re.search(r"https?://|<script|@import|url\(", html)
