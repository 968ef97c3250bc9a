"""A real Chromium without a window, for tests of pages and pictures."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from playwright.sync_api import Browser

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
MISSING = "no Chromium was found: `make chromium` installs it"


def chromium() -> str | None:
    return next(filter(None, map(shutil.which, NAMES)), None)


@contextlib.contextmanager
def opened() -> Iterator[Browser]:
    """Chromium's own sandbox cannot be used by root, as whom tests often run; all it opens here are our own pages."""
    # Here, so that tests of other things are found where this is not installed.
    from playwright.sync_api import sync_playwright

    found = chromium()
    if found is None:
        raise FileNotFoundError(MISSING)
    flags = ["--no-sandbox"] if os.geteuid() == 0 else []
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=found, args=flags)
        try:
            yield browser
        finally:
            browser.close()
