"""Kernel facts: counted in the binary, and equal to what NVIDIA's own tools print."""

import json
from dataclasses import asdict

import pytest

from kernellab.base.errors import UserError
from kernellab.codeanalysis.facts import facts_from_cubin, facts_from_ptx
from kernellab.machinecode import cuda_tools
from kernellab.machinecode.assembler import assemble, parse_spills
from kernellab.machinecode.ptx import parse_ptx
from support.machine_code import TINY_PTX, assembled_facts, crowded_ptx, local_array_ptx


@pytest.fixture(scope="module")
def tiny():
    return assembled_facts(TINY_PTX)


@pytest.mark.bare  # Triton's package brings the tools
def test_a_cubin_has_resources_and_instructions(tiny):
    assert (tiny.name, tiny.arch, tiny.shared_bytes, tiny.barriers) == ("tiny", "sm_75", 256, 1)
    assert tiny.registers > 8
    assert (tiny.threads, tiny.threads_required) == ((64, 2, 1), False)
    assert (tiny.spill_bytes, tiny.stack_bytes, tiny.counted_in) == (0, 0, "SASS")
    assert (tiny.widest_global_bytes, tiny.narrowest_global_bytes) == (16, 16)
    assert tiny.instructions["global_load"] == tiny.instructions["global_store"] == 1
    assert tiny.instructions["special"] >= 1
    assert tiny.predicated >= 2
    assert tiny.remarks == []
    assert "unknown" not in tiny.instructions


def test_the_json_has_every_field_of_the_facts(tiny):
    document = json.loads(json.dumps(tiny.to_json()))
    assert document == json.loads(json.dumps(asdict(tiny)))
    assert {"kind": "global_load", "bytes": 16, "count": 1} in document["accesses"]
    assert document["loops"][0]["hottest"] is True


def test_ptx_alone_has_instructions_but_no_registers():
    (facts,) = facts_from_ptx(parse_ptx(TINY_PTX))
    assert (facts.registers, facts.spill_bytes, facts.stack_bytes) == (None, None, None)
    assert (facts.counted_in, facts.shared_bytes, facts.threads) == ("PTX", 256, (64, 2, 1))
    assert (facts.instructions["fp32"], facts.instructions["special"]) == (2, 1)


def test_a_kernel_that_the_cubin_does_not_contain_is_an_error():
    with pytest.raises(UserError, match="did you mean tiny"):
        facts_from_cubin(assemble(TINY_PTX, "sm_75").cubin, kernel="tinny")


# Spills ----------------------------------------------------------------------------------------------------


def test_spills_counted_in_the_sass_equal_those_that_ptxas_prints():
    ptx = crowded_ptx(60)
    assembled = assemble(ptx, "sm_75")
    (by_log,) = facts_from_cubin(assembled.cubin, ptx, ptxas_log=assembled.log)
    (by_sass,) = facts_from_cubin(assembled.cubin, ptx)
    (without_ptx,) = facts_from_cubin(assembled.cubin)
    assert by_log.spill_bytes == parse_spills(assembled.log)["k"].total_bytes > 0
    assert by_sass.spill_bytes == by_log.spill_bytes
    assert "ptxas -v" in by_log.spill_known_by
    assert "declares no local array" in by_sass.spill_known_by
    assert without_ptx.spill_bytes is None
    assert "local array" in without_ptx.spill_known_by
    assert by_log.stack_bytes > 0


def test_an_array_in_local_memory_is_not_a_spill(monkeypatch):
    ptx = local_array_ptx()
    cubin = assemble(ptx, "sm_75").cubin
    (facts,) = facts_from_cubin(cubin, ptx)
    assert (facts.spill_bytes, facts.spill_known_by) == (0, "ptxas -v, run again on the PTX")
    assert facts.instructions["local_load"] == 1
    assert facts.stack_bytes > 0
    find = cuda_tools.find
    monkeypatch.setattr(cuda_tools, "find", lambda name: () if name == "ptxas" else find(name))
    (facts,) = facts_from_cubin(cubin, ptx)
    assert facts.spill_bytes is None
