import dataclasses

from support.subjects import GOOD_KERNEL, first_finding, found_rules, kernel, subject

CODE = {**GOOD_KERNEL.instructions, "local_load": 64, "local_store": 64}
ARRAY = kernel(stack_bytes=256, local_bytes=512, instructions=CODE)


def test_an_array_in_local_memory_costs_the_bytes_it_moves():
    finding = first_finding(subject(ARRAY))
    assert (finding.name, finding.confidence) == ("local-arrays", "likely")
    assert finding.title.startswith("256 bytes per thread are in local memory instead of registers")
    assert finding.gain > 1.5
    assert "constant indices" in finding.do


def test_the_table_of_sin_is_not_reported():
    assert found_rules(subject(dataclasses.replace(ARRAY, stack_bytes=32))) == []


def test_known_spills_are_reported_as_spills_and_unknown_ones_as_possible():
    assert first_finding(subject(dataclasses.replace(ARRAY, spill_bytes=512))).name == "spills"
    assert first_finding(subject(dataclasses.replace(ARRAY, spill_bytes=None))).title.endswith(", or spills")


def test_a_loop_over_a_local_array_goes_over_all_of_it():
    code = {**GOOD_KERNEL.instructions, "local_load": 1, "local_store": 1}
    looping = kernel(stack_bytes=1024, local_bytes=8, instructions=code, unknown_turns={"local_load": 1})
    once = dataclasses.replace(looping, unknown_turns={})
    assert first_finding(subject(looping)).gain > 2 * (first_finding(subject(once)).gain or 1)
