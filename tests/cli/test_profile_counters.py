"""`klab profile --with ncu`, and reports opened. A script stands in for ncu."""

import csv
import json
import sys
from pathlib import Path

import pytest

from kernellab import cli
from kernellab.counters import ncu_pages as pages
from kernellab.running.parent import nsight_compute as ncu
from support.klab import SRC
from support.ncu_pages import COST, SOFTMAX_PAGE, details, grids, launch, raw

STAND_IN = """#!{python}
import json, pathlib, sys
here = pathlib.Path(__file__).parent
words = sys.argv[1:]
if "--import" in words:
    print((here / f"{{words[words.index('--page') + 1]}}.csv").read_text())
    sys.exit()
(here / "called.json").write_text(json.dumps(words))
print((here / "output.txt").read_text())
if (here / "raw.csv").exists():
    pathlib.Path(words[words.index("--export") + 1] + ".ncu-rep").write_text("report")
request = json.loads(words[-1])
answer = [{{"impl": request["impls"], "case": {{}}, "cost": {cost}, "status": "ok"}}]
pathlib.Path(request["answer"]).write_text(json.dumps(answer))
sys.exit(int((here / "code.txt").read_text()))
"""


@pytest.fixture
def stand_in(tmp_path, monkeypatch):
    """A script in place of ncu: it prints output.txt, leaves a report if raw.csv exists, and exits with code.txt."""
    folder = tmp_path / "tool"
    folder.mkdir()
    script = folder / "ncu"
    script.write_text(STAND_IN.format(python=sys.executable, cost=COST))
    script.chmod(0o755)
    (folder / "code.txt").write_text("0")
    (folder / "output.txt").write_text("==PROF== Connected")
    (folder / "details.csv").write_text(details((0, "Occupancy", "Occ", "OPT", "More warps.", "global", "20")))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(ncu, "tool_path", lambda: str(script))
    listing = [
        {"impl": "triton", "op": "gelu", "case": {"dtype": "float32"}, "reason": ""},
        {"impl": "cpp", "op": "gelu", "case": {"dtype": "float32"}, "reason": "runs on the CPU only"},
    ]
    monkeypatch.setattr(ncu, "list_impls", lambda request, answer: listing)
    return folder


