"""Nsight Compute: its pages read, its table, its words, and why there is none. ncu itself is played by a script."""

import csv
import importlib.util
import io
import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import kernellab as kl
from kernellab import cli
from kernellab.analysis import counters
from kernellab.base.errors import UserError
from kernellab.declaration.targets import resolve
from kernellab.reporting.profiles import counters as words
from kernellab.running.parent import nsight_compute as ncu
from kernellab.running.programs import counted_op
from kernellab.traces import ncu as pages
from support.klab import HERE, SRC, klab_env

GENUINE = HERE / "samples" / "ncu-raw-softmax.csv"
ELEMENTWISE = (
    "void at::native::<unnamed>::vectorized_elementwise_kernel<4, at::native::GeluFunctor<float>, "
    "std::array<char *, 2>>(int, T2, T3)"
)
MB = 10**6
COST = {"bytes_read": 1000 * MB, "bytes_written": 1000 * MB, "flops": {}}


def launch(**more):
    return {
        "time": 500.0, "read": 1000.0, "written": 980.0, "compute": 20.0, "memory": 90.0, "dram": 90.0,
        "registers": 18, "blocks": 4096, "threads": 128, "occupancy": 88.0, "id": 0, "name": "map_flat",
    } | more  # fmt: skip


def raw(*kernels):
    """A page by hand, in the layout of the genuine one; times in µs, bytes in megabytes, as ncu prints them unasked."""
    columns = {
        "ID": ("id", ""),
        "Process ID": (7, ""),
        "Process Name": ("python", ""),
        "Host Name": ("host", ""),
        "Kernel Name": ("name", ""),
        "Block Size": ("({threads}, 1, 1)", ""),
        "Grid Size": ("({blocks}, 1, 1)", ""),
        "gpu__time_duration.sum": ("time", "us"),
        "dram__bytes_read.sum": ("read", "Mbyte"),
        "dram__bytes_write.sum": ("written", "Mbyte"),
        "sm__throughput.avg.pct_of_peak_sustained_elapsed": ("compute", "%"),
        "gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed": ("memory", "%"),
        "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed": ("dram", "%"),
        "sm__warps_active.avg.pct_of_peak_sustained_active": ("occupancy", "%"),
        "sm__maximum_warps_per_active_cycle_pct": (100, "%"),
        "launch__registers_per_thread": ("registers", "register/thread"),
        "device__attribute_multiprocessor_count": (132, ""),
    }
    rows = [list(columns), [unit for _, unit in columns.values()]]
    for one in kernels:
        values = (one.get(v, v.format(**one)) if isinstance(v, str) else v for v, _ in columns.values())
        rows.append([f"{value:,}" if isinstance(value, float) else str(value) for value in values])
    return "==PROF== Connected to process 7 (python)\n" + table(rows) + "==PROF== Disconnected from process 7\n"


def table(rows):
    text = io.StringIO()
    csv.writer(text, quoting=csv.QUOTE_ALL, lineterminator="\n").writerows(rows)
    return text.getvalue()


HEADER = [
    *("ID", "Process ID", "Process Name", "Host Name", "Kernel Name", "Context", "Stream", "Block Size", "Grid Size"),
    *("Device", "CC", "Section Name", "Metric Name", "Metric Unit", "Metric Value"),
    *("Rule Name", "Rule Type", "Rule Description", "Estimated Speedup Type", "Estimated Speedup"),
]


def details(*rules):
    """(id, section, rule, kind, words, scope, percent), and before them a row of a metric that ends early."""
    first = ["7", "python", "host", "map_flat", "1", "7", "(128, 1, 1)", "(4096, 1, 1)", "0", "9.0"]
    rows = [HEADER, ["0", *first, "GPU Speed Of Light Throughput", "Duration", "ns", "500,000"]]
    rows += [[str(i), *first, section, "", "", "", *rest] for i, section, *rest in rules]
    return table(rows)


# Reading -----------------------------------------------------------------------------------------------


def test_a_genuine_page_is_read_and_its_log_passed_over():
    (one,) = pages.launches(GENUINE.read_text())
    assert (one.function, one.grid, one.block, one.device) == ("softmax_warp", (1024, 1, 1), (128, 1, 1), "NVIDIA H200")
    assert one.name.startswith("void softmax_warp<float, 4, 8, 32>(const T1 *")
    assert one.numbers["device__attribute_l2_cache_size"] == 62_914_560  # a number with commas
    row = counters.kernel(one, [])
    assert (row["registers"], row["theoretical_occupancy_percent"], row["sms"]) == (52, 56.25, 132)
    assert row["duration_us"] is None  # it was not asked for
    assert row["limit"] is None


