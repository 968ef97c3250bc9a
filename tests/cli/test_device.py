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
    document = json.loads(klab("device", "--gpu", "H100", "--json").out)
    assert document["gpu"]["sms"] == 132
    assert document["chip"]["shared_per_block_bytes"] == 227 * 1024
    assert {row["kind"] for row in document["rows"]} == {"logical", "physical"}
    assert "cluster" in {row["name"] for row in document["rows"]}


def test_an_unknown_value_is_reported_as_unknown(klab):
    seen = klab("device", "--gpu", "l40s")
    assert "not known" in seen.out
    assert "L2 left out" in seen.out


def test_the_list_has_every_gpu(klab):
    listed = klab("device", "--list").out
    entries = json.loads(klab("device", "--list", "--json").out)
    assert len(entries) >= 25
    assert all(entry["name"] in listed for entry in entries)


@no_gpu
def test_without_a_gpu_the_cpu_is_described_with_a_hint_how_to_describe_a_gpu(klab):
    seen = klab("device")
    assert seen.code == 0, seen.err
    assert "no GPU here" in seen.out
    assert "klab device --gpu a100" in seen.out
    document = json.loads(klab("device", "--json").out)
    assert (document["kind"], document["present"]) == ("cpu", True)
    assert document["cpu"]["cores"] >= 1
    assert "memory" in {row["name"] for row in document["rows"]}
    assert klab("waves", "--blocks", "8").err.startswith("klab: there is no GPU here: --gpu a100")


def test_bandwidths_and_rates_are_measured_on_the_cpu(klab):
    seen = klab("device", "--measure", "--quick", "--device", "cpu", "--json", OMP_NUM_THREADS="1")
    assert seen.code == 0, seen.err
    document = json.loads(seen.out)
    rates = {rate["name"]: rate["value"] for rate in document["rates"]}
    assert set(rates) >= {"copy", "read", "write", "last-level cache read", "matmul float32", "matmul float64"}
    for name, value in rates.items():
        assert value > 0, name
    # Any CPU of this century is within these bounds, if the units are GB/s and TFLOP/s.
    assert 0.2 < rates["copy"] < 2000
    assert 0.001 < rates["matmul float32"] < 50
    assert rates["matmul float64"] < rates["matmul float32"] * 1.2
    assert isinstance(document["doubts"], list)
    assert document["device"] == "cpu"


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("--gpu", "voodoo"), "no GPU 'voodoo' in the database"),
        (("--gpu", "a100", "--measure"), "exclude each other"),
        (("--quick",), "--measure --quick"),
        (("--measure", "--device", "tpu"), "no device 'tpu'"),
    ],
)
def test_a_bad_request_is_one_sentence(klab, args, message):
    seen = klab("device", *args)
    assert (seen.code, seen.out) == (2, "")
    assert message in seen.err
