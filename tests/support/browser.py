"""A real Chromium without a window, for tests of pages and pictures."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

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


class Looked:
    """A timeline, or another page, as a person sees it."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.errors: list[str] = []
        self.asked: list[str] = []
        self.heard = {
            "pageerror": lambda error: self.errors.append(str(error)),
            "console": lambda said: self.errors.append(said.text) if said.type in ("error", "warning") else None,
            "request": lambda request: self.asked.append(request.url),
        }
        for event, hear in self.heard.items():
            page.on(event, hear)

    def leave(self, usual: Page) -> None:
        for event, hear in self.heard.items():
            self.page.remove_listener(event, hear)
        if self.page is not usual:
            self.page.close()

    def text(self, selector: str) -> str:
        return self.page.inner_text(selector)

    def settle(self) -> None:
        """Until what was asked for is drawn: the page asked for a frame before this does."""
        self.page.evaluate("() => new Promise(requestAnimationFrame)")

    def press(self, *keys: str) -> None:
        for key in keys:
            self.page.keyboard.press(key)
        self.settle()

    def shown_ms(self) -> tuple[float, float]:
        self.settle()
        units = {"ns": 1e-6, "µs": 1e-3, "ms": 1.0, "s": 1e3}
        found = re.match(r"(\S+) (\w+|µs) – (\S+) (\w+|µs) of", self.text("#shown"))
        assert found is not None, self.text("#shown")
        return float(found[1]) * units[found[2]], float(found[3]) * units[found[4]]

    def x(self, ms: float) -> float:
        """Where a time lies on the canvas. What is shown is told in four digits, which is near enough."""
        low, high = self.shown_ms()
        width = self.page.evaluate("document.getElementById('canvas').clientWidth")
        margin = 0.02 * self.span_ms if (low, high) == (0, self.span_ms) else 0
        return (ms - low + margin) / (high - low + 2 * margin) * width

    def at(self, ms: float, y: float) -> tuple[float, float]:
        box = self.page.locator("#canvas").bounding_box()
        assert box is not None
        return box["x"] + self.x(ms), box["y"] + y

    def click(self, ms: float, y: float) -> None:
        self.page.mouse.click(*self.at(ms, y))
        self.settle()

    def colours(self, y: float, x: float | None = None, canvas: str = "canvas") -> set[tuple[int, ...]]:
        """Those of a line across a canvas, or of a point of it. Read from a copy, so as not to change the canvas."""
        read = """([id, x, y]) => {
          const canvas = document.getElementById(id), width = x === null ? canvas.width : 1;
          const context = new OffscreenCanvas(width, 1).getContext("2d");
          context.drawImage(canvas, Math.floor(x ?? 0), Math.floor(y), width, 1, 0, 0, width, 1);
          const data = context.getImageData(0, 0, width, 1).data;
          return [...new Set(Array.from({ length: width }, (_, i) => data.slice(4 * i, 4 * i + 3).join()))];
        }"""
        return {tuple(map(int, one.split(","))) for one in self.page.evaluate(read, [canvas, x, y])}

    def pixel(self, ms: float, y: float) -> tuple[int, ...]:
        (colour,) = self.colours(y, self.x(ms))
        return colour

    @property
    def span_ms(self) -> float:
        found = re.search(r"of (\S+) (ms|s),", self.text("#shown"))
        assert found is not None
        return float(found[1]) * (1000 if found[2] == "s" else 1)