def test_units_are_brought_to_nanoseconds_and_bytes():
    (one,) = pages.launches(raw(launch(time=1234.5, read=1.5)))
    assert one.numbers["gpu__time_duration.sum"] == 1_234_500
    assert one.numbers["dram__bytes_read.sum"] == 1_500_000
    (older,) = pages.launches(raw(launch(time=2.0)).replace('"us"', '"usecond"'))
    assert older.numbers["gpu__time_duration.sum"] == 2000


@pytest.mark.parametrize(
    ("name", "function"),
    [
        ("map_flat", "map_flat"),
        (ELEMENTWISE, "vectorized_elementwise_kernel"),
        ("void (anonymous namespace)::f<int (*)(float)>(T1)", "f"),
        ("", ""),
    ],
)
def test_a_functions_name_is_told_from_a_demangled_one(name, function):
    (one,) = pages.launches(raw(launch(name=name)))
    assert (one.name, one.function) == (name, function)


def test_names_cannot_steer_a_terminal():
    (one,) = pages.launches(raw(launch(name="a\x1b[31mb")))
    assert "\x1b" not in one.name


def test_rules_are_read_with_what_they_would_save_and_metrics_are_passed_over():
    text = details((0, "Occupancy", "AchievedOccupancy", "OPT", 'Said with "quotes", and\na line', "global", "12.5"))
    (rule,) = pages.rules(text)
    assert (rule.id, rule.name, rule.kind, rule.scope, rule.percent) == (
        "0",
        "AchievedOccupancy",
        "OPT",
        "global",
        12.5,
    )
    assert rule.words == 'Said with "quotes", and a line'
    with pytest.raises(UserError, match="page raw"):
        pages.launches(text)
    before_2023 = table([HEADER[:-2], *([*row[:-2]] for row in csv.reader(io.StringIO(text)) if len(row) == 20)][:3])
    assert [rule.percent for rule in pages.rules(before_2023) if rule.name == "AchievedOccupancy"] == [None]


def test_what_is_no_number_is_not_counted():
    (one,) = pages.launches(raw(launch(time="1e999", read="nan", written="(!) n/a")))
    assert not {"gpu__time_duration.sum", "dram__bytes_read.sum", "dram__bytes_write.sum"} & set(one.numbers)
    told = words.lines({"sweep": counters.sweep([one, one], [])}, name_width=80)
    assert "memory throughput" in told[0]


# The table ---------------------------------------------------------------------------------------------


def test_what_could_be_saved_is_the_most_for_the_whole_launch_and_of_its_own_rules():
    rules = pages.rules(
        details(
            (0, "A", "small", "OPT", "…", "global", "10"),
            (0, "B", "large", "OPT", "…", "global", "25"),
            (0, "C", "of a unit only", "OPT", "…", "local", "80"),
            (1, "D", "another launch's", "OPT", "…", "global", "90"),
        )
    )
    row = counters.kernel(pages.launches(raw(launch(time=400.0)))[0], rules)
    assert (row["estimated_speedup_percent"], row["possible_improvement_us"]) == (25, 100)
    assert len(row["rules"]) == 3


def test_counted_bytes_stand_beside_declared_ones_and_the_roof_is_made_of_both():
    launches = pages.launches(raw(launch(), launch(id=1, time=100.0, read=500.0, written=500.0, dram=90.0)))
    way = counters.way("triton", launches, [], COST, "float32")
    assert (way["counted_bytes"], way["fewest_bytes"], way["time_us"]) == (2980 * MB, 2000 * MB, 600)
    assert way["counted_to_fewest"] == pytest.approx(1.49)
    assert way["peak_gbps"] == pytest.approx(1980 / 500 * 1000 / 0.9)  # of the longer launch
    roofs = way["roofline"]
    assert roofs["counted"]["fraction"] / roofs["declared"]["fraction"] == pytest.approx(1.49)
    missing = pages.launches(raw(launch(), launch(read="n/a")))
    assert counters.way("x", missing, [], COST, "float32")["counted_bytes"] is None


