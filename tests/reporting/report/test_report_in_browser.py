"""The report in Chromium: every section, sorting, filtering, colours, a narrow screen, keys, and paper."""

import json
import time

import pytest

from kernellab.reporting.report.document import report
from support.report_records import large_record, rich_record
from support.reports import read_run
from support.sample_records import sample_document

SECTIONS = ["answer", "verdicts", "curves", "roofline", "samples", "panel", "correctness", "findings", "kernels"]
SECTIONS += ["waves", "environment"]
MOST_BYTES, MOST_SECONDS = 8_000_000, 2.0
NARROW = {"width": 360, "height": 740}
TABLE = "#verdict-table"

# The lowest contrast of a text to what is behind it, over all texts on the page, as WCAG computes it.
CONTRAST = """() => {
  const channel = (value) => (value /= 255) <= 0.03928 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4;
  const parse = (text) => text.match(/[\\d.]+/g).map(Number);
  const luminance = ([r, g, b]) => 0.2126 * channel(r) + 0.7152 * channel(g) + 0.0722 * channel(b);
  const behind = (element) => {
    for (; element; element = element.parentElement) {
      const [r, g, b, alpha = 1] = parse(getComputedStyle(element).backgroundColor);
      if (alpha > 0) return [r, g, b];
    }
    return [255, 255, 255];
  };
  const worst = { ratio: 21 };
  for (const element of document.querySelectorAll("body *:not(script):not(style):not(svg *)")) {
    const text = [...element.childNodes].some((node) => node.nodeType === 3 && node.data.trim());
    if (!text || !element.checkVisibility() || element.matches(".skip")) continue;
    const colours = [parse(getComputedStyle(element).color), behind(element)];
    const [a, b] = colours.map(luminance).sort((x, y) => y - x), ratio = (a + 0.05) / (b + 0.05);
    if (ratio < worst.ratio) Object.assign(worst, { ratio, text: element.outerHTML.slice(0, 90) });
  }
  return worst;
}"""


@pytest.fixture(scope="module")
def document(tmp_path_factory):
    """The report of a record, read from its file as any record is."""

    def make(record):
        folder = tmp_path_factory.mktemp("run")
        (folder / "run.json").write_text(json.dumps(record))
        return report([read_run(folder)])

    return make


@pytest.fixture(scope="module")
def large(document):
    return document(large_record())


def column(page, title):
    """The texts of a column, of the rows that are shown."""
    script = """([table, title]) => {
      const heads = [...document.querySelector(table).tHead.rows[0].cells];
      const at = heads.findIndex((head) => head.textContent === title);
      const rows = [...document.querySelectorAll(`${table} tbody tr:not([hidden])`)];
      return rows.map((row) => row.cells[at].firstChild?.data ?? "");
    }"""
    return page.evaluate(script, [TABLE, title])


def microseconds(text):
    number, unit = text.split()
    return float(number) * {"ns": 1e-3, "µs": 1.0, "ms": 1e3, "s": 1e6}[unit]


def test_every_section_is_there_and_can_be_used(open_page, large):
    opened = open_page(large, "report.html")
    page = opened.page
    sections = page.evaluate("[...document.querySelectorAll('article > section')].map((s) => s.className)")
    assert [name for name in sections if name in SECTIONS] == SECTIONS
    links = "[...document.querySelectorAll('nav.contents a')].map((a) => document.querySelector(a.hash)?.className)"
    assert page.evaluate(links) == sections
    assert "default-src 'none'" in page.get_attribute("meta[http-equiv=Content-Security-Policy]", "content")
    assert "softmax" in opened.text("section.answer")

    # Charts are drawn when the reader comes near them, and say in words what they show.
    assert page.evaluate("document.querySelectorAll('section.samples .main-svg').length") == 0
    for name in ("curves", "roofline", "samples"):
        page.locator(f"section.{name}").scroll_into_view_if_needed()
        page.wait_for_selector(f"section.{name} .main-svg")
        assert page.evaluate(
            f"[...document.querySelectorAll('section.{name} .plot')].every((p) => p.ariaLabel.length > 20)"
        )
    assert "triton" in page.locator("section.curves .legend").first.text_content()
    assert page.evaluate("document.querySelectorAll('.modebar, a[href^=http]').length") == 0

    # Sorting, with the mouse and with keys.
    head = page.locator(f"{TABLE} th", has_text="time")
    head.locator("button").click()
    assert head.get_attribute("aria-sort") == "ascending"
    times = [microseconds(text) for text in column(page, "time") if text]
    assert times == sorted(times)
    assert column(page, "time")[-1] == "", "rows without a time come last"
    head.locator("button").focus()
    opened.press("Enter")
    assert head.get_attribute("aria-sort") == "descending"
    times = [microseconds(text) for text in column(page, "time") if text]
    assert times == sorted(times, reverse=True)
    assert column(page, "time")[-1] == ""
    page.locator(f"{TABLE} th", has_text="impl").locator("button").click()
    assert head.get_attribute("aria-sort") is None
    assert column(page, "impl") == sorted(column(page, "impl"))

    # Filtering.
    filters = page.locator("section.verdicts form.filters")
    everything = len(column(page, "impl"))
    assert everything == 180
    filters.locator("[data-column=impl]").select_option("triton")
    filters.locator("[data-column=op]").select_option("gelu")
    assert set(column(page, "impl")) == {"triton"}
    assert filters.locator(".count").inner_text() == "10 of 180 rows"
    filters.locator("[data-column=dtype]").select_option("bfloat16")
    assert filters.locator(".count").inner_text() == "5 of 180 rows"
    filters.locator("input[type=search]").fill("GELU ×256")
    assert filters.locator(".count").inner_text() == "1 of 180 rows"
    filters.locator("button[type=reset]").click()
    rows = f"document.querySelectorAll('{TABLE} tbody tr:not([hidden])').length"
    assert opened.until(lambda: page.evaluate(rows) == 180)
    filters.locator("[data-column=status]").select_option("skipped")
    assert set(column(page, "impl")) == {"cpp"}

    # Keys: the first stop skips to the content, and parts open without a mouse.
    page.evaluate("scrollTo(0, 0); document.activeElement.blur()")
    page.locator("h1").click()
    page.evaluate("document.querySelector('.skip').focus()")
    assert page.evaluate("document.activeElement.getBoundingClientRect().left >= 0"), "it is seen once it has the focus"
    summary = page.locator("section.samples details summary").nth(4)
    before = page.evaluate("document.querySelectorAll('section.samples details[open]').length")
    summary.focus()
    opened.press("Enter")
    assert page.evaluate("document.querySelectorAll('section.samples details[open]').length") != before
    assert page.evaluate(
        "[...document.querySelectorAll('.scroll')].every((box) => box.tabIndex === 0 && box.ariaLabel)"
    )

    assert page.evaluate(CONTRAST)["ratio"] >= 4.5, page.evaluate(CONTRAST)
    assert page.evaluate("document.getAnimations().length") == 0
    assert len(opened.requests) == 1, "the page itself"


