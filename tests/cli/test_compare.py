"""`klab compare`: exit codes that a script can rely on, and every form of its output."""

import json
import random

import pytest

from kernellab.comparison.document import ComparisonJson
from support.comparisons import random_run, run, timed_results
from support.records import result

STEADY = [100.0 + i / 100 for i in range(20)]


@pytest.fixture
def write(tmp_path):
    def write_(name, record):
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "run.json").write_text(json.dumps(record))
        return name

    return write_


def test_a_slowdown_gives_1_and_every_form_says_so(klab, write, tmp_path):
    write("a", run(result("f", STEADY), result("g", STEADY)))
    write("b", run(result("f", STEADY), result("g", [1.5 * us for us in STEADY])))
    done = klab("compare", "a", "b", "--html", "page.html", "--markdown", "comment.md")
    assert done.code == 1, done.err
    assert done.out.startswith("1 of 2 times is slower: f g at 8 · float32: +50 %.\n")
    assert "1 time slower" in (tmp_path / "comment.md").read_text()
    assert "<title>a and b</title>" in (tmp_path / "page.html").read_text()
    document = klab("compare", "a", "b", "--json")
    assert (document.code, set(document.record)) == (1, set(ComparisonJson.__annotations__))
    assert [pair["verdict"] for pair in document.record["pairs"]] == ["not resolved", "slower"]
    assert klab("compare", "a", "b", "--markdown", "-").out == (tmp_path / "comment.md").read_text()


def test_exit_codes(klab, write):
    write("a", run(result("f", STEADY)))
    write("wrong", run(result("f", status="wrong", reason="values differ")))
    write("faster", run(result("f", [us / 2 for us in STEADY])))
    assert klab("compare", "a", "a").code == 3
    assert klab("compare", "a", "a", "--precision", "10%").code == 0
    assert klab("compare", "a", "faster").code == 0
    assert klab("compare", "a", "wrong").code == 1
    assert klab("compare", "wrong", "a").code == 0


def test_several_runs_a_side(klab, write):
    for number in range(6):
        write(f"run-{number}", random_run(number))
    few = klab("compare", "run-3", "--against", "run-0", "--json").record
    many = klab("compare", "run-3", "run-4", "run-5", "--against", "run-0", "run-1", "run-2", "--json").record
    assert (many["before"]["name"], many["before"]["runs"], many["after"]["runs"]) == ("run-0, run-1, run-2", 3, 3)
    assert many["pairs"][0]["variation"]["source"] == "runs"
    width_of_many, width_of_one = (pair["high"] / pair["low"] for pair in (many["pairs"][0], few["pairs"][0]))
    assert width_of_many < width_of_one


def test_against_a_branch_takes_its_newest_comparable_run(klab, write, tmp_path):
    def of_branch(branch, commit, record):
        record["environment"] |= {
            "branch": branch,
            "commit": commit,
            "committed": f"2026-11-0{commit[0]}T00:00:00+0000",
        }
        return record | {"began": "2026-11-10T00:00:00+0000"}

    rng = random.Random(1)
    write("runs/old", of_branch("main", "1" * 40, run(*timed_results(rng, us=90.0))))
    write("runs/newest", of_branch("main", "2" * 40, run(*timed_results(rng))))
    write("runs/mine", of_branch("topic", "3" * 40, run(*timed_results(rng, slower={0: 1.5}))))
    done = klab("compare", "runs/mine", "--against", "main")
    assert done.code == 1, done.err
    assert "before: runs/newest" in done.out
    unknown = klab("compare", "runs/mine", "--against", "no-such-branch")
    assert (unknown.code, "no run of the branch or commit 'no-such-branch'" in unknown.err) == (2, True)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["a"], "1 run named, two are compared"),
        (["a", "b", "a"], "3 runs named, two are compared"),
        (["--against", "a"], "no run to compare"),
        (["a", "nowhere"], "no record at nowhere"),
        (["a", "other"], "different machines (a on a machine; other on another machine)"),
        (["a", "b", "--precision", "little"], "cannot read --precision"),
        (["a", "b", "--json", "--markdown", "-"], "both print to standard output"),
        (["a", "b", "--html", "no/such/folder.html"], "--html no/such/folder.html cannot be written"),
    ],
)
def test_a_bad_request_is_one_sentence(klab, write, words, message):
    write("a", run(result("f", STEADY)))
    write("b", run(result("f", STEADY)))
    write("other", run(result("f", STEADY), machine="another machine"))
    done = klab("compare", *words)
    assert (done.code, done.out) == (2, "")
    assert message in done.err
    assert "Traceback" not in done.err


def test_different_machines_are_compared_when_told(klab, write):
    write("a", run(result("f", STEADY)))
    write("other", run(result("f", STEADY), machine="another machine"))
    done = klab("compare", "a", "other", "--across-machines", "--precision", "10%")
    assert done.code == 0, done.err
    assert "The machines differ: a machine before, another machine after." in done.out


# Measuring again ---------------------------------------------------------------------------------------

OP_FILE = """
import time
import kernellab as kl


@kl.op(cases=kl.cases(shape=[(8, 8)], dtype=["float32"]))
def f(x):
    time.sleep({seconds})
    return x * 2


@kl.op(cases=kl.cases(shape=[(8, 8)], dtype=["float32"]))
def g(x):
    return x * 3
"""


def test_rerun_decides_with_processes_of_both_versions(klab, write, tmp_path):
    for version, seconds in (("before", 0.001), ("after", 0.03)):
        (tmp_path / version).mkdir()
        (tmp_path / version / "f.py").write_text(OP_FILE.format(seconds=seconds))
    case = {**result("f")["case"], "dims": {"...": [8, 8]}}
    recorded = run(*({**result("manual", STEADY), "op": op, "case": case} for op in ("f", "g")))
    write("a", recorded)
    write("b", recorded)
    versions = ("--before-src", "before/f.py", "--after-src", "after/f.py")
    done = klab(
        "compare",
        "a",
        "b",
        "--rerun",
        *versions,
        "--blocks",
        "2",
        "--seconds",
        "0.05",
        "--seed",
        "5",
        "--out",
        "kept",
        "--json",
    )
    assert done.code in (1, 3), done.err  # on a busy machine, two blocks may not decide
    of_f, of_g = done.record["pairs"]
    assert (of_f["blocks"], of_g["blocks"]) == (2, 2), of_f["reason"]
    assert 5 < of_f["ratio"] < 60
    assert (done.record["rerun"]["seed"], done.record["rerun"]["interrupted"]) == (5, False)
    assert f"before: {tmp_path}/before/f.py:f with " in done.err
    assert "block 2 of at most 2" in done.err
    kept = sorted(path.name for path in (tmp_path / "kept").iterdir())
    assert kept == [f"{block:03}-00-{version}" for block in (1, 2) for version in ("after", "before")]
    assert not list((tmp_path / "kept").rglob("report.html"))


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--blocks", "4"], "--blocks is an option of --rerun"),
        (["--rerun"], "--rerun needs both versions of the code (git worktree add ../before c0 checks"),
        (["--rerun", "--before-src", "nowhere"], "--before-src nowhere does not exist"),
        (["--rerun", "--before-src", "."], "no file of the op f below"),
        (["--rerun", "--before-src", "f.py", "--blocks", "0"], "--blocks 0: must be above 0"),
    ],
)
def test_a_bad_request_to_measure_again_is_one_sentence(klab, write, words, message):
    write("a", run(result("f", STEADY)))
    done = klab("compare", "a", "a", *words)
    assert (done.code, done.out) == (2, "")
    assert message in done.err
