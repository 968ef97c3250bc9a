"""Source, PTX and SASS in Chromium: pointing, clicking, keys, touch, a narrow screen, and a stranger's texts."""

import json

import pytest

from kernellab.reporting.report.document import report
from support.reports import read_run, sample_run

NARROW = {"width": 360, "height": 740}


@pytest.fixture
def folder(tmp_path):
    return sample_run("code_gelu.tar.gz", "gelu", tmp_path)


def open_code(open_page, folder, **options):
    """The report with its section built: that happens when the reader comes near it."""
    opened = open_page(report([read_run(folder)]), "report.html", **options)
    opened.page.locator("section.code").scroll_into_view_if_needed()
    opened.page.wait_for_selector(".code[data-ready]")
    # A script that starts between the two ends of a touch makes it a long one.
    opened.page.wait_for_selector("html[data-charts]", state="attached")
    opened.settle()
    return opened


def line(opened, column, text):
    return opened.page.locator(f'.code-column[data-column="{column}"] .code-line', has_text=text).first


def lit(opened, column, mark="lit"):
    return opened.page.locator(f'.code-column[data-column="{column}"] .code-line.{mark}').all_text_contents()


def at_left(row, act="click"):
    """Act on the left end of a line: a line is wider than its box."""
    getattr(row, act)(position={"x": 80, "y": 10})


def test_lines_that_belong_together_are_lit(open_page, folder):
    opened = open_code(open_page, folder, viewport={"width": 1400, "height": 900})
    page = opened.page
    only = len(opened.requests)

    # Pointing lights, and leaving lets go.
    at_left(line(opened, "source", "tl.program_id"), "hover")
    assert any("%ctaid.x" in text for text in lit(opened, "ptx"))
    assert any("SR_CTAID.X" in text for text in lit(opened, "sass"))
    assert "elementwise_triton.py:88: " in opened.text(".code-status")
    page.locator("h1").hover()
    assert lit(opened, "sass") == lit(opened, "ptx") == []
    assert opened.text(".code-status").strip() == ""

    # From an instruction: its line of source, those that called its function, and the other instructions of that line.
    at_left(line(opened, "sass", "MUFU.EX2"), "hover")
    (source,) = lit(opened, "source")
    assert "tl.exp2(x" in source
    assert any("result = f(a)" in text for text in lit(opened, "source", "outer"))
    assert any("ex2.approx" in text for text in lit(opened, "ptx"))
    assert "called from" in opened.text(".code-status")

    # A click keeps the lines lit and scrolls to them; Escape lets go.
    at_left(line(opened, "source", "tl.program_id"))
    at_left(line(opened, "source", "@triton.jit"), "hover")
    assert any("SR_CTAID.X" in text for text in lit(opened, "sass"))
    last = page.locator('.code-column[data-column="sass"] .code-line[data-linked]').last
    last.scroll_into_view_if_needed()
    at_left(last)
    assert page.evaluate("document.querySelector('[data-column=source] .lit').getBoundingClientRect().top > 0")
    opened.press("Escape")
    assert lit(opened, "sass") == []

    # Keys: the focus is on a line that has instructions, arrows move, Enter keeps, a column's neighbour is → away.
    page.locator('.code-column[data-column="source"] .code-lines').focus()
    opened.press("Home", "ArrowDown")
    assert page.locator(".code-lines:focus .cursor").inner_text().startswith("def map_flat(")
    assert lit(opened, "sass")
    opened.press("Enter", "ArrowRight")
    assert page.evaluate("document.activeElement.getAttribute('aria-label')") == "PTX"
    assert page.evaluate("document.getElementById(document.activeElement.getAttribute('aria-activedescendant'))") != ""
    assert page.locator(".code-lines.held").count() == 3
    opened.press("Escape")
    assert page.locator(".code-lines.held").count() == 0

    # Another kernel.
    page.select_option(".code-kernel", "1")
    assert page.locator(".code-facts:visible h3").inner_text().startswith("cuda")
    assert line(opened, "source", "__global__").count() == 1
    assert len(opened.requests) == only


def test_on_a_narrow_screen_one_column_shows_and_a_touch_keeps_its_lines(open_page, folder):
    opened = open_code(open_page, folder, viewport=NARROW, has_touch=True, color_scheme="dark")
    page = opened.page
    visible = page.locator(".code-lines:visible")
    assert visible.count() == 1
    at_left(line(opened, "source", "tl.program_id"), "tap")
    page.wait_for_selector(".code-lines.held")
    sass = page.locator('.code-tabs [data-column="sass"]')
    assert sass.inner_text().startswith("SASS (")
    sass.tap()
    assert visible.get_attribute("aria-label") == "SASS"
    assert page.locator(".code-lines:visible .lit").first.is_visible()
    assert page.evaluate("document.documentElement.scrollWidth") == NARROW["width"]


def test_a_strangers_texts_stay_texts(open_page, folder):
    hostile = "</script><script>window.hacked = 1</script><img src=x onerror='window.hacked = 2'>"
    for file in (folder / "artifacts").iterdir():
        file.write_text(f"{hostile}\n{file.read_text()}")
    text = (folder / "run.json").read_text()
    (folder / "journal.jsonl").unlink()
    record = json.loads(text.replace("map_flat", json.dumps(hostile)[1:-1]))
    for entry in record["code"]:
        for kernel in entry["kernels"]:
            kernel["files"] = {level: name.replace(hostile, "map_flat") for level, name in kernel["files"].items()}
            kernel["facts"]["remarks"] = [hostile]
            kernel["sources"][0]["file"] = f"/{hostile}"
    (folder / "run.json").write_text(json.dumps(record))
    opened = open_code(open_page, folder)
    assert "window.hacked = 1" in line(opened, "source", "window.hacked").text_content()
    assert "window.hacked" in opened.text(".code-facts .warn")
    assert opened.page.evaluate("window.hacked") is None
    assert len(opened.requests) == 1
