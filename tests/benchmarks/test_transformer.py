"""benchmarks/transformer.py: what is left to do, when losses are equal, and what its page says."""

import json
import subprocess
import sys

import pytest

from kernellab.base.errors import UserError
from support.benchmarks import BENCHMARKS, load_script
from support.klab import klab_env

transformer = load_script("transformer")
LOSSES = [6.0 - 0.01 * step for step in range(transformer.STEPS)]


def result(losses=LOSSES, turns=(), **more):
    return {
        "losses": list(losses),
        "weights_sum": 12.5,
        "parameters": 1_235_814_400,
        "first_step_s": 1.5,
        "peak_bytes": 20 << 30,
        "patched": "",
        "device_name": "a GPU",
        "versions": {"torch": "2.11.0"},
        "turns": list(turns),
        **more,
    }


def apart(by, since=0):
    return [loss + (by if step >= since else 0) for step, loss in enumerate(LOSSES)]


@pytest.fixture
def store(tmp_path):
    return transformer.Store(tmp_path, transformer.Workload("cuda"))


@pytest.fixture
def judged(store):
    """The verdict on losses where rounding explains 1e-3, and 1e-2 from step 20 on."""
    store.write("eager", **result())
    store.write("rounded-1", **result(apart(1e-3)))
    store.write("rounded-2", **result(apart(1e-2, since=20)))

    def judge(losses, **more):
        store.write("patch", **result(losses, **more))
        return transformer.judge(store.documents, "patch")

    return judge


def test_losses_are_equal_as_far_as_rounding_explains(judged):
    assert judged(LOSSES) == (0.0, "yes: rounding explains 0.01")
    assert judged(apart(1.9e-3))[1].startswith("yes")
    assert judged(apart(1.9e-2, since=20))[1].startswith("yes")
    assert judged(apart(3e-3))[1] == "no: 0.003 by step 10, rounding explains 0.001"
    assert judged(apart(3e-2, since=45))[1] == "no: 0.03 by step 50, rounding explains 0.01"


def test_what_cannot_be_compared_is_not_called_equal(judged, store):
    assert judged(apart(float("nan"), since=30))[1] == "no: a loss is not a number"
    assert judged(LOSSES, weights_sum=12.6)[1] == "cannot tell: it began with other weights"
    for name in transformer.CONTROLS:
        del store.documents[name]
    assert judged(LOSSES)[1] == "cannot tell: the rounded variants are missing"


def test_what_is_finished_is_not_done_again_and_eager_takes_part_in_every_round(store, tmp_path):
    every = list(transformer.ORDER)
    assert store.left(every, 2) == every
    turns = [{"session": "20261116-100000", "round": number, "samples_s": [0.1]} for number in (1, 2)]
    store.write("eager", **result(turns=turns))
    store.write("patch", **result(turns=turns))
    store.write("compile", **result())
    store.write("liger", status="error", reason="it is not installed")
    assert store.left(["eager", "patch"], 2) == []
    assert store.left(["eager", "patch", "compile", "liger", "rounded-1"], 2) == ["eager", "compile", "rounded-1"]
    assert store.left(["eager", "rounded-1"], 2) == ["rounded-1"]
    assert "compile: 2 rounds" in store.describe(every, 2)
    assert "liger: it is not installed" in store.describe(every, 2)
    again = transformer.Store(tmp_path, transformer.Workload("cuda"))
    assert again.documents == store.documents
    assert not transformer.Store(tmp_path, transformer.Workload("cuda"), retry=True).failed("liger")
    with pytest.raises(UserError, match="another model or device"):
        transformer.Store(tmp_path, transformer.Workload("cuda", vocabulary=32000))


def test_a_variant_that_does_not_exist_is_refused_and_eager_is_always_there():
    assert transformer.choose("patch") == ["eager", "patch"]
    with pytest.raises(UserError, match="no variant 'patches'"):
        transformer.choose("patches")


def test_speeds_are_compared_within_rounds_of_a_session(store, tmp_path):
    def turns(factor, sessions=("20261116-100000", "20261116-110000")):
        """Times that double from round to round: only pairs show the factor."""
        return [
            {"session": session, "round": number, "samples_s": [factor * 2.0**number * 1e-3] * 3}
            for session in sessions
            for number in range(8)
        ]

    store.write("eager", **result(turns=turns(1.0)))
    store.write("patch", **result(turns=turns(0.8, ["20261116-110000"])))
    store.write("liger", status="error", reason="it is not installed")
    page = transformer.page(tmp_path)
    (row,) = [line for line in page.splitlines() if line.startswith("| patch |")]
    assert "| 1.250× | 1.25–1.25× | 20.00 GiB | 1.5 s |" in row
    assert "cannot tell: the rounded variants are missing" in row
    for part in (
        "- machine: a GPU",
        "- versions: torch 2.11.0",
        "1236 million parameters",
        "liger: it is not installed",
    ):
        assert part in page
    assert "compile: not measured yet" in page


@pytest.mark.exhaustive
def test_a_tiny_model_trains_on_a_cpu_and_can_be_continued(tmp_path):
    def run(*words):
        command = [sys.executable, BENCHMARKS / "transformer.py", tmp_path, "--device", "cpu", "--tiny", *words]
        paths = [path for path in sys.path if path]
        env = klab_env(PYTHONPATH=":".join([klab_env()["PYTHONPATH"], *paths]))
        return subprocess.run(command, env=env, capture_output=True, text=True, timeout=300, check=True).stdout

    run("--variants", "patch,rounded-1", "--rounds", "1", "--minutes", "4")
    patched = json.loads((tmp_path / "patch.json").read_text())
    assert len(patched["losses"]) == transformer.STEPS
    assert patched["losses"][-1] < patched["losses"][0]
    assert "12 modules replaced" in patched["patched"]
    assert "round 1" in run("--variants", "patch,rounded-1", "--rounds", "2", "--minutes", "4")  # of this session
    patched_again = json.loads((tmp_path / "patch.json").read_text())
    assert patched_again["losses"] == patched["losses"]
    assert len({turn["session"] for turn in patched_again["turns"]}) == 2
    assert "| yes: rounding explains" in run("--page")
