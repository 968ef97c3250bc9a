"""`klab tune`: a real tune on the CPU, whose table then serves, and implementations that must not get into one."""

import json
import shutil
import subprocess
import sys

import pytest

from kernellab.base.paths import cache_dir
from kernellab.library.rules import read_table
from support.klab import SRC, klab_env, run_klab

# At this size PyTorch serves by the shipped table, though its rms_norm is several times slower.
OPTIONS = ("--shape", "256x1024", "--seconds", "0.2", "--device", "cpu")

USE = """
import torch
from torch.utils._python_dispatch import TorchDispatchMode
import kernellab.functional as klf

class Seen(TorchDispatchMode):
    names = []
    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        self.names.append(str(function))
        return function(*args, **(kwargs or {}))

for columns in (1024, 2048):  # the second is wider than what was measured
    x, weight = torch.randn((256 << 10) // columns, columns, requires_grad=True), torch.ones(columns)
    with Seen():
        y = klf.rms_norm(x, (columns,), weight)
    torch.testing.assert_close(y, torch.nn.functional.rms_norm(x, (columns,), weight))
    print(columns, "kernellab.rms_norm.default" in Seen.names)
    Seen.names.clear()
"""


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    cache = tmp_path_factory.mktemp("tuned-cache")
    (cache / "cpp").symlink_to(cache_dir("cpp"))  # code need not be built again
    return cache


def tune(*words, folder, cache, **env):
    return run_klab("tune", *words, cwd=folder, KERNELLAB_CACHE=str(cache), **env)


def use(folder, cache, **env):
    env = klab_env(KERNELLAB_CACHE=str(cache), **env)
    return subprocess.run([sys.executable, "-c", USE], cwd=folder, env=env, capture_output=True, text=True).stdout


@pytest.mark.clocked
def test_a_tuned_table_serves_in_models_until_it_is_removed(tmp_path, cache):
    done = tune("rms_norm", *OPTIONS, "--json", folder=tmp_path, cache=cache)
    assert done.code == 0, done.err
    document = json.loads(done.out)
    (op,) = document["ops"]
    assert (op["candidates"], op["verified"], op["refused"]) == (["torch", "cpp"], ["cpp"], {})
    assert op["options"] == {"weight": ["true"]}
    assert (document["used"], document["table"]) == (True, str(cache / "tuned" / "cpu.toml"))
    (rule,) = read_table(cache / "tuned" / "cpu.toml")["rms_norm", "float32"]
    assert rule[:5] == ("cpp", "cpp", 513, 1024, 256 * 1024)
    record = json.loads((tmp_path / op["run"] / "run.json").read_text())
    assert {entry["pass"] for result in record["results"] for entry in result["times"]} == {"forward", "backward"}
    trials = json.loads((tmp_path / op["run"] / "verify-1" / "run.json").read_text())["trials"]
    assert {trial["impl"] for trial in trials} == {"cpp"}

    assert use(tmp_path, cache) == "1024 True\n2048 False\n"
    assert use(tmp_path, cache, KERNELLAB_TUNED="0") == "1024 False\n2048 False\n"
    doctor = run_klab("doctor", cwd=tmp_path, KERNELLAB_CACHE=str(cache))
    assert f"tuned ({cache}/tuned/cpu.toml), then shipped" in doctor.out
    shown = tune("--show", "--device", "cpu", folder=tmp_path, cache=cache).out
    assert f"# tuned: {cache}/tuned/cpu.toml (in use)" in shown
    assert "# rms_norm, measured 20" in shown
    tables = json.loads(tune("--show", "--json", "--device", "cpu", folder=tmp_path, cache=cache).out)["tables"]
    assert [table["title"] for table in tables] == ["tuned", "shipped"]
    removed = tune("--reset", "--device", "cpu", folder=tmp_path, cache=cache).out
    assert "removed rms_norm" in removed
    assert use(tmp_path, cache) == "1024 False\n2048 False\n"


@pytest.fixture(scope="module")
def flawed(tmp_path_factory):
    """A copy of the package whose C++ for gelu is replaced, and whose table leaves gelu on a CPU to PyTorch."""
    src = tmp_path_factory.mktemp("flawed") / "src"
    shutil.copytree(SRC / "kernellab", src / "kernellab", ignore=shutil.ignore_patterns("__pycache__"))
    table = src / "kernellab" / "library" / "tables" / "cpu.toml"
    table.write_text(table.read_text().replace("[[gelu]]", "[[another]]"))
    source = src / "kernellab" / "ops" / "gelu" / "cpp.cpp"
    original, right = source.read_text(), "return (x > 0 ? x : x * e) / (1 + e);"
    assert right in original

    def replace(wrong):
        source.write_text(original.replace(right, wrong, 1))
        return src

    return replace


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        pytest.param("return x * V(0.5);", "wrong: ", marks=pytest.mark.exhaustive),
        # Right wherever it is timed: only the battery's large values show it.
        ("return x > 100 ? 0 : (x > 0 ? x : x * e) / (1 + e);", "not verified, wrong: "),
    ],
    ids=["where it is timed", "where only the battery looks"],
)
def test_a_wrong_implementation_does_not_get_into_a_table(wrong, reason, flawed, tmp_path):
    words = ("gelu", "--shape", "512x1024", "--seconds", "0.05", "--device", "cpu", "--json")
    done = tune(*words, folder=tmp_path, cache=tmp_path / "cache", PYTHONPATH=str(flawed(wrong)))
    assert done.code == 1, done.err
    (op,) = json.loads(done.out)["ops"]
    assert op["refused"]["cpp"].startswith(reason)
    assert (op["rules"], op["verified"]) == ([], [])
    path = tmp_path / "cache" / "tuned" / "cpu.toml"
    assert read_table(path) == {}
    assert "# cpp takes no part: " in path.read_text()


def test_a_dry_run_says_what_would_be_measured_and_writes_nothing(tmp_path, cache):
    before = sorted(cache.rglob("*.toml"))
    done = tune("softmax", "rope", "--device", "cpu", "--dry-run", folder=tmp_path, cache=cache)
    assert done.code == 0, done.err
    softmax, rope = done.out.splitlines()
    assert softmax.startswith("softmax on cpu: torch, cpp at 10 sizes in float32, forward and backward; about")
    assert rope.startswith("rope on cpu: manual, cpp at ")
    assert sorted(cache.rglob("*.toml")) == before
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((), "no op named"),
        (("square",), "square is no op of kernellab.functional, so no table chooses for it"),
        (("sofmax",), "did you mean softmax"),
        (("softmax", "--device", "cuda"), "--device cuda: "),
        (("softmax", "--shape", "8xN"), "cannot read the shape"),
        (("softmax", "--seconds", "0"), "--seconds 0: must be above 0"),
        (("softmax", "--opt", "p=1", "--device", "cpu"), "op softmax has no option p"),
        (("--show", "--reset"), "one at a time"),
        (("--show", "--quick"), "--quick measures: leave it out, or leave out --show"),
    ],
)
def test_a_request_that_cannot_be_carried_out_is_one_sentence(words, message, klab, tmp_path):
    done = klab("tune", *words)
    assert done.code == 2
    assert message in done.err.splitlines()[-1]