def test_an_implementation_is_counted_shown_and_kept(stand_in, capsys):
    (stand_in / "raw.csv").write_text(raw(launch()))
    assert cli.run(["profile", "--with", "ncu", "gelu", "--out", "run"]) == 0
    printed = capsys.readouterr().out
    assert printed.splitlines()[0].startswith("triton: 1 kernel in 500 µs; map_flat, limited by memory (memory 90 %")
    assert "DRAM moved 1.844 GiB, declared are 1.863 GiB: as many as necessary" in printed
    assert "from counted bytes 90 % (3960 GB/s), from declared bytes 91 % (4000 GB/s)" in printed
    assert "Occ could gain, 20 % of its time: More warps." in printed
    assert "cpp was not counted: runs on the CPU only" in printed
    (row,) = csv.DictReader(Path("run/counters.csv").read_text().splitlines())
    assert (row["impl"], row["function"], row["grid"], row["possible_improvement_us"]) == (
        *("triton", "map_flat", "4096x1x1", "100.0"),
    )
    assert Path("run/artifacts/gelu-triton.ncu-rep").exists()
    assert pages.launches(Path("run/artifacts/gelu-triton.raw.csv").read_text())
    called = json.loads((stand_in / "called.json").read_text())
    assert called[:2] == ["--profile-from-start", "off"]
    assert json.loads(called[-1])["impls"] == ["triton"]
    capsys.readouterr()
    assert cli.run(["profile", "--open", "run/artifacts/gelu-triton.ncu-rep", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["impls"][0]["kernels"][0]["estimated_speedup_percent"] == 20


def test_a_sweep_counts_square_with_every_grid(stand_in, capsys):
    (stand_in / "raw.csv").write_text(raw(*grids()))
    assert cli.run(["profile", "--with", "ncu", "square", "--grids", "1,8,64,512", "--out", "run"]) == 0
    assert capsys.readouterr().out.startswith("Blocks of 128: from 1 block to 512 memory throughput rises")
    request = json.loads(json.loads((stand_in / "called.json").read_text())[-1])
    assert (request["do"], request["grids"], request["blocks"]) == ("grids", [1, 8, 64, 512], [128])
    assert len(list(csv.DictReader(Path("run/counters.csv").read_text().splitlines()))) == 4


@pytest.mark.parametrize(
    ("output", "code", "parts"),
    [
        (
            "==ERROR== ERR_NVGPUCTRPERM - The user does not have permission",
            1,
            ["allows only administrators", "NVreg_RestrictProfilingToAdminUsers=0", "SYS_ADMIN", "klab inspect"],
        ),
        ("==WARNING== No kernels were profiled.", 0, ["nothing of gelu could be counted", "triton: ncu saw no kernel"]),
        ("==ERROR== Failed to find metric x", 1, ["ncu failed: Failed to find metric x"]),
        (
            "RuntimeError: out of memory\n==ERROR== The application returned an error code (1).",
            1,
            ["exit code 1", "RuntimeError: out of memory"],
        ),
    ],
)
def test_the_reason_why_nothing_was_counted_is_printed(stand_in, capsys, output, code, parts):
    (stand_in / "output.txt").write_text(output)
    (stand_in / "code.txt").write_text(str(code))
    assert cli.run(["profile", "--with", "ncu", "gelu", "--out", "run"]) == 2
    printed = capsys.readouterr().err
    assert [part for part in parts if part not in printed] == []


def test_without_ncu_the_command_to_run_elsewhere_is_printed(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(ncu, "tool_path", lambda: None)
    assert cli.run(["profile", "--with", "ncu", "gelu", "--impl", "triton"]) == 2
    printed = capsys.readouterr().err
    assert "ncu --profile-from-start off" in printed
    assert "then klab profile --open gelu.ncu-rep" in printed
    assert str(SRC) not in printed
    assert not list(tmp_path.iterdir())
    Path("r.ncu-rep").write_text("")
    assert cli.run(["profile", "--open", "r.ncu-rep"]) == 2
    assert "ncu --import r.ncu-rep --csv --page details" in capsys.readouterr().err


def test_pages_of_one_report_are_opened_together(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    Path("a.csv").write_text(details((0, "S", "Rule", "OPT", "Do it.", "global", "50")))
    Path("b.csv").write_text(raw(launch(time=100.0)))
    assert cli.run(["profile", "--open", "a.csv", "b.csv", "--out", "here"]) == 0
    assert "Rule could gain, 50 % of its time: Do it." in capsys.readouterr().out
    assert Path("here/counters.csv").exists()
    Path("c.csv").write_text("a,b\n1,2\n")
    assert cli.run(["profile", "--open", "b.csv", "--out", "c.csv"]) == 2
    assert "cannot be created" in capsys.readouterr().err
    for files in (["a.csv"], ["c.csv"]):
        assert cli.run(["profile", "--open", *files]) == 2
        assert "--page raw" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--with", "ncu", "mlp"], "launches of an op"),
        (["--with", "ncu", "gelu", "--grids", "1"], "--grids is for square"),
        (["--with", "ncu", "square", "--grids", "0"], "--grids 0"),
        (["--with", "ncu", "square", "--grids", "1", "--blocks", "100"], "--blocks 100"),
        (["square", "--grids", "1"], "add --with ncu"),
        (["--with", "ncu", "square", "--blocks", "128"], "add --grids"),
        (["--with", "ncu", "gelu", "--schedule", "1,1,1,1"], "--schedule is for traces"),
    ],
)
def test_what_cannot_be_counted_is_refused(words, sentence, capsys):
    assert cli.run(["profile", *words]) == 2
    assert sentence in capsys.readouterr().err


def test_a_genuine_report_of_several_launches_is_a_sweep_with_its_rules(capsys):
    files = [SOFTMAX_PAGE.with_name(f"ncu-grids.{page}.csv") for page in ("raw", "details")]
    assert cli.run(["profile", "--open", *map(str, files), "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)["sweep"]
    assert [(row["threads"], row["blocks"]) for row in rows] == [(t, b) for t in (128, 256) for b in (1, 8, 64, 512)]
    for threads in (128, 256):
        memory = [row["memory_percent"] for row in rows if row["threads"] == threads]
        assert memory == sorted(set(memory))
    small = rows[0]
    assert (small["limit"], rows[-1]["limit"]) == ("blocks", "memory")
    assert small["dram_read_bytes"] == pytest.approx(4096 * 4096 * 4, rel=0.01)
    assert small["estimated_speedup_percent"] == max(
        rule["percent"] for rule in small["rules"] if rule["scope"] == "global"
    )
    assert {"OPT", "INF"} <= {rule["kind"] for row in rows for rule in row["rules"]}
