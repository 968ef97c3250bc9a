"""A real Chromium without a window, for tests of pages and pictures."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
MISSING = "no Chromium was found: `make chromium` installs it"


def chromium() -> str | None:
    return next(filter(None, map(shutil.which, NAMES)), None)


@contextlib.contextmanager
def launch_chromium() -> Iterator[Browser]:
    """Start Chromium; as root without its sandbox, which root cannot use. Only our own pages are opened here."""
    # Imported here, so that other tests can be collected if it is not installed.
    from playwright.sync_api import sync_playwright

    executable = chromium()
    if executable is None:
        raise FileNotFoundError(MISSING)
    flags = ["--no-sandbox"] if os.geteuid() == 0 else []
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=executable, args=flags)
        try:
            yield browser
        finally:
            browser.close()


class OpenPage:
    """A page in the browser: a timeline, for example."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.errors: list[str] = []
        self.requests: list[str] = []
        self._listeners = {
            "pageerror": lambda error: self.errors.append(str(error)),
            "console": lambda line: self.errors.append(line.text) if line.type in ("error", "warning") else None,
            "request": lambda request: self.requests.append(request.url),
        }
        for event, listener in self._listeners.items():
            page.on(event, listener)

    def leave(self, shared: Page) -> None:
        """Close the page, unless it is the one that tests share."""
        for event, listener in self._listeners.items():
            self.page.remove_listener(event, listener)
        if self.page is not shared:
            self.page.close()

    def text(self, selector: str) -> str:
        return self.page.inner_text(selector)

    def settle(self) -> None:
        """Wait until the last change is drawn: the page requested its frame before this does."""
        self.page.evaluate("() => new Promise(requestAnimationFrame)")

    def until(self, condition: Callable[[], object]) -> bool:
        """Whether it becomes true within a few seconds. A page's policy may forbid Playwright's own way of waiting."""
        return any(condition() or self.page.wait_for_timeout(50) for _ in range(100))

    def press(self, *keys: str) -> None:
        for key in keys:
            self.page.keyboard.press(key)
        self.settle()

    def shown_ms(self) -> tuple[float, float]:
        self.settle()
        units = {"ns": 1e-6, "µs": 1e-3, "ms": 1.0, "s": 1e3}
        span = re.match(r"(\S+) (\w+|µs) – (\S+) (\w+|µs) of", self.text("#shown"))
        assert span is not None, self.text("#shown")
        return float(span[1]) * units[span[2]], float(span[3]) * units[span[4]]

    def x(self, ms: float) -> float:
        """The position of a time on the canvas. The page shows four digits of the visible span: precise enough."""
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
        """The colours of a line across a canvas, or of a point on it. They are read from a copy of the canvas."""
        read = """([id, x, y]) => {
          const canvas = document.getElementById(id), width = x === null ? canvas.width : 1;
          const context = new OffscreenCanvas(width, 1).getContext("2d");
          context.drawImage(canvas, Math.floor(x ?? 0), Math.floor(y), width, 1, 0, 0, width, 1);
          const data = context.getImageData(0, 0, width, 1).data;
          return [...new Set(Array.from({ length: width }, (_, i) => data.slice(4 * i, 4 * i + 3).join()))];
        }"""
        return {tuple(map(int, colour.split(","))) for colour in self.page.evaluate(read, [canvas, x, y])}

    def pixel(self, ms: float, y: float) -> tuple[int, ...]:
        (colour,) = self.colours(y, self.x(ms))
        return colour

    @property
    def span_ms(self) -> float:
        span = re.search(r"of (\S+) (ms|s),", self.text("#shown"))
        assert span is not None
        return float(span[1]) * (1000 if span[2] == "s" else 1)