def test_dark_narrow_and_printed(open_page, document):
    opened = open_page(document(rich_record()), "report.html", viewport=NARROW, color_scheme="dark")
    page = opened.page
    width = "document.documentElement.scrollWidth"
    page.locator("section.roofline").scroll_into_view_if_needed()
    page.wait_for_selector("section.roofline .main-svg")
    assert page.evaluate(width) == NARROW["width"], "wide tables scroll in their boxes, not the page"
    assert page.evaluate("document.querySelector('.verdicts .scroll').scrollWidth") > NARROW["width"]
    page.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
    opened.settle()
    assert page.evaluate(width) == NARROW["width"]
    paper = "getComputedStyle(document.querySelector('section.roofline .main-svg')).backgroundColor"
    dark = page.evaluate(paper)
    assert dark == page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(22, 24, 27)"
    assert page.evaluate(CONTRAST)["ratio"] >= 4.5, page.evaluate(CONTRAST)

    # On paper: light, all charts of open parts drawn, nothing wider than the page; then as before.
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert page.evaluate("document.querySelectorAll('.plot:not(:has(.main-svg))').length") == 0
    assert page.evaluate(paper) == "rgb(255, 255, 255)"
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    assert page.evaluate(paper) == dark
    pdf = page.pdf(format="A4", print_background=True)
    assert pdf.startswith(b"%PDF")
    assert pdf.count(b"/Type /Page\n") >= 3

    # The reader's choice of colours wins over the system's.
    page.click("#theme")
    assert page.evaluate(paper) == "rgb(255, 255, 255)"
    assert page.evaluate("document.documentElement.dataset.theme") == "light"
    assert page.evaluate(CONTRAST)["ratio"] >= 4.5, page.evaluate(CONTRAST)
    assert len(opened.requests) == 1


def test_a_run_that_timed_nothing_has_no_charts_and_no_script_for_them(open_page, document):
    text = document(sample_document("check-square", "h200"))
    assert len(text) < 200_000
    opened = open_page(text, "report.html")
    sections = opened.page.evaluate("[...document.querySelectorAll('article > section')].map((s) => s.className)")
    assert sections == ["answer", "verdicts", "correctness", "environment"]
    assert "355 trials in the battery, all passed." in opened.text("section.answer")
    assert "outside (triton 27, cuda 27, cuda-inline 27): not differentiable" in opened.text("section.correctness")


@pytest.mark.clocked
def test_a_large_report_is_small_and_quick(browser, large, tmp_path):
    assert len(large.encode()) < MOST_BYTES
    (tmp_path / "report.html").write_text(large)
    seconds = []
    for _ in range(2):
        page = browser.new_page()
        began = time.monotonic()
        page.goto((tmp_path / "report.html").as_uri())
        page.click(f"{TABLE} th:nth-child(2) button")
        page.evaluate("() => new Promise(requestAnimationFrame)")
        seconds.append(time.monotonic() - began)
        page.close()
    assert min(seconds) < MOST_SECONDS, json.dumps(seconds)
