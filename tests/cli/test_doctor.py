"""`klab doctor`, and `klab doctor --aa` with real runs."""

import json

import pytest

from kernellab.base.paths import cache_dir
from kernellab.machine import variation


def test_aa_measures_known_differences_and_no_ceilings(klab, tmp_path, monkeypatch):
    cache = tmp_path / "cache"
    cache.mkdir()
    (cache / "cpp").symlink_to(cache_dir("cpp"))  # code need not be built again
    monkeypatch.setenv("KERNELLAB_CACHE", str(cache))  # ceilings that were measured before would be used
    command = ("doctor", "--aa", "--runs", "1", "--seconds", "0.05", "--device", "cpu", "--json", "--out", "kept")
    seen = klab(*command)
    assert seen.code == 0, seen.err
    summary = json.loads(seen.out)
    assert (summary["runs"], len(summary["cases"])) == (1, 2)
    for case in summary["cases"]:
        assert case["equal"]["of"] == 1
        assert [m["percent"] for m in case["more_work"]] == [1, 2, 5]
        assert case["median_us"] > 0
    assert "A/A run 1 of 1" in seen.err
    record = json.loads((tmp_path / "kept" / "run-001" / "run.json").read_text())
    assert record["complete"]
    assert record["machine"]["ceilings"] is None
    assert all(r["inside"] is None for r in record["results"])
    assert variation.load_variation(record["machine"]["class"]) is None  # one run tells none
    again = klab(*command)
    assert (again.code, "already holds a run" in again.err) == (2, True)


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["--runs", "2"], "--runs is an option of --aa"),
        (["--aa", "--runs", "0"], "must be above 0"),
        (["--aa", "--device", "gpu"], "no device 'gpu'"),
    ],
)
def test_a_bad_request_is_one_sentence(klab, args, message):
    seen = klab("doctor", *args)
    assert (seen.code, seen.out) == (2, "")
    assert message in seen.err
    assert "Traceback" not in seen.err


def test_doctor_reports_what_is_here(klab):
    components = {f["name"]: f for f in json.loads(klab("doctor", "--json").out)}
    assert set(components) >= {"GPU", "driver", "torch", "C++ compiler", "Triton", "NVRTC", "nvcc", "Nsight Compute"}
    assert "builds CUDA C++" in components["NVRTC"]["found"]
    assert all(f["found"] or f["cost"] for f in components.values())
