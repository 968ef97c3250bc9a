"""`klab device`: the table of parts, the list, what is measured and on what."""

import json

import pytest

from kernellab.machine import tools

no_gpu = pytest.mark.skipif(tools.has_gpu(), reason="this machine has a GPU")


def test_an_a100_as_a_table(klab):
    seen = klab("device", "--gpu", "a100")
    assert seen.code == 0, seen.err
    for part in ("108 SMs", "1024 threads per block", "164 KB of the SM's 192 KB", "40 MB", "80 GB HBM2e", "2039 GB/s"):
        assert part in seen.out, part
    for name in ("grid", "block", "warp", "thread", "SM", "registers", "shared memory", "L1", "L2", "global memory"):
        assert f"\n{name} " in seen.out, name
    assert "others: A100 SXM4 40GB" in seen.out
    assert "Source: " in seen.out
    assert "https://" in seen.out


def test_the_same_as_json(klab):
    found = json.loads(klab("device", "--gpu", "H100", "--json").out)
    assert found["gpu"]["sms"] == 132
    assert found["chip"]["shared_per_block_bytes"] == 227 * 1024
    assert {row["kind"] for row in found["rows"]} == {"logical", "physical"}
    assert "cluster" in {row["name"] for row in found["rows"]}


def test_what_is_not_known_is_said_not_guessed(klab):
    seen = klab("device", "--gpu", "l40s")
    assert "not known" in seen.out
    assert "L2 left out" in seen.out


def test_the_list_has_every_gpu(klab):
    listed = klab("device", "--list").out
    entries = json.loads(klab("device", "--list", "--json").out)
    assert len(entries) >= 25
    assert all(entry["name"] in listed for entry in entries)


@no_gpu
def test_without_a_gpu_the_cpu_is_described_and_the_way_to_a_gpu_told(klab):
    seen = klab("device")
    assert seen.code == 0, seen.err
    assert "no GPU here" in seen.out
    assert "klab device --gpu a100" in seen.out
    found = json.loads(klab("device", "--json").out)
    assert (found["kind"], found["present"]) == ("cpu", True)
    assert found["cpu"]["cores"] >= 1
    assert "memory" in {row["name"] for row in found["rows"]}
    assert klab("waves", "--blocks", "8").err.startswith("klab: there is no GPU here: --gpu a100")


def test_bandwidths_and_rates_are_measured_on_the_cpu(klab):
    seen = klab("device", "--measure", "--quick", "--device", "cpu", "--json", OMP_NUM_THREADS="1")
    assert seen.code == 0, seen.err
    found = json.loads(seen.out)
    rates = {rate["name"]: rate["value"] for rate in found["rates"]}
    assert set(rates) >= {"copy", "read", "write", "last-level cache read", "matmul float32", "matmul float64"}
    for name, value in rates.items():
        assert value > 0, name
    # Bounds no CPU of this century leaves: what is printed are GB/s and TFLOP/s, not something else.
    assert 0.2 < rates["copy"] < 2000
    assert 0.001 < rates["matmul float32"] < 50
    assert rates["matmul float64"] < rates["matmul float32"] * 1.2
    assert isinstance(found["doubts"], list)
    assert found["device"] == "cpu"


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("--gpu", "voodoo"), "no GPU 'voodoo' in the database"),
        (("--gpu", "a100", "--measure"), "ask one at a time"),
        (("--quick",), "--measure --quick"),
        (("--measure", "--device", "tpu"), "no device 'tpu'"),
    ],
)
def test_a_bad_request_is_one_sentence(klab, args, message):
    seen = klab("device", *args)
    assert (seen.code, seen.out) == (2, "")
    assert message in seen.err
