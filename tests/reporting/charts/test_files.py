"""The files of sweeps: CSV, JSON, PNG and SVG."""

import csv
import importlib.util
import json
import subprocess
import sys

import pytest

from kernellab.reporting.charts import files
from support.klab import HERE, klab_env
from support.records import timed
from support.sweeps import at, derived_record, swept


def test_the_csv_holds_what_the_record_does(tmp_path):
    rec = swept()
    written = files.write(rec, tmp_path)
    assert written[0].name == "curves-f-N-float32.csv"
    with written[0].open() as f:
        rows = list(csv.DictReader(f))
    assert len(rows) == len(rec["results"])
    for row, seen in zip(rows, rec["results"], strict=True):
        time, limit = seen["derived"]["time"], seen["derived"]["limit"]
        assert (row["op"], row["impl"], row["dtype"]) == ("f", seen["impl"], "float32")
        assert (int(row["N"]), int(row["dim0"])) == (seen["case"]["dims"]["N"], 32)
        assert (row["status"], row["reason"]) == (seen["derived"]["status"], seen["derived"]["reason"] or "")
        if time is None:
            assert (row["median_us"], row["rate"], row["unit"]) == ("", "", "")
            continue
        for name in ("median_us", "low_us", "high_us"):
            assert float(row[name]) == time[name]
        assert float(row["q20_us"]) <= time["median_us"] <= float(row["q80_us"])
        assert (float(row["rate"]), row["unit"]) == (pytest.approx(limit["gbps"]), "GB/s")
        assert float(row["share"]) == limit["fraction"]


def test_growth_is_written_beside_the_csv(tmp_path):
    files.write(swept(), tmp_path)
    document = json.loads((tmp_path / "scaling-f-N-float32.json").read_text())
    assert (document["dim"], document["fixed"], document["confidence"]) == ("N", {"dim0": 32}, 0.99)
    assert document["impls"]["torch"]["whole"]["exponent"] == pytest.approx(1, abs=0.01)
    assert set(document["impls"]) == {"torch", "cpp", "liar"}


def test_pictures_have_curves_gaps_and_their_provenance(tmp_path):
    pytest.importorskip("matplotlib")
    written = {path.suffix: path for path in files.write(swept(), tmp_path)}
    png, svg = written[".png"].read_bytes(), written[".svg"].read_text()
    assert png[:8] == b"\x89PNG\r\n\x1a\n"
    assert len(png) > 20_000
    for text in ("torch", "cpp", "liar (wrong at 3 of 8 sizes)", "Not drawn: cuda", "GB/s", "copy bandwidth"):
        assert text in svg, text
    assert "H driver 9 · 2026-11-15 · torch 2.13 · Python 3.11.7" in svg
    assert "GPU-1" not in svg
    again = tmp_path / "again"
    files.write(swept(), again)
    assert (again / written[".svg"].name).read_text() == svg


DRAWN_WITHOUT = """
import importlib.util, sys
from pathlib import Path
absent = sys.argv[1]
find_spec = importlib.util.find_spec
importlib.util.find_spec = lambda name, *more: None if name == absent else find_spec(name, *more)
sys.modules[absent] = None
from kernellab.reporting.charts import files
from kernellab.reporting.terminal import results
from kernellab.reporting.text.console import console
from support.sweeps import printed, swept
written = files.write(swept(), Path("."))
print(printed(swept()))
results.show_files(written, "here", console())
"""


@pytest.mark.parametrize(
    ("absent", "sentence"), [("matplotlib", "PNG and SVG need matplotlib"), ("plotext", "charts here need plotext")]
)
def test_without_a_package_only_its_own_drawings_are_missing(tmp_path, absent, sentence):
    env = klab_env()
    env["PYTHONPATH"] += f":{HERE}"
    command = [sys.executable, "-c", DRAWN_WITHOUT, absent]
    done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "curves-f-N-float32.csv").exists()
    assert sentence in done.stdout
    assert "pip install 'kernellab[plots]'" in done.stdout
    assert "torch is fastest from N=64 to 1024" in done.stdout
    drawn = absent != "matplotlib" and importlib.util.find_spec("matplotlib") is not None
    assert (tmp_path / "curves-f-N-float32.png").exists() is drawn
    charted = absent != "plotext" and importlib.util.find_spec("plotext") is not None
    assert ("┤" in done.stdout) is charted


def test_names_of_a_stranger_are_no_paths_and_prepared_links_are_not_followed(tmp_path):
    run, mine = tmp_path / "run", tmp_path / "mine.txt"
    (run / "curves-x").mkdir(parents=True)  # a folder that would make the path valid
    (tmp_path / "outside").mkdir()
    mine.write_text("mine")
    results = [
        at(timed("torch", n * factor), {"N": n}, op=op, dtype="../float32", path=path)
        for op, path in (("x/../../outside/pwned", "a"), ("x/../../outside/pwned", "a/b"), ("x/", "é" * 300))
        for n, factor in ((64, 1), (128, 1), (256, 1))
    ]
    for kind in ("csv", "png", "svg"):
        (run / f"curves-x_-N-.._float32.{kind}").symlink_to(mine)
    written = files.write(derived_record(*results), run)
    assert len({path.name for path in written if path.suffix == ".csv"}) == 3
    assert all(path.parent == run and path.is_file() and not path.is_symlink() for path in written)
    assert mine.read_text() == "mine"
    assert list((tmp_path / "outside").iterdir()) == []
    assert sorted(path.name for path in tmp_path.iterdir()) == ["mine.txt", "outside", "run"]


def test_sweeps_whose_names_look_the_same_in_a_file_name_have_files_of_their_own(tmp_path):
    results = [at(timed("torch", n), {"N": n}, op=op) for op in ("a/b", "a b", "a_b") for n in (64, 128, 256)]
    tables = [path for path in files.write(derived_record(*results), tmp_path) if path.suffix == ".csv"]
    assert [path.name for path in tables] == [
        "curves-a_b-N-float32.csv",
        "curves-a_b-N-float32-2.csv",
        "curves-a_b-N-float32-3.csv",
    ]
    assert [next(csv.DictReader(path.open()))["op"] for path in tables] == ["a/b", "a b", "a_b"]
