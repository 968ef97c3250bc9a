"""Sweeps: found in records, shown as one table, drawn as curves, written as CSV, PNG, SVG and JSON."""

import csv
import io
import json
import re
import statistics
import subprocess
import sys

import pytest
from rich.console import Console

from kernellab.record.verdict import derive
from kernellab.reporting.charts import characters as chart
from kernellab.reporting.charts import files as curves
from kernellab.reporting.charts import series
from kernellab.reporting.charts import table as sweep
from kernellab.reporting.terminal.results import show
from support.klab import klab_env
from support.records import result, timed

CEILINGS = {"copy_gbps": 100.0, "matmul_tflops": {"float32": 1.0}}
GPU = {"name": "H", "uuid": "GPU-1"}


def at(made, dims, *, dtype="float32", op="f", **options):
    case = {"dims": dims, "dtype": dtype, "options": options, "layout": "contiguous", "device": "cpu"}
    return {**made, "op": op, "case": case}


def record(*results, stages=("check", "time")):
    made = {
        "results": list(results),
        "machine": {"ceilings": CEILINGS, "device": "cpu", "name": "H GPU-1 driver 9"},
        "environment": {"python": "3.11.7", "packages": {"torch": "2.13", "numpy": "2"}, "gpus": [GPU]},
        "stages": list(stages),
        "complete": True,
        "began": "2026-11-15T06:00:00+0000",
    }
    return derive(made)


def swept(sizes=(64, 128, 256, 512, 1024, 2048, 4096, 8192)):
    """torch takes N µs and cpp 2000 µs at any size; liar is wrong beyond 1024, cuda needs a GPU."""
    results = []
    for n in sizes:
        dims = {"...": [32], "N": n}
        results += [at(timed("torch", n), dims), at(timed("cpp", 2000), dims)]
        wrong = result("liar", status="wrong", reason=f"values: at [0, {n}]")
        results.append(at(timed("liar", 3000) if n <= 1024 else wrong, dims))
        results.append(at(result("cuda", status="skipped", reason="needs a GPU"), dims))
    return record(*results)


def console(width=240, terminal=False):
    return Console(file=io.StringIO(), width=width, force_terminal=terminal, color_system=None, highlight=False)


def shown(rec, **more):
    out = console(**more)
    show(rec, out)
    return out.file.getvalue()


# Finding -----------------------------------------------------------------------------------------------


def lines(*dims, **more):
    return [
        (s.dim, s.together, dict(s.fixed), s.sizes) for s in series.find(record(*(at(timed("t", 5), d) for d in dims)))
    ]


def test_three_sizes_of_one_dim_make_a_sweep_and_two_do_not():
    assert lines({"N": 4}, {"N": 1}, {"N": 2}) == [("N", (), {}, [1, 2, 4])]
    assert lines({"N": 1}, {"N": 2}) == []


def test_dims_that_follow_another_vary_with_it():
    assert lines(*({"M": n, "K": n, "N": n} for n in (8, 16, 32))) == [("M", ("K", "N"), {}, [8, 16, 32])]
    assert lines(*({"M": n, "K": 16, "N": n} for n in (8, 16, 32))) == [("M", ("N",), {"K": 16}, [8, 16, 32])]


def test_a_size_that_happens_to_equal_a_fixed_one_stays_in_the_sweep():
    assert lines(*({"...": [16], "N": n} for n in (8, 16, 32))) == [("N", (), {"dim0": 16}, [8, 16, 32])]


def test_leading_dims_are_swept_too():
    assert lines(*({"...": [n, 3], "N": 7} for n in (1, 2, 4))) == [("dim0", (), {"N": 7, "dim1": 3}, [1, 2, 4])]


def test_a_grid_is_one_sweep_for_each_row_and_every_case_is_in_one():
    found = lines(*({"M": m, "N": n} for m in (1, 2, 3) for n in (10, 20, 30, 40)))
    assert found == [("N", (), {"M": m}, [10, 20, 30, 40]) for m in (1, 2, 3)]


def test_dtypes_and_options_are_sweeps_of_their_own_with_their_own_files():
    made = [at(timed("t", n), {"N": n}, dtype=d) for n in (1, 2, 4) for d in ("float32", "bfloat16")]
    assert [s.stem for s in series.find(record(*made))] == ["f-N-float32", "f-N-bfloat16"]
    made = [at(timed("t", n), {"N": n}, mode=m) for n in (1, 2, 4) for m in ("a", "b/c")]
    assert [s.stem for s in series.find(record(*made))] == ["f-N-float32-mode_a", "f-N-float32-mode_b_c"]


