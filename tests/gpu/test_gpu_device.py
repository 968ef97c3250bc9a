"""The GPU present: described as its driver does, held to the tables, measured; occupancy as the driver counts it."""

import json

import pytest
import torch

from kernellab.gpumodel.occupancy import occupancy
from kernellab.machine.chips import chip
from kernellab.timing.grids import _BUSY

pytestmark = pytest.mark.gpu


@pytest.fixture
def facts():
    return torch.cuda.get_device_properties(torch.cuda.current_device())


def test_the_table_is_the_drivers(klab, facts):
    found = json.loads(klab("device", "--json").out)
    assert (found["name"], found["gpu"]["sms"]) == (facts.name, facts.multi_processor_count)
    assert found["gpu"]["l2_bytes"] == facts.L2_cache_size
    known = chip(f"{facts.major}.{facts.minor}")
    assert known.threads_per_sm == facts.max_threads_per_multi_processor
    assert known.registers_per_sm == facts.regs_per_multiprocessor
    assert known.shared_per_sm_bytes == facts.shared_memory_per_multiprocessor
    assert known.shared_per_block_bytes == facts.shared_memory_per_block_optin
    assert known.shared_static_bytes == facts.shared_memory_per_block


def test_waves_are_told_of_the_gpu_present(klab, facts):
    (entry,) = json.loads(klab("waves", "--blocks", "1000", "--json").out)
    assert entry["sms"] == facts.multi_processor_count


def test_measured_rates_are_below_the_vendors_and_l2_above_memory(klab):
    found = json.loads(klab("device", "--measure", "--quick", "--json").out)
    print(json.dumps(found, indent=1))
    rates = {rate["name"]: rate["value"] for rate in found["rates"]}
    pins = found["gpu"]["pin_gbps"]
    for name in ("copy", "read", "write"):
        assert 0.4 * pins < rates[name] < 1.02 * pins, name
    assert rates["L2 read"] > 1.2 * rates["read"]
    assert rates["matmul bfloat16"] > 2 * rates["matmul float32"]
    assert found["clock_mhz"] is not None


@pytest.mark.parametrize("threads", [32, 64, 128, 160, 256])
@pytest.mark.parametrize("shared", [0, 1000, 20000, 48 * 1024])
def test_occupancy_is_the_drivers(facts, threads, shared):
    known = chip(f"{facts.major}.{facts.minor}")
    _BUSY(1, 32, torch.zeros(1, device="cuda"), 1)
    loaded = _BUSY._load(torch.cuda.current_device())
    theirs = loaded.occupancy.max_active_blocks_per_multiprocessor(threads, shared)
    ours = occupancy(known, threads, loaded.attributes.num_regs, loaded.attributes.shared_size_bytes + shared)
    assert ours.blocks_per_sm == theirs


def test_the_kernel_that_fills_sms_leaves_residency_to_shared_memory():
    _BUSY(1, 32, torch.zeros(1, device="cuda"), 1)
    assert _BUSY._load(torch.cuda.current_device()).attributes.num_regs <= 32


def test_a_tail_costs_what_was_predicted(klab, facts):
    sms = facts.multi_processor_count
    grids = [sms, sms + 1, 2 * sms, 2 * sms + 1]
    asked = ["--blocks", ",".join(map(str, grids)), "--threads", "256", "--shared", "100000"]
    (entry,) = json.loads(klab("waves", *asked, "--measure", "--json").out)
    for grid in entry["grids"]:
        print(grid["blocks"], grid["compute"]["efficiency"], grid["measured"]["efficiency"])
        assert grid["measured"]["efficiency"] == pytest.approx(grid["compute"]["efficiency"], rel=0.10)
