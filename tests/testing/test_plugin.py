"""The plugin as pytest loads it: failures say what to do, times are in a table, collecting imports nothing heavy."""

import importlib.metadata
import re
import subprocess
import sys

import pytest

from support.klab import klab_env

pytest_plugins = ["pytester"]

# The entry point may be missing where the package was installed before it had one.
PLUGIN = ("-p", "no:kernellab", "-p", "kernellab.testing.plugin", "-p", "no:cacheprovider")

OPS = """
import time, torch, kernellab as kl

@kl.op(cases=kl.cases(shape=[(16, 16)], dtype=["float32"]))
def twice(x):
    return x + x

@twice.impl("torch")
def _(x):
    return torch.mul(x, 2)

@twice.impl("slow")
def _(x):
    time.sleep(0.002)
    return x * 2

@twice.impl("cuda")
def _(x):
    raise AssertionError("this must not run without a GPU")

@twice.impl("wrong")
def _(x):
    return x * 3
"""

TESTS = """
import pytest

FAST = dict(device="cpu", seconds=0.02, rounds=8)

def test_right(klab):
    run = klab.check("ops.py", ["manual", "torch"], shape=(8, 8), device="cpu")
    assert [result["impl"] for result in run.results] == ["manual", "torch"]

def test_wrong(klab):
    klab.check("ops.py:twice", "wrong", shape=(8, 8), device="cpu")

def test_slower(klab):
    klab.assert_not_slower("ops.py", "slow", than="torch", **FAST)

def test_as_before(klab):
    klab.assert_not_slower("ops.py", "torch", by=9.0, **FAST)

def test_misspelt(klab):
    klab.check("opz.py")

def test_on_a_gpu(klab):
    klab.check("ops.py", "torch", device="cuda")

@pytest.mark.klab_gpu
def test_marked():
    raise AssertionError("this must not run without a GPU")

def test_kind_for_gpus(klab):
    klab.check("ops.py", "cuda", shape=(8, 8), device="cpu")
"""


@pytest.fixture
def suite(pytester, monkeypatch):
    """Runs tests in a folder below which there are op files; as if there were no GPU."""
    from kernellab.machine import tools

    monkeypatch.setattr(tools, "has_gpu", lambda: False)
    monkeypatch.setattr("kernellab.testing.fixture.has_gpu", lambda: False)
    folder = pytester.mkdir("tests")
    (folder / "ops.py").write_text(OPS)
    (folder / "test_ops.py").write_text(TESTS)
    return lambda *words: pytester.runpytest_inprocess(*PLUGIN, *words)


@pytest.mark.clocked
def test_a_suite(suite, pytester):
    done = suite("--klab-save", "kept", "-rs")
    done.assert_outcomes(passed=2, failed=3, skipped=3)
    out = done.stdout.str()
    wrong = out[out.index("_ test_wrong _") : out.index("_ test_slower _")]
    assert re.search(r"^twice wrong: wrong: values: error ", wrong, re.MULTILINE)
    assert re.search(
        r"^reproduce: klab check \S*ops.py:twice --impl=wrong --shape=8x8 --device=cpu$", wrong, re.MULTILINE
    )
    assert "Traceback" not in out
    assert "fixture.py" not in out
    assert re.search(
        r"forward: slow takes \S+ times as long as torch \(99 % interval \S+ to \S+\); 1.020 is allowed", out
    )
    assert "klab check: no file opz.py" in out
    assert "SKIPPED [1]" in out
    assert "cuda: there is no NVIDIA GPU here" in out
    assert "needs an NVIDIA GPU: there is none here" in out
    assert "cuda: needs a GPU" in out
    table = out[out.index("times by kernellab") :].splitlines()
    assert table[1].split() == ["test", "op", "case", "impl", "time", "99", "%", "trust", "compared"]
    rows = [line for line in table if "::" in line and "twice" in line]
    assert [re.search(r"(torch|slow) +[\d.]+ [µm]s", row)[1] for row in rows] == ["slow", "torch", "torch"]
    assert rows[0].endswith(": slower")
    kept = sorted(path.name for path in pytester.path.joinpath("kept").iterdir())
    assert len(kept) == 5  # of the tests that measured, a skipped one among them
    assert all(re.fullmatch(r"tests-test-ops-py--test-[\w-]+-[0-9a-f]{6}-1", name) for name in kept)
    (record,) = re.findall(r"^record: (\S*test-wrong\S*)$", out, re.MULTILINE)
    assert pytester.path.joinpath("kept", record.rpartition("/")[2], "run.json").exists()

    again = suite("--klab-baseline", "kept", "-k", "test_as_before or test_misspelt")
    again.assert_outcomes(passed=1, failed=1, deselected=6)
    assert re.search(r"torch .* as long as before \(\S+\): not slower", again.stdout.str())


@pytest.mark.clocked
def test_times_come_back_from_workers_of_xdist(suite):
    done = suite("-n", "1", "-k", "test_slower")
    done.assert_outcomes(failed=1)
    rows = [line for line in done.stdout.str().splitlines() if line.startswith("tests/test_ops.py::test_slower  ")]
    assert len(rows) == 2


def test_without_measurements_there_is_no_table(pytester):
    pytester.makepyfile("def test(): pass")
    done = pytester.runpytest_inprocess(*PLUGIN)
    assert "kernellab" not in done.stdout.str().partition("collected")[2]


def test_pytest_gets_the_plugin_by_its_entry_point():
    points = importlib.metadata.entry_points(group="pytest11", name="kernellab")
    if not points:
        pytest.fail("the package was installed before it had a plugin: install it again (make venv)")
    assert [point.value for point in points] == ["kernellab.testing.plugin"]


def test_collecting_imports_nothing_heavy():
    code = (
        "import sys, pytest, kernellab.testing.plugin; "
        "heavy = {'torch', 'numpy', 'rich', 'pandas', 'kernellab.record', 'kernellab.cli'} & set(sys.modules); "
        "assert not heavy, heavy"
    )
    subprocess.run([sys.executable, "-c", code], check=True, env=klab_env())
