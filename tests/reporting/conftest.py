"""A browser for the tests of pages, pictures and reports."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from support.browser import OpenPage, launch_chromium

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

WINDOW = {"width": 1000, "height": 600}


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """One for all tests of a module. Without Chromium they fail: `make test` installs it."""
    with launch_chromium() as chromium:
        yield chromium


@pytest.fixture(scope="module")
def shared_page(browser) -> Page:
    """One page is used again and again: a new one takes most of a second."""
    return browser.new_page(viewport=WINDOW)


@pytest.fixture
def open_page(browser, shared_page, tmp_path):
    """Open a document from the disk. `options` of the browser's page need a page of their own."""
    pages: list[OpenPage] = []

    def open_(document: str, name: str = "picture.html", **options) -> OpenPage:
        (tmp_path / name).write_text(document, encoding="utf-8")
        opened = OpenPage(browser.new_page(**{"viewport": WINDOW, **options}) if options else shared_page)
        opened.page.set_default_timeout(10_000)
        opened.page.goto((tmp_path / name).as_uri())
        if name.endswith(".html"):
            opened.page.wait_for_selector("html[data-ready]", state="attached")
            assert opened.page.get_attribute("html", "data-ready") == "yes", opened.text("#shown")
            opened.settle()
        pages.append(opened)
        return opened

    yield open_
    for opened in pages:
        assert opened.errors == []
        opened.leave(shared_page)
