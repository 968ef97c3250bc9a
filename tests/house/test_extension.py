"""An op is a folder, a peer library, a rule a file, a timer a class, a verb a module: nothing else has to be edited.

Each is added to a copy of the package and found in help, in the list and by the check of the docs.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from support.documentation import take_inventory, undocumented
from support.klab import HERE, SRC, klab_env

OP = '''
"""Triples its input."""

import torch

import kernellab as kl


@kl.op(cases=kl.cases(shape=[(64, 64)], dtype=["float32"]))
def triple(x):
    """Three times x."""
    return 3 * x


@triple.impl("torch")
def _(x):
    return torch.mul(x, 3)
'''

LIBRARY = """
def threefold(x, times):
    return x * times
"""

PEER = '''
"""Adds up."""

import adder

from kernellab.peers import PeerLibrary

adding = PeerLibrary(module="adder", package="adder", install="pip install adder", kind="python")


@adding.impl("triple")
def _(x):
    return adder.threefold(x, 3)
'''

VERB = '''
"""`klab greet NAME`: greets."""

SUMMARY = "greet somebody"


def arguments(parser):
    parser.add_argument("name", help="who")
    parser.add_argument("--politely", action="store_true", help="with a title")


def run(args):
    print(f"hello {'dear ' if args.politely else ''}{args.name}")
    return 0
'''

RULE = '''
"""The kernel was launched on a Friday."""

from kernellab.findings.finding import Finding

NEEDS = "a calendar"
GAIN = "none: a warning"


def examine(subject):
    return Finding(title="this may be a Friday", do="wait for Monday", confidence="possible", evidence=[])
'''

TIMER = '''
"""The `sundial` timer: hours, roughly."""

from time import perf_counter_ns

from kernellab.timing.cpu_windows import CpuWindowTimer


class SundialTimer(CpuWindowTimer):
    name = "sundial"
    overhead_rank = 99
    measures = "hours of daylight"
    help = "the shadow of a stick"
    read_ns = staticmethod(perf_counter_ns)
'''


@pytest.fixture(scope="module")
def copy(tmp_path_factory) -> Path:
    """The source folder of a copy of the package with an op, a peer library, a rule, a timer and a verb more."""
    src = tmp_path_factory.mktemp("copy") / "src"
    shutil.copytree(SRC / "kernellab", src / "kernellab", ignore=shutil.ignore_patterns("__pycache__"))
    package = src / "kernellab"
    (package / "ops" / "triple").mkdir()
    (package / "ops" / "triple" / "__init__.py").write_text(OP)
    (package / "peers" / "adding.py").write_text(PEER)
    (src / "adder.py").write_text(LIBRARY)
    (package / "cli" / "verbs" / "greet.py").write_text(VERB)
    (package / "timing" / "timers" / "sundial.py").write_text(TIMER)
    (package / "explaining" / "rules" / "launched_on_friday.py").write_text(RULE)
    return src


@pytest.fixture
def klab(copy, tmp_path):
    def run(*words):
        command = [sys.executable, "-m", "kernellab", *words]
        env = klab_env(PYTHONPATH=str(copy))
        return subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=120)

    return run


def test_a_verb_is_a_module(klab):
    assert "greet     greet somebody" in klab("--help").stdout
    assert "--politely" in klab("greet", "--help").stdout
    assert klab("greet", "Ada", "--politely").stdout == "hello dear Ada\n"
    misspelt = klab("greet", "Ada", "--polietly")
    assert (misspelt.returncode, misspelt.stderr) == (2, "klab: unknown option --polietly: did you mean --politely?\n")


def test_an_op_is_a_folder(klab):
    assert "\ntriple  Three times x.\n" in klab("list").stdout
    done = klab("check", "triple", "--impl", "manual,torch", "--declared", "--device", "cpu", "--json")
    assert done.returncode == 0, done.stderr
    statuses = {r["impl"]: r["derived"]["status"] for r in json.loads(done.stdout)["results"]}
    assert statuses == {"manual": "ok", "torch": "ok"}


def test_a_peer_library_is_a_file_and_is_timed_in_the_same_rounds(klab):
    assert "adding" in " ".join(klab("bench", "--help").stdout.split())
    options = ("--impl", "torch", "--device", "cpu", "--seconds", "0.05", "--only-times", "--json")
    done = klab("bench", "triple", *options, "--peers")
    assert done.returncode == 0, done.stderr
    results = {r["impl"]: r for r in json.loads(done.stdout)["results"]}
    assert results.keys() == {"torch", "adding"}
    rounds = [set(result["times"][0]["rounds"]) for result in results.values()]
    assert rounds[0] == rounds[1] != set()
    assert results["adding"]["derived"]["speedup"]["fastest_other"]["over"] == "torch"


def test_a_rule_is_a_file(klab):
    done = klab("explain", "triple", "--impl", "manual", "--static", "--gpu", "h200", "--json")
    assert done.returncode == 0, done.stderr
    ((result,), name) = json.loads(done.stdout)["results"], "launched-on-friday"
    assert [finding["title"] for finding in result["findings"] if finding["rule"] == name] == ["this may be a Friday"]


def test_a_timer_is_a_class(klab):
    assert "sundial (the shadow of a stick)" in " ".join(klab("bench", "--help").stdout.split())
    options = ("--impl", "torch", "--timer", "clock,sundial", "--device", "cpu", "--seconds", "0.05", "--only-times")
    done = klab("bench", "triple", *options)
    assert done.returncode == 0, done.stderr
    assert "sundial, cold" in done.stdout
    assert "hours of daylight, data in memory" in done.stdout


def test_the_docs_check_names_what_was_added_and_where_to_document_it(copy):
    before = undocumented(take_inventory(SRC), HERE.parent)
    assert [line for line in undocumented(take_inventory(copy), HERE.parent) if line not in before] == [
        "verb greet: a row in the first table of docs/commands.md",
        "option --politely of greet: its row there, or a section `Options of greet`",
        "rule launched-on-friday: its row in docs/explain.md (python -m kernellab.explaining.rulebook docs/explain.md)",
        "timer sundial: a row in the table of docs/timing.md",
        "op triple: in README.md, under Shipped ops",
    ]
