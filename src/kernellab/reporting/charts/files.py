"""The files of a sweep: its numbers as CSV, its growth as JSON, its curves as PNG and SVG."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Mapping
from pathlib import Path

from kernellab.base.errors import UserError
from kernellab.base.json import JsonObject
from kernellab.base.paths import replace_file
from kernellab.record.derived import DerivedRecord
from kernellab.reporting.charts import table as sweep_table
from kernellab.reporting.charts.series import Sweep, find
from kernellab.reporting.exports.csv_text import csv_text
from kernellab.stats import growth

_NEEDS = {"matplotlib": "PNG and SVG need matplotlib", "plotext": "charts here need plotext"}


def write(record: DerivedRecord, folder: Path) -> list[Path]:
    """Writes the files of every sweep of a derived record that was timed; returns their paths."""
    written: list[Path] = []
    try:
        for sweep in find(record):
            if sweep.timed:
                folder.mkdir(parents=True, exist_ok=True)
                written += _write(sweep, record, folder)
    except OSError as error:
        raise UserError(f"cannot write curves to {folder}: {error.strerror}") from None
    return written


def missing_packages() -> str | None:
    """One sentence about what cannot be drawn because packages are missing, or None."""
    needs = [sentence for package, sentence in _NEEDS.items() if importlib.util.find_spec(package) is None]
    return f"{'; '.join(needs)}: pip install 'kernellab[plots]'" if needs else None


def _write(sweep: Sweep, record: DerivedRecord, folder: Path) -> list[Path]:
    table = folder / f"curves-{sweep.stem}.csv"
    replace_file(table, _csv(sweep).encode())
    written = [table]
    fits = sweep_table.fit_growth(sweep)
    if fits:
        written.append(folder / f"scaling-{sweep.stem}.json")
        replace_file(written[-1], f"{json.dumps(_scaling(sweep, fits), indent=1)}\n".encode())
    if importlib.util.find_spec("matplotlib") is not None:
        from kernellab.reporting.charts import plot

        figure = plot.draw(sweep, record)
        for kind in ("png", "svg"):
            written.append(folder / f"curves-{sweep.stem}.{kind}")
            plot.save(figure, written[-1])
    return written


def _csv(sweep: Sweep) -> str:
    """One row for each case and implementation; cells without a value are empty."""
    rows = []
    for size, group in sweep.groups.items():
        dims = {sweep.dim: size, **dict.fromkeys(sweep.together, size), **sweep.fixed}
        for result in group:
            point = sweep.curve(result["impl"]).get(size)
            row: JsonObject = {
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
                time = point.time
                row |= {"median_us": time["median_us"], "low_us": time["low_us"], "high_us": time["high_us"]}
                row |= {"q20_us": point.q20_us, "q80_us": point.q80_us, "share": point.share}
                row["trust"] = point.trust["verdict"]
                if sweep.unit != "µs":
                    row |= {"rate": point.value, "unit": sweep.unit}
            rows.append(row)
    return csv_text(list(rows[0]), rows)


def _scaling(sweep: Sweep, fits: Mapping[str, growth.Fit]) -> dict[str, object]:
    return {
        "op": sweep.op,
        "dim": sweep.dim,
        "together": list(sweep.together),
        "fixed": dict(sweep.fixed),
        "dtype": sweep.case["dtype"],
        "options": dict(sweep.case["options"]),
        "confidence": growth.CONFIDENCE,
        "impls": {impl: fit.to_json() for impl, fit in fits.items()},
    }


def group_names(paths: list[Path], folder: str) -> list[str]:
    """Files of the same stem as one name: `runs/x/curves-square-N-float32.{csv,png,svg}`."""
    stems: dict[str, list[str]] = {}
    for path in paths:
        stems.setdefault(path.name.removesuffix(path.suffix), []).append(path.suffix[1:])
    return [
        f"{folder}/{stem}." + (kinds[0] if len(kinds) == 1 else "{" + ",".join(kinds) + "}")
        for stem, kinds in stems.items()
    ]
