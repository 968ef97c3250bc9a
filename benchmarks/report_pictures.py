"""Pictures of sample runs, in Chromium: their reports, docs/results/report-h200.png and report-cpu.png, and one as a
notebook shows it, docs/results/notebook-h200.png.

    python benchmarks/report_pictures.py [OUT]

The runs are those of tests/samples: softmax at three sizes on an NVIDIA H200, and softmax on two shared cores of an AMD
EPYC; in the notebook, gelu on an H200. Without OUT the pictures are written to docs/results.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "src"))
sys.path.insert(0, str(ROOT / "tests"))

import kernellab as kl
from kernellab.reporting.report.document import report
from support.browser import launch_chromium
from support.reports import read_run
from support.sample_records import sample_run

RUNS = {"h200": ("bench-softmax", "light", 2150), "cpu": ("explain-softmax", "dark", 1480)}  # name, colours, height
WIDTH = 1100


def main(out: Path) -> None:
    with launch_chromium() as browser, tempfile.TemporaryDirectory() as folder:
        for machine, (name, colours, height) in RUNS.items():
            file = Path(folder) / f"{machine}.html"
            file.write_text(report([read_run(sample_run(name, machine))]), encoding="utf-8")
            page = browser.new_page(viewport={"width": WIDTH, "height": height}, color_scheme=colours)
            page.goto(file.as_uri())
            page.wait_for_selector("html[data-charts]", state="attached")
            page.wait_for_timeout(500)  # until the charts in view are drawn
            page.screenshot(path=out / f"report-{machine}.png")
        page = browser.new_page(viewport={"width": WIDTH, "height": 10})
        page.set_content(_cells(kl.load(sample_run("run-gelu", "h200"))._repr_html_()))
        page.screenshot(path=out / "notebook-h200.png", full_page=True)


def _cells(fragment: str) -> str:
    """The same output of a cell on a light and on a dark page, in the colours of JupyterLab."""
    pages = (("#ffffff", "rgb(0 0 0 / 87%)"), ("#111111", "rgb(255 255 255 / 87%)"))
    cells = (f'<div style="background: {page}; color: {ink}; padding: 1em">{fragment}</div>' for page, ink in pages)
    return f'<!doctype html><body style="margin: 0; font: 14px system-ui">{"".join(cells)}'


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "docs" / "results")