def test_rates_are_bytes_or_matmul_flops_over_time_with_the_band_of_the_samples():
    (found,) = series.find(swept())
    point = found.curve("torch")[64]
    samples = [64 + i / 100 for i in range(20)]
    assert found.unit == "GB/s"
    assert point.value == pytest.approx(1_000_000 / statistics.median(samples) / 1e3)
    assert point.low == pytest.approx(1e3 / (64 + 0.152))
    assert point.high == pytest.approx(1e3 / (64 + 0.038))
    assert sorted(found.curve("liar")) == [64, 128, 256, 512, 1024]
    assert found.curve("cuda") == {}
    cost = {"bytes_read": 1, "bytes_written": 1, "flops": {"matmul": 2_000_000}}
    (found,) = series.find(record(*({**at(timed("t", 10), {"M": n}), "cost": {"forward": cost}} for n in (1, 2, 3))))
    assert (found.unit, round(found.curve("t")[1].value, 3)) == ("TFLOP/s", 0.198)
    (found,) = series.find(record(*({**at(timed("t", 10), {"M": n}), "cost": {}} for n in (1, 2, 3))))
    assert (found.unit, round(found.curve("t")[1].value, 1)) == ("µs", 10.1)


# The terminal ------------------------------------------------------------------------------------------


def test_a_long_sweep_is_one_table_with_reasons_once():
    text = shown(swept())
    assert text.count("f · over N · dim0=32 · float32 · cpu, GB/s") == 1
    assert re.search(r"^ +N +torch +cpp +liar +fastest", text, re.M)
    assert re.search(r"^ +64 +15.\d+ +0.5 +0.333 +torch", text, re.M)
    assert re.search(r"^ +8192 +0.122 +0.5 +wrong +cpp", text, re.M)
    assert " liar   wrong at N=2048, 4096, 8192: values: at [0, 2048] (and 2 other reasons)" in text
    assert text.count("needs a GPU") == 1
    assert " cuda   skipped at every size: needs a GPU" in text


def test_the_closing_says_who_is_fastest_where():
    text = shown(swept())
    assert (
        "f over N · dim0=32 · float32: torch is fastest from N=64 to 1024; cpp is fastest from N=2048 to 8192." in text
    )
    assert "At best, torch at N=64 reaches 16 % of this machine's copy bandwidth." in text
    assert "21 results right, 8 skipped, 3 not right: f liar." in text


def test_a_ceiling_that_was_measured_too_low_is_doubted():
    made = [at(timed("t", 5), {"N": n}) for n in range(1, 9)]
    assert "of this machine's copy bandwidth (measured too low? --refresh-ceilings" in shown(record(*made))


def test_leads_that_change_too_often_are_counted():
    made = [at(timed(way, us), {"N": n}) for n in range(1, 10) for way, us in (("a", 10 + n % 2), ("b", 11 - n % 2))]
    (said,) = sweep.closing(series.find(record(*made))[0])
    assert said.startswith("f over N · float32: b is fastest at 5 of 9 sizes, between 1 and 9; ")
    assert "; a is fastest at 4 of 9 sizes, between 2 and 8. At best, " in said


def test_two_that_are_not_told_apart_are_one_stretch_whoever_is_ahead():
    noise = [50.0, 150.0] * 10
    made = []
    for n in range(1, 9):
        for way, shift in (("a", n % 2), ("b", 0.5)):
            one = at(timed(way, 100), {"N": n})
            one["times"][0]["samples_us"] = [us + shift for us in noise]
            made.append(one)
            noise = noise[::-1]
    (said,) = sweep.closing(series.find(record(*made))[0])
    assert said.startswith("f over N · float32: a and b are not told apart at every size.")


def test_few_sizes_keep_their_own_tables():
    text = shown(swept((64, 128, 256)))
    assert "f · 32×64 · float32 · cpu" in text
    assert "f 32×256 · float32: torch is fastest" in text


@pytest.mark.parametrize("width", [40, 60, 80])
def test_a_narrow_screen_gets_the_columns_in_several_tables(width):
    made = [at(timed(f"way-number-{i}", n), {"N": n}) for n in range(1, 9) for i in range(9)]
    text = shown(record(*made), width=width, terminal=True)
    table = text[: text.index("\n\n")]
    assert max(len(line.rstrip()) for line in table.splitlines()) <= width
    assert all(f"way-number-{i}" in table for i in range(9))


def test_a_check_of_many_sizes_is_a_line_for_each_way():
    made = [at(timed("torch", 5), {"N": n}) for n in range(1, 9)]
    text = shown(record(*({**r, "times": []} for r in made), stages=["check"]))
    assert " torch  right at every size\n" in text
    assert "f · over N · float32 · cpu\n" in text


def test_growth_is_said_with_its_interval_and_where_it_changes():
    text = shown(swept())
    assert "f torch: time grows as N^1.00 (1.00 to 1.00)" in text
    assert "f cpp: time grows as N^0.00 (" in text
    made = [
        at(timed("t", 50 if n <= 512 else 50 * (n / 512) ** 2), {"N": n}) for n in (64, 128, 256, 512, 1024, 2048, 4096)
    ]
    assert re.search(r"f t: time grows as N\^0.00 \(.*\) up to 512, then as N\^2.00 \(.*\)", shown(record(*made)))
    assert "grows" not in shown(swept((64, 128, 256)))


