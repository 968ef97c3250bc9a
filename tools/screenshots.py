"""The pictures of the report in README.md: a run on the CPU in light colours, one on a GPU in dark ones.

    python tools/screenshots.py CPU_RUN GPU_RUN

Each shows the top of the report, down to the end of one section. Both runs need a sweep.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests"))

from kernellab.reporting.report.document import report  # noqa: E402
from support.browser import launch_chromium  # noqa: E402
from support.reports import read_run  # noqa: E402

FOLDER = ROOT / "docs" / "images"
PICTURES = {"report-cpu.png": "light", "report-gpu.png": "dark"}  # in the order of the runs
LAST_SECTION = "curves"
WINDOW = {"width": 1200, "height": 800}


def main() -> None:
    FOLDER.mkdir(exist_ok=True)
    with launch_chromium() as browser, tempfile.TemporaryDirectory() as scratch:
        for run, (name, colours) in zip(sys.argv[1:], PICTURES.items(), strict=True):
            file = Path(scratch) / "report.html"
            file.write_text(report([read_run(Path(run))]))
            page = browser.new_page(viewport=WINDOW, color_scheme=colours)
            page.goto(file.as_uri())
            section = page.locator(f"section#{LAST_SECTION}")
            section.scroll_into_view_if_needed()  # charts are drawn when the reader comes near them
            section.locator(".js-plotly-plot .main-svg").first.wait_for()
            box = section.bounding_box()
            assert box is not None
            height = box["y"] + box["height"] + page.evaluate("scrollY") + 16
            page.evaluate("scrollTo(0, 0)")
            page.screenshot(
                path=FOLDER / name, full_page=True, clip={"x": 0, "y": 0, "width": WINDOW["width"], "height": height}
            )
            print((FOLDER / name).relative_to(ROOT))


if __name__ == "__main__":
    main()