@pytest.mark.parametrize(
    ("counted", "limit"),
    [
        ({"memory": 90.0, "compute": 20.0}, "memory"),
        ({"memory": 30.0, "compute": 70.0}, "compute"),
        ({"memory": 30.0, "compute": 20.0}, "latency"),
        ({"memory": 1.0, "compute": 1.0, "blocks": 8}, "blocks"),
    ],
)
def test_what_holds_a_kernel(counted, limit):
    assert counters.kernel(pages.launches(raw(launch(**counted)))[0], [])["limit"] == limit


def grids():
    memory = {1: 0.4, 8: 3.1, 64: 24.0, 512: 71.5}
    return [
        launch(id=i, name="square_strided", blocks=n, time=80_000.0 / n, memory=share, compute=share / 4, dram=share)
        for i, (n, share) in enumerate(memory.items())
    ]


def test_a_sweep_ends_in_words():
    told = "\n".join(words.lines({"sweep": counters.sweep(pages.launches(raw(*grids())), [])}, name_width=80))
    assert (
        "from 1 block to 512 memory throughput rises from 0.4 % to 71.5 %, compute rises from 0.1 % to 17.9 %" in told
    )
    assert "from 1 block on, held by its grid: 131 of 132 multiprocessors have nothing to do" in told
    assert "from 512 blocks on, held by memory" in told
    assert "Fastest: 512 blocks of 128, 156.2 µs, 512 times as fast as 1 block of 128" in told
    falling = [launch(id=i, blocks=n, memory=share) for i, (n, share) in enumerate({1: 9.0, 2: 20.0, 3: 8.0}.items())]
    told = words.lines({"sweep": counters.sweep(pages.launches(raw(*falling)), [])}, name_width=80)
    assert "goes from 9 % to 8 %, at most 20 %" in told[0]


# The command -------------------------------------------------------------------------------------------

PLAYED = """#!{python}
import json, pathlib, sys
here = pathlib.Path(__file__).parent
words = sys.argv[1:]
if "--import" in words:
    print((here / f"{{words[words.index('--page') + 1]}}.csv").read_text())
    sys.exit()
(here / "called.json").write_text(json.dumps(words))
print((here / "says.txt").read_text())
if (here / "raw.csv").exists():
    pathlib.Path(words[words.index("--export") + 1] + ".ncu-rep").write_text("report")
asked = json.loads(words[-1])
answer = [{{"impl": asked["impls"], "case": {{}}, "cost": {cost}, "status": "ok"}}]
pathlib.Path(asked["answer"]).write_text(json.dumps(answer))
sys.exit(int((here / "code.txt").read_text()))
"""


@pytest.fixture
def played(tmp_path, monkeypatch):
    """A script in ncu's place: it says what a test has it say, and leaves what the test has put there."""
    folder = tmp_path / "tool"
    folder.mkdir()
    script = folder / "ncu"
    script.write_text(PLAYED.format(python=sys.executable, cost=COST))
    script.chmod(0o755)
    (folder / "code.txt").write_text("0")
    (folder / "says.txt").write_text("==PROF== Connected")
    (folder / "details.csv").write_text(details((0, "Occupancy", "Occ", "OPT", "More warps.", "global", "20")))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(ncu, "tool", lambda: str(script))
    listed = [
        {"impl": "triton", "op": "gelu", "case": {"dtype": "float32"}, "reason": ""},
        {"impl": "cpp", "op": "gelu", "case": {"dtype": "float32"}, "reason": "runs on the CPU only"},
    ]
    monkeypatch.setattr(ncu, "ways", lambda asked, answer: listed)
    return folder


