"""`klab check` as a user runs it: the battery, the search, and implementations that end their worker."""

import io
import re

import pytest
from rich.console import Console

from kernellab import cli
from kernellab.cli.verbs import check as check_verb
from kernellab.reporting.terminal.results import show
from support.klab import OPFILES
from support.trying import run_without_kernellab


def test_a_battery_is_recorded_shown_and_decides_the_exit_code(klab, tmp_path):
    file = tmp_path / "ops.py"
    file.write_text(
        "import torch, kernellab as kl\n"
        "@kl.op(cases=kl.cases(shape=[(8, 64)], dtype=['float32']))\n"
        "def triple(x): return x * 3\n"
        "@triple.impl('torch')\n"
        "def _(x):\n"
        "    if x.shape == (33,): os.abort()\n"
        "    return x + x + x\n"
        "@triple.impl('good')\n"
        "def _(x): return 3 * x\n"
        "@triple.impl('assumes-contiguous')\n"
        "def _(x): return x.as_strided(x.shape, torch.empty(x.shape).stride()) * 3 if x.numel() else x * 3\n"
    )
    seen = klab("check", file, "--impl", "good,assumes*", "--quick", "--json")
    assert seen.code == 1
    good, bad = (next(b for b in seen.record["batteries"] if b["impl"] == n) for n in ("good", "assumes-contiguous"))
    assert (good["status"], good["failures"]) == ("ok", [])
    assert good["tried"] == good["passed"] > 40
    assert bad["status"] in ("wrong", "error")
    assert "layouts" in {f["kind"] for f in bad["failures"]} <= {"layouts", "gradients", "combinations"}
    assert bad["passed"] < bad["tried"]
    out = Console(file=io.StringIO(), width=200)
    show(seen.record, out)
    assert "the battery" in out.file.getvalue()
    assert "assumes-contiguous  wrong: layouts:" in out.file.getvalue()
    assert klab("check", file, "--impl", "assumes*", "--shape", "8x64").code == 0, "a shape asks for that alone"


@pytest.mark.parametrize(
    ("args", "battery"), [((), True), (("--shape", "8x64"), False), (("--N", "9"), False), (("--declared",), False)]
)
def test_a_request_for_particular_cases_runs_no_battery(args, battery):
    _, parsed = cli.parse(["check", "softmax", *args])
    assert ("battery" in check_verb.read_settings(parsed).stages) is battery


def test_an_implementation_that_kills_its_worker_in_the_battery_fails_alone(klab, tmp_path):
    file = tmp_path / "ops.py"
    file.write_text(
        "import os, time, torch, kernellab as kl\n"
        "@kl.op(cases=kl.cases(shape=[(8, 64)], dtype=['float32']))\n"
        "def triple(x): return x * 3\n"
        "@triple.impl('torch')\n"
        "def _(x):\n"
        "    if x.shape == (33,): os.abort()\n"
        "    return x + x + x\n"
        "@triple.impl('good')\n"
        "def _(x): return 3 * x\n"
        "@triple.impl('dies-of-nothing')\n"
        "def _(x):\n"
        "    if x.numel() == 0: os.abort()\n"
        "    return x * 3\n"
        "@triple.impl('hangs-on-one')\n"
        "def _(x):\n"
        "    while x.numel() == 1: time.sleep(1)\n"
        "    return x * 3\n"
    )
    seen = klab("check", file, "--impl", "manual,torch,good,dies*,hangs*", "--quick", "--timeout", "4", "--json")
    assert seen.code == 1
    summaries = {b["impl"]: b for b in seen.record["batteries"]}
    statuses = {impl: summary["status"] for impl, summary in summaries.items()}
    assert statuses == {
        "manual": "ok",
        "torch": "crashed",
        "good": "ok",
        "dies-of-nothing": "crashed",
        "hangs-on-one": "timeout",
    }
    assert "SIGABRT" in summaries["dies-of-nothing"]["failures"][0]["reason"]
    assert [failure["label"] for failure in summaries["torch"]["failures"]] == ["33 · float32"]
    assert len({summary["tried"] for summary in summaries.values()}) == 1  # a crash ends its trial, not the battery


def test_a_search_that_finds_nothing_says_how_much_it_drew(klab):
    ran = klab("check", OPFILES / "searched.py", "--impl", "honest", "--quick", "--dtype", "float32", "--budget", "1")
    assert ran.code == 0
    assert re.search(r"honest  \d+ drawn by search in \d\.\d s, none failed", ran.out)


