"""The GPU here: tables and occupancy agree with its driver, and measured rates are plausible."""

import json

import pytest
import torch

from kernellab.gpumodel.occupancy import occupancy
from kernellab.machine.chips import chip
from kernellab.timing.grids import _BUSY

pytestmark = [pytest.mark.gpu, pytest.mark.clocked]


@pytest.fixture
def facts():
    return torch.cuda.get_device_properties(torch.cuda.current_device())


def test_the_tables_agree_with_the_driver(klab, facts):
    document = json.loads(klab("device", "--json").out)
    assert (document["name"], document["gpu"]["sms"]) == (facts.name, facts.multi_processor_count)
    assert document["gpu"]["l2_bytes"] == facts.L2_cache_size
    table = chip(f"{facts.major}.{facts.minor}")
    assert table.threads_per_sm == facts.max_threads_per_multi_processor
    assert table.registers_per_sm == facts.regs_per_multiprocessor
    assert table.shared_per_sm_bytes == facts.shared_memory_per_multiprocessor
    assert table.shared_per_block_bytes == facts.shared_memory_per_block_optin
    assert table.shared_static_bytes == facts.shared_memory_per_block


def test_waves_are_computed_for_the_gpu_here(klab, facts):
    (entry,) = json.loads(klab("waves", "--blocks", "1000", "--json").out)
    assert entry["sms"] == facts.multi_processor_count


def test_measured_rates_are_below_the_vendors_and_l2_above_memory(klab):
    document = json.loads(klab("device", "--measure", "--quick", "--json").out)
    print(json.dumps(document, indent=1))
    rates = {rate["name"]: rate["value"] for rate in document["rates"]}
    pin_gbps = document["gpu"]["pin_gbps"]
    for name in ("copy", "read", "write"):
        assert 0.4 * pin_gbps < rates[name] < 1.02 * pin_gbps, name
    assert rates["L2 read"] > 1.2 * rates["read"]
    assert rates["matmul bfloat16"] > 2 * rates["matmul float32"]
    assert document["clock_mhz"] is not None


@pytest.mark.parametrize("threads", [32, 64, 128, 160, 256])
@pytest.mark.parametrize("shared", [0, 1000, 20000, 48 * 1024])
def test_occupancy_agrees_with_the_driver(facts, threads, shared):
    _BUSY(1, 32, torch.zeros(1, device="cuda"), 1)
    loaded = _BUSY._load(torch.cuda.current_device())
    expected = loaded.occupancy.max_active_blocks_per_multiprocessor(threads, shared)
    table, attributes = chip(f"{facts.major}.{facts.minor}"), loaded.attributes
    computed = occupancy(table, threads, attributes.num_regs, attributes.shared_size_bytes + shared)
    assert computed.blocks_per_sm == expected


def test_registers_do_not_limit_the_occupancy_of_the_busy_kernel():
    _BUSY(1, 32, torch.zeros(1, device="cuda"), 1)
    assert _BUSY._load(torch.cuda.current_device()).attributes.num_regs <= 32


def test_the_measured_cost_of_a_tail_agrees_with_the_prediction(klab, facts):
    sms = facts.multi_processor_count
    grids = [sms, sms + 1, 2 * sms, 2 * sms + 1]
    options = ["--blocks", ",".join(map(str, grids)), "--threads", "256", "--shared", "100000"]
    for _ in range(3):  # a measurement of two seconds: others use the machine too
        (entry,) = json.loads(klab("waves", *options, "--measure", "--json").out)
        computed, measured = ([grid[key]["efficiency"] for grid in entry["grids"]] for key in ("compute", "measured"))
        print(computed, measured)
        if measured == pytest.approx(computed, rel=0.10):
            return
    assert measured == pytest.approx(computed, rel=0.10)
