"""Pictures of the reports of two sample runs, in Chromium: docs/results/report-h200.png and report-cpu.png.

    python benchmarks/report_pictures.py [OUT]

The runs are those of tests/samples: softmax at three sizes on an NVIDIA H200, and softmax on two shared cores of an AMD
EPYC. Without OUT the pictures are written to docs/results.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "src"))
sys.path.insert(0, str(ROOT / "tests"))

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


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "docs" / "results")