def test_the_chart_fits_and_has_a_letter_for_each_way_when_piped():
    pytest.importorskip("plotext")
    (found,) = series.find(swept())
    out = console()
    chart.show(found, out)
    text = out.file.getvalue()
    assert "\x1b" not in text
    assert max(map(len, text.splitlines())) <= 80
    assert all(name in text for name in ("a torch", "b cpp", "c liar", "8192", "GB/s"))
    assert "cuda" not in text
    out = console(width=60, terminal=True)
    chart.show(found, out)
    assert max(map(len, out.file.getvalue().splitlines())) <= 60


# The files ---------------------------------------------------------------------------------------------


def test_the_csv_holds_what_the_record_does(tmp_path):
    rec = swept()
    written = curves.write(rec, tmp_path)
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
    curves.write(swept(), tmp_path)
    found = json.loads((tmp_path / "scaling-f-N-float32.json").read_text())
    assert (found["dim"], found["fixed"], found["confidence"]) == ("N", {"dim0": 32}, 0.99)
    assert found["ways"]["torch"]["whole"]["exponent"] == pytest.approx(1, abs=0.01)
    assert set(found["ways"]) == {"torch", "cpp", "liar"}


def test_pictures_are_drawn_with_curves_gaps_and_where_they_come_from(tmp_path):
    pytest.importorskip("matplotlib")
    written = {path.suffix: path for path in curves.write(swept(), tmp_path)}
    png, svg = written[".png"].read_bytes(), written[".svg"].read_text()
    assert png[:8] == b"\x89PNG\r\n\x1a\n"
    assert len(png) > 20_000
    for text in ("torch", "cpp", "liar (wrong at 3 of 8 sizes)", "Not drawn: cuda", "GB/s", "copy bandwidth"):
        assert text in svg, text
    assert "H driver 9 · 2026-11-15 · torch 2.13 · Python 3.11.7" in svg
    assert "GPU-1" not in svg
    again = tmp_path / "again"
    curves.write(swept(), again)
    assert (again / written[".svg"].name).read_text() == svg


def test_a_gap_is_not_drawn_across():
    pytest.importorskip("matplotlib")
    from kernellab.reporting.charts import plot as picture

    holes = [
        at(timed("t", n) if n != 4 else result("t", status="wrong", reason="r"), {"N": n}) for n in (1, 2, 4, 8, 16)
    ]
    (found,) = series.find(record(*holes))
    line = picture.draw(found, record(*holes)).axes[0].lines[0]
    assert [y != y for y in line.get_ydata()] == [False, False, True, False, False]


@pytest.mark.parametrize(("absent", "said"), [("matplotlib", "PNG and SVG need"), ("plotext", "charts here need")])
def test_what_is_not_installed_costs_only_what_it_draws(tmp_path, absent, said):
    code = (
        "import sys, importlib.util\n"
        "find = importlib.util.find_spec\n"
        f"importlib.util.find_spec = lambda name, *a: None if name == {absent!r} else find(name, *a)\n"
        f"sys.modules[{absent!r}] = None\n"
        "from pathlib import Path\nimport test_sweeps as t\n"
        "from kernellab.reporting import curves, terminal\n"
        "written = curves.write(t.swept(), Path('.'))\n"
        "print(t.shown(t.swept()))\n"
        "terminal.show_files(written, 'here', terminal.console())\n"
    )
    env = klab_env()
    env["PYTHONPATH"] += f":{__file__.rpartition('/')[0]}"
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "curves-f-N-float32.csv").exists()
    assert f"{said} {absent}" in done.stdout
    assert "pip install 'kernellab[plots]'" in done.stdout
    assert "torch is fastest from N=64 to 1024" in done.stdout
    assert (tmp_path / "curves-f-N-float32.png").exists() is (
        absent != "matplotlib" and "matplotlib" not in done.stdout
    )


def test_a_bench_of_a_sweep_writes_its_curves_and_they_can_be_drawn_again(klab, tmp_path):
    seen = klab(
        *("bench", "matmul", "--impl", "torch", "--M", "8:128:x2", "--device", "cpu"),
        *("--seconds", "0.05", "--rounds", "8", "--out", "swept"),
    )
    assert seen.code == 0, seen.err
    assert "curves: swept/curves-matmul-M-float32." in seen.out
    assert "matmul torch: time grows as M^" in seen.out
    first = (tmp_path / "swept" / "curves-matmul-M-float32.csv").read_text()
    assert first.splitlines()[0].startswith("op,M,K,N,dtype,")
    again = klab("curves", "swept", "--out", "elsewhere")
    assert again.code == 0, again.err
    assert "matmul · over M = K = N · float32 · cpu, TFLOP/s" in again.out
    assert (tmp_path / "elsewhere" / "curves-matmul-M-float32.csv").read_text() == first
    assert "\x1b" not in again.out


def test_a_run_without_a_sweep_has_no_curves(klab, tmp_path):
    seen = klab("check", "square", "--impl", "torch", "--shape", "8x8", "--device", "cpu", "--out", "one")
    assert "curves" not in seen.out
    refused = klab("curves", "one")
    assert (refused.code, "holds no sweep" in refused.err) == (2, True)
    assert klab("curves", "nowhere").code == 2
    assert not list(tmp_path.glob("one/curves*"))
