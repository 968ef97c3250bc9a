"""Findings: every rule says what it computes, a good kernel is left in peace, and what promises most comes first."""

import importlib

from kernellab.explaining.rulebook import all_rules, findings
from kernellab.findings.finding import SURE, settled
from support.described import CHAIN, GB, GOOD, ROOF_US, but, first, way


def test_every_rule_is_collected_by_being_a_file_and_states_its_formula_or_its_threshold():
    assert len(all_rules()) >= 13
    for name in all_rules():
        module = importlib.import_module(f"kernellab.explaining.rules.{name}")
        assert module.__doc__ is not None
        assert "=" in module.__doc__ or "warning" in module.__doc__, name


def test_a_good_kernel_is_at_the_limit_when_timed_and_nothing_is_found_when_not():
    timed = first(way(GOOD, time_us=ROOF_US / 0.97))
    assert timed.rule == "at-the-limit"
    assert "97 % of measured bandwidth" in timed.title
    assert findings(way(GOOD)) == []


def test_at_the_limit_silences_what_cannot_gain():
    spilling = but(spill_bytes=400, stack_bytes=200, instructions={**GOOD.instructions, "local_load": 50})
    assert [f.rule for f in findings(way(spilling, time_us=ROOF_US / 0.95))] == ["at-the-limit"]
    assert first(way(spilling, time_us=3 * ROOF_US)).rule == "spills"


def test_a_warm_time_is_no_limit():
    assert all(f.rule != "at-the-limit" for f in findings(way(GOOD, time_us=ROOF_US / 0.97, cache="warm")))


def test_what_promises_more_comes_first_weighed_by_how_sure_it_is():
    both = but(sectors=8.0, widest_bytes=4, load_bytes=4.0, instructions={**GOOD.instructions, "fp64": 400})
    found = findings(way(both))
    weights = [(f.gain - 1) * SURE[f.sure] for f in found]
    assert len(found) >= 2
    assert weights == sorted(weights, reverse=True)


def test_a_measured_distance_settles_what_a_model_estimates():
    assert settled(3.0, None) == 3.0
    assert settled(3.0, 4.0) == 4.0  # within the model's error: it accounts for all of it
    assert settled(8.0, 4.0) == 4.0  # nobody gains more than there is
    assert settled(1.5, 6.0) == 1.5  # something else costs the rest


def test_nothing_is_made_up_on_a_cpu():
    cpu = way(device=None, time_us=9 * GB / 4e6, traffic=CHAIN)
    assert [f.rule for f in findings(cpu)] == ["unfused-chain"]
    assert findings(cpu)[0].sure == "likely"
