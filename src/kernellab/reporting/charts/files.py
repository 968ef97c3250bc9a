"""A sweep as files: its numbers as CSV, its growth as JSON, its curves as PNG and SVG."""

from __future__ import annotations

import csv
import importlib.util
import io
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kernellab.base.errors import UserError
from kernellab.reporting.charts import table as report
from kernellab.reporting.charts.series import Sweep, find
from kernellab.stats import growth as scaling

_DRAWING = ("matplotlib", "plotext")


def write(record: Mapping[str, Any], folder: Path) -> list[Path]:
    """The files of every sweep of a derived record that was timed; which ones were written."""
    written: list[Path] = []
    try:
        for sweep in find(record):
            if sweep.timed:
                folder.mkdir(parents=True, exist_ok=True)
                written += _write(sweep, record, folder)
    except OSError as error:
        raise UserError(f"cannot write curves to {folder}: {error.strerror}") from None
    return written


def missing() -> str | None:
    """One sentence on what cannot be drawn here, or None."""
    absent = [name for name in _DRAWING if importlib.util.find_spec(name) is None]
    if not absent:
        return None
    need = {"matplotlib": "PNG and SVG need matplotlib", "plotext": "charts here need plotext"}
    return f"{'; '.join(need[name] for name in absent)}: pip install 'kernellab[plots]'"


def _write(sweep: Sweep, record: Mapping[str, Any], folder: Path) -> list[Path]:
    table = folder / f"curves-{sweep.stem}.csv"
    table.write_text(_csv(sweep))
    written = [table]
    fits = report.fits(sweep)
    if fits:
        written.append(folder / f"scaling-{sweep.stem}.json")
        written[-1].write_text(json.dumps(_scaling(sweep, fits), indent=1) + "\n")
    if importlib.util.find_spec("matplotlib") is not None:
        from kernellab.reporting.charts import plot as picture

        figure = picture.draw(sweep, record)
        for kind in ("png", "svg"):
            written.append(folder / f"curves-{sweep.stem}.{kind}")
            picture.save(figure, written[-1])
    return written


def _csv(sweep: Sweep) -> str:
    """One row for each case and way; empty where there is nothing to say."""
    rows = []
    for size, group in sweep.groups.items():
        dims = {sweep.dim: size, **dict.fromkeys(sweep.together, size), **sweep.fixed}
        for result in group:
            point = sweep.curve(result["impl"]).get(size)
            row: dict[str, Any] = {
                "op": sweep.op,
                **dims,
                "dtype": sweep.case["dtype"],
                "options": " ".join(f"{k}={v}" for k, v in sweep.case["options"].items()),
                "impl": result["impl"],
                "status": result["derived"]["status"],
                "reason": result["derived"]["reason"],
                **dict.fromkeys(
                    ("median_us", "low_us", "high_us", "q20_us", "q80_us", "rate", "unit", "share", "trust")
                ),
            }
            if point is not None:
                row |= {k: point.time[k] for k in ("median_us", "low_us", "high_us")}
                row |= {"q20_us": point.q20_us, "q80_us": point.q80_us, "share": point.share}
                row["trust"] = result["derived"]["trust"]["verdict"]
                if sweep.unit != "µs":
                    row |= {"rate": point.value, "unit": sweep.unit}
            rows.append(row)
    text = io.StringIO()
    writer = csv.DictWriter(text, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def _scaling(sweep: Sweep, fits: Mapping[str, scaling.Fit]) -> dict[str, Any]:
    return {
        "op": sweep.op,
        "dim": sweep.dim,
        "together": list(sweep.together),
        "fixed": dict(sweep.fixed),
        "dtype": sweep.case["dtype"],
        "options": dict(sweep.case["options"]),
        "confidence": scaling.CONFIDENCE,
        "ways": {way: fit.to_json() for way, fit in fits.items()},
    }


def named(paths: list[Path], folder: str) -> list[str]:
    """`runs/x/curves-square-N-float32.{csv,png,svg}`: files by what they have in common."""
    stems: dict[str, list[str]] = {}
    for path in paths:
        stems.setdefault(path.name.removesuffix(path.suffix), []).append(path.suffix[1:])
    return [
        f"{folder}/{stem}." + (kinds[0] if len(kinds) == 1 else "{" + ",".join(kinds) + "}")
        for stem, kinds in stems.items()
    ]
