"""The page of a comparison in a real browser: complete, readable on a phone, and harmless whatever a record says."""

import pytest

from kernellab.comparison.compare import Side, compare
from kernellab.reporting.comparisons import page
from support.browser import OpenPage, launch_chromium
from support.comparisons import random_run, run, variation
from support.hostile_records import MARK, TEXTS
from support.records import result

STEADY = [100.0 + i / 100 for i in range(20)]


def document(before, after, name="runs/a"):
    return page.document(compare(Side(name, [before]), Side("runs/b", [after]), load=lambda machine: variation()))


@pytest.fixture(scope="module")
def browser_page():
    with launch_chromium() as chromium:
        yield chromium.new_page(viewport={"width": 360, "height": 700})


def open_page(browser_page, tmp_path, text):
    file = tmp_path / "comparison.html"
    file.write_text(text, encoding="utf-8")
    opened = OpenPage(browser_page)
    browser_page.goto(file.as_uri())
    return opened


def test_the_page_answers_and_fits_a_phone(browser_page, tmp_path):
    before, after = random_run(1), random_run(2, slower={3: 1.2})
    before["results"].append(result("g"))
    after["results"].append(result("g", status="wrong", reason="values differ"))
    opened = open_page(browser_page, tmp_path, document(before, after))
    assert opened.text("p.answer").startswith("1 of 10 times is slower: f impl-3")
    rows = browser_page.locator("section[aria-labelledby=times] tbody tr")
    assert rows.count() == 10
    assert rows.first.inner_text().split("\t")[0] == "slower"
    assert browser_page.locator("svg.interval").count() == 10
    assert "values differ" in opened.text("section[aria-labelledby=statuses]")
    assert browser_page.evaluate("document.documentElement.scrollWidth") <= 360
    assert opened.errors == []
    assert [url for url in opened.requests if not url.startswith("file:")] == []
    opened.leave(browser_page)


def test_no_text_of_a_record_becomes_markup(browser_page, tmp_path):
    for name, text in TEXTS.items():
        text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")  # as the loader does
        case = {**result("f")["case"], "dtype": text, "options": {text: text}}
        before = run({**result("f", STEADY), "op": text, "case": case}, result(text), python=text)
        after = run({**result("f", STEADY), "op": text, "case": case}, result(text, status="wrong", reason=text))
        opened = open_page(browser_page, tmp_path, document(before, after, name=text))
        assert browser_page.evaluate(f"window.{MARK}") is None, name
        assert browser_page.locator("img, iframe, a[href^=javascript], [onmouseover], [onload]").count() == 0, name
        assert opened.errors == [], name
        assert [url for url in opened.requests if not url.startswith("file:")] == [], name
        opened.leave(browser_page)
