"""The server as a reader uses it: a real `klab serve` and a real Chromium."""

import re

import pytest

from kernellab.base.file_lock import locked
from kernellab.record.journal import JOURNAL
from support.browser import OpenPage, launch_chromium
from support.histories import write_run
from support.klab_serve import served


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    for number in range(3):
        write_run(folder / f"gelu-{number}", {"triton": 10.0 + number, "torch": 20.0}, number=number)
    write_run(folder / "softmax", {"cuda": 20.0}, number=3, op="softmax")
    return folder


@pytest.fixture(scope="module")
def server(runs):
    with served(runs) as server:
        yield server


@pytest.fixture(scope="module")
def context(server):
    with launch_chromium() as chromium:
        context = chromium.new_context(viewport={"width": 1000, "height": 700})
        page = context.new_page()
        page.goto("data:text/html,another page")
        page.evaluate("address => { location = address }", f"{server.address}/?token={server.token}")
        page.wait_for_url(f"{server.address}/")  # the token has left the address bar
        page.wait_for_selector("text=Compare the two")
        page.close()
        yield context


@pytest.fixture
def opened(context, server):
    opened = OpenPage(context.new_page())
    opened.page.set_default_timeout(10_000)
    opened.page.goto(server.address)
    yield opened
    assert opened.errors == []
    assert {url for url in opened.requests if not url.startswith((server.address, "data:"))} == set()
    opened.page.close()


def test_filter_compare_and_open(opened, server):
    page = opened.page
    page.select_option("select[name=op]", "gelu")
    page.click("text=Filter")
    assert page.locator("tbody tr").count() == 3
    rows = page.locator("tbody tr")
    page.keyboard.press("Tab")
    rows.nth(2).locator("input[name=before]").check()
    rows.nth(0).locator("input[name=after]").check()
    page.click("text=Compare the two")
    page.wait_for_url("**/compare?**")
    assert "slower" in opened.text("main")
    page.click("text=all runs")
    page.click("a:text('gelu-2')")
    page.wait_for_url(re.compile(r"/runs/[0-9a-f]{16}$"))
    assert "triton" in opened.text("main")
    page.click("text=all runs")
    page.wait_for_url(f"{server.address}/")


def test_a_run_is_watched_live(opened, server, runs):
    page = opened.page
    lines = (runs / "gelu-0" / JOURNAL).read_text().splitlines(keepends=True)
    folder = runs / "growing"
    folder.mkdir()
    with locked(folder / JOURNAL), (folder / JOURNAL).open("a") as journal:
        journal.writelines(lines[:2])
        journal.flush()
        page.reload()
        page.click("a[href^='/live/']")
        page.wait_for_selector("html[data-live=running]", state="attached")
        assert "0 of 2 implementations checked" in opened.text("#now")
        journal.writelines(lines[2:])
        journal.flush()
        page.wait_for_selector("html[data-live=complete]", state="attached")
    assert "2 of 2 implementations checked, 2 timed. Complete" in opened.text("#now")
    assert page.locator("#rows tr").all_text_contents()[0].startswith("geluN=8")


def test_it_fits_a_phone_and_has_dark_colours(opened):
    page = opened.page
    page.set_viewport_size({"width": 360, "height": 740})
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    before = page.evaluate("getComputedStyle(document.body).backgroundColor")
    page.click("#theme")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") != before