def test_one_way_is_counted_told_and_kept(played, capsys):
    (played / "raw.csv").write_text(raw(launch()))
    assert cli.run(["profile", "--with", "ncu", "gelu", "--out", "run"]) == 0
    told = capsys.readouterr().out
    assert told.splitlines()[0].startswith("triton: 1 kernel in 500 µs; map_flat, held by memory (memory 90 %")
    assert "DRAM moved 1.844 GiB, declared are 1.863 GiB: as many as it must" in told
    assert "from counted bytes 90 % (3960 GB/s), from declared bytes 91 % (4000 GB/s)" in told
    assert "Occ could gain, 20 % of its time: More warps." in told
    assert "cpp was not counted: runs on the CPU only" in told
    (row,) = csv.DictReader(Path("run/counters.csv").read_text().splitlines())
    assert (row["way"], row["function"], row["grid"], row["possible_improvement_us"]) == (
        *("triton", "map_flat", "4096x1x1", "100.0"),
    )
    assert Path("run/artifacts/gelu-triton.ncu-rep").exists()
    assert pages.launches(Path("run/artifacts/gelu-triton.raw.csv").read_text())
    called = json.loads((played / "called.json").read_text())
    assert called[:2] == ["--profile-from-start", "off"]
    assert json.loads(called[-1])["impls"] == ["triton"]
    capsys.readouterr()
    assert cli.run(["profile", "--open", "run/artifacts/gelu-triton.ncu-rep", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["ways"][0]["kernels"][0]["estimated_speedup_percent"] == 20


def test_square_by_grids(played, capsys):
    (played / "raw.csv").write_text(raw(*grids()))
    assert cli.run(["profile", "--with", "ncu", "square", "--grids", "1,8,64,512", "--out", "run"]) == 0
    assert capsys.readouterr().out.startswith("Blocks of 128: from 1 block to 512 memory throughput rises")
    asked = json.loads(json.loads((played / "called.json").read_text())[-1])
    assert (asked["do"], asked["grids"], asked["blocks"]) == ("grids", [1, 8, 64, 512], [128])
    assert len(list(csv.DictReader(Path("run/counters.csv").read_text().splitlines()))) == 4


@pytest.mark.parametrize(
    ("says", "code", "told"),
    [
        (
            "==ERROR== ERR_NVGPUCTRPERM - The user does not have permission",
            1,
            ["lets administrators alone", "NVreg_RestrictProfilingToAdminUsers=0", "SYS_ADMIN", "klab inspect"],
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
def test_why_nothing_was_counted_is_told(played, capsys, says, code, told):
    (played / "says.txt").write_text(says)
    (played / "code.txt").write_text(str(code))
    assert cli.run(["profile", "--with", "ncu", "gelu", "--out", "run"]) == 2
    said = capsys.readouterr().err
    assert all(part in said for part in told), said


def test_without_ncu_the_command_to_run_elsewhere_is_printed(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(ncu, "tool", lambda: None)
    assert cli.run(["profile", "--with", "ncu", "gelu", "--impl", "triton"]) == 2
    said = capsys.readouterr().err
    assert "ncu --profile-from-start off" in said
    assert "then klab profile --open gelu.ncu-rep" in said
    assert str(SRC) not in said
    assert not list(tmp_path.iterdir())
    Path("r.ncu-rep").write_text("")
    assert cli.run(["profile", "--open", "r.ncu-rep"]) == 2
    assert "ncu --import r.ncu-rep --csv --page details" in capsys.readouterr().err


def test_pages_that_come_back_are_opened_together(tmp_path, monkeypatch, capsys):
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
    ("line", "told"),
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
def test_what_cannot_be_counted_is_refused(line, told, capsys):
    assert cli.run(["profile", *line]) == 2
    assert told in capsys.readouterr().err


# The process -------------------------------------------------------------------------------------------


def asked(target, **more):
    return {
        "target": vars(resolve(target)),
        "request": {"shapes": [[4, 8]], "dtypes": ["float32"], "dims": {}, "options": {}, "quick": False},
        "impls": ["manual"],
        "pass": "forward",
        "device": "cpu",
        "schedule": {"wait": 0, "warmup": 0, "active": 1, "repeat": 1},
        "how": {"stacks": False},
        "tool": "ncu",
        **more,
    }


def test_ncu_listens_to_one_call_and_to_nothing_that_prepares_it(monkeypatch):
    calls = []
    original = counted_op.Way.prepared

    def prepared(way):
        ready = original(way)
        calls.append("prepared")
        return lambda: (calls.append("called"), ready())

    class Heard:
        def __enter__(self):
            calls.append("listens")

        def __exit__(self, *_):
            calls.append("done")

    monkeypatch.setattr(counted_op.Way, "prepared", prepared)
    monkeypatch.setattr(counted_op, "heard", lambda device: Heard())
    (found,) = counted_op.counted(asked("gelu"))
    assert calls[-4:] == ["prepared", "listens", "called", "done"]
    assert calls.count("listens") == 1
    assert found["status"] == "ok"
    assert found["cost"] == {
        "bytes_read": 128,
        "bytes_written": 128,
        "flops": kl.ops.gelu.cost(torch.empty(4, 8)).flops,
    }


def test_without_a_gpu_nothing_is_listed():
    for do in (counted_op.listed, counted_op.swept):
        with pytest.raises(UserError, match="there is none here"):
            do(asked("square", grids=[1], blocks=[128]))


def test_the_process_is_run_under_ncu_and_answers(tmp_path):
    """A tool that does nothing but run what it is given, and leave a report."""
    tool = tmp_path / "ncu"
    tool.write_text(
        f"#!{sys.executable}\nimport pathlib, subprocess, sys\nwords = sys.argv[1:]\n"
        f"if '--import' in words:\n    print({raw(launch())!r} if 'raw' in words else '')\n    sys.exit()\n"
        "at = words.index('--export') + 1\npathlib.Path(words[at] + '.ncu-rep').write_text('')\n"
        "sys.exit(subprocess.call(words[at + 1 :]))"
    )
    tool.chmod(0o755)
    counted = ncu.count(asked("gelu", do="count"), tmp_path / "gelu.ncu-rep", str(tool))
    assert [(one["impl"], one["status"]) for one in counted.answer] == [("manual", "ok")]
    assert counted.answer[0]["cost"]["bytes_read"] == 128
    assert [one.name for one in counted.launches] == ["map_flat"]


def test_what_the_listing_process_refuses_is_said_in_its_words(tmp_path):
    with pytest.raises(UserError, match="there is none here"):
        ncu.ways(asked("gelu"), tmp_path / "ways.json")


def test_the_benchmark_tells_bytes_that_are_far_and_throughput_that_does_not_rise():
    path = HERE.parent / "benchmarks" / "counters.py"
    spec = importlib.util.spec_from_file_location("benchmark_of_counters", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    ways = [{"op": "gelu", "way": "a", "counted_to_fewest": 1.09}, {"op": "gelu", "way": "b", "counted_to_fewest": 1.2}]
    ways += [{"op": "add", "way": "c", "counted_to_fewest": None}, {"op": "matmul", "way": "d", "counted_to_fewest": 3}]
    assert [problem.split(":")[0] for problem in module.far(ways)] == ["gelu b", "add c"]
    rows = [{"threads": t, "memory_percent": p} for t in (128, 256) for p in (1, 2, 3, 4)]
    assert module.rising(rows) == []
    rows[-1]["memory_percent"] = 2.5
    assert len(module.rising(rows)) == len(module.rising(rows[:-1])) == 1


def test_any_grid_squares_every_element():
    code = (
        "import torch\nfrom kernellab.workloads.grids import square_by_grid\n"
        "for n in (1, 300, 1025):\n"
        "    for blocks in (1, 3, 64):\n"
        "        x = torch.randn(n)\n"
        "        assert torch.equal(square_by_grid(x, blocks, 32), x * x), (n, blocks)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, env={**klab_env(), "TRITON_INTERPRET": "1"})


def test_a_genuine_report_of_several_launches_is_a_sweep_with_its_rules(capsys):
    pages = [GENUINE.with_name(f"ncu-grids.{page}.csv") for page in ("raw", "details")]
    assert cli.run(["profile", "--open", *map(str, pages), "--json"]) == 0
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


@pytest.mark.parametrize(
    ("memory", "compute", "dram", "held"),
    [
        (95, 94, 21, "memory and arithmetic alike"),
        (80, 40, 75, "memory ("),
        (80, 40, 21, "its caches and shared memory"),
    ],
)
def test_what_of_the_memory_system_holds_a_kernel_is_said(memory, compute, dram, held):
    names = counters._PERCENT
    shares = {names["memory_percent"]: memory, names["compute_percent"]: compute, names["dram_percent"]: dram}
    launch = pages.Launch("0", "k", (512, 1, 1), (128, 1, 1), "", {key: float(value) for key, value in shares.items()})
    made = counters.way("triton", [launch], [], None, "float32")
    assert f"held by {held}" in words.lines({"ways": [made]}, name_width=80)[0]


def test_what_a_rule_estimates_for_the_whole_launch_comes_before_what_it_does_for_a_unit():
    launch = pages.Launch("0", "k", (512, 1, 1), (128, 1, 1), "", {})
    said = [
        pages.Rule("0", "S", name, "OPT", "", scope, percent)
        for name, scope, percent in [("Unit", "local", 88.0), ("Whole", "global", 12.0)]
    ]
    told = words.lines({"ways": [counters.way("", [launch], said, None, "")]}, name_width=80)
    assert [line.split()[0] for line in told if "could gain" in line] == ["Whole", "Unit"]