def test_a_failure_found_by_search_is_stored_and_tried_first_the_next_time(klab, tmp_path):
    op = tmp_path / "searched.py"
    op.write_text((OPFILES / "searched.py").read_text())
    cache = {"KERNELLAB_CACHE": str(tmp_path / "cache"), "OMP_NUM_THREADS": "1"}
    quick = ("--quick", "--dtype", "float32")
    # Both searches end when they have found something, which takes a second or two on an idle machine.
    ran = klab("check", op, "--impl", "blocks,crashes", *quick, "--budget", "60", "--out", "first", **cache)
    assert ran.code == 1
    assert re.search(r"blocks  wrong: search: .* · mode=subtract · ", ran.out)  # how simple depends on the time
    assert re.search(r"crashes  crashed: search: .*segmentation fault", ran.out)
    assert "reproduce-blend-blocks.py" in ran.out
    done = run_without_kernellab((tmp_path / "first/artifacts/reproduce-blend-blocks.py").read_text(), tmp_path)
    assert "worst difference: " in done.stdout
    assert not (tmp_path / ".hypothesis").exists()

    op.write_text((OPFILES / "searched.py").read_text().replace("n > BLOCK and n % 2", "n < 0"))
    again = klab("check", op, "--impl", "blocks,crashes", *quick, "--json", "--out", "second", **cache)
    trials = {name: [t for t in again.record["trials"] if t["impl"] == name] for name in ("blocks", "crashes")}
    assert (trials["blocks"][0]["trial"]["kind"], trials["blocks"][0]["status"]) == ("stored", "ok")
    assert (trials["crashes"][0]["trial"]["kind"], trials["crashes"][0]["status"]) == ("stored", "crashed")
    assert {t["status"] for t in trials["crashes"][1:]} == {"ok"}
    (mended,) = (b["mended"] for b in again.record["batteries"] if b["impl"] == "blocks")
    assert len(mended) == 1
    kept = [file.name for file in (tmp_path / "cache" / "failures").iterdir()]
    assert [name.rsplit("-", 1)[0] for name in kept] == ["blend-crashes"]


def test_a_budget_needs_a_battery(klab):
    ran = klab("check", "square", "--declared", "--budget", "3")
    assert ran.code == 2
    assert "--budget searches beyond the battery" in ran.err


def test_json_is_one_document_and_nothing_else(klab):
    seen = klab("check", "square", "--impl", "manual,torch", "--shape", "32x32", "--json")
    assert seen.code == 0, seen.err
    record = seen.record
    assert record["schema"] == 3
    assert record["environment"]["packages"]["torch"]
    for result in record["results"]:
        assert result["derived"]["status"] == "ok"
        assert result["derived"]["rules"] == 7


def test_dims_sweep_and_the_record_is_written_where_out_names(klab, tmp_path):
    seen = klab("check", "softmax", "--impl", "torch", "--N", "8:32:x2", "--out", "here", "--json", "--device", "cpu")
    assert [r["case"]["dims"]["N"] for r in seen.record["results"]] == [8, 16, 32]
    assert (tmp_path / "here" / "run.json").exists()
    again = klab("check", "softmax", "--out", "here")
    assert (again.code, "already holds a run" in again.err) == (2, True)


def test_files_may_hold_several_ops_and_one_can_be_named(klab):
    path = OPFILES / "sketches.py"
    both = klab("check", path, "--declared", "--impl", "torch", "--device", "cpu", "--json")
    assert {r["op"] for r in both.record["results"]} == {"cross_entropy", "attention"}
    single = klab("check", f"{path}:attention", "--declared", "--impl", "torch", "--device", "cpu", "--json")
    assert {r["op"] for r in single.record["results"]} == {"attention"}


def test_a_dim_may_stand_before_the_op(klab):
    seen = klab("check", "--N", "8,9", "softmax", "--impl", "torch", "--device", "cpu", "--json")
    assert [r["case"]["dims"]["N"] for r in seen.record["results"]] == [8, 9]


def test_a_dtype_without_a_kernel_is_skipped_not_failed(klab):
    seen = klab(
        "check", "square", "--dtype", "float64", "--shape", "8", "--device", "cpu", "--impl", "torch,triton,cpp"
    )
    assert (seen.code, "triton  skipped: has no float64 kernel" in seen.out) == (0, True)
