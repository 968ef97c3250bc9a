import pytest

from support.subjects import CHAIN, GB, LIMIT_US, first_finding, found_rules, subject


def test_a_chain_gains_the_bytes_between_its_operators():
    finding = first_finding(subject(operators=CHAIN, time_us=9 * GB / 4e6))
    assert (finding.name, finding.confidence) == ("unfused-chain", "computed")
    assert finding.gain == pytest.approx(4.5)
    assert finding.title == "4 kernels move 9 tensors where 2 suffice: fusing gains about 4.5×"


def test_a_single_operator_is_no_chain():
    assert found_rules(subject(operators=CHAIN[:1])) == []


def test_the_gain_is_no_more_than_the_headroom():
    assert first_finding(subject(operators=CHAIN, time_us=3 * LIMIT_US)).gain == pytest.approx(3.0)


def beside(times_us, fused):
    return subject(operators=CHAIN, time_us=4.5 * LIMIT_US, other_times_us=times_us, fused_impls=fused)


def test_the_gain_is_no_more_than_the_fastest_fused_implementation_shows():
    times_us = {"cpp": 1.5 * LIMIT_US, "compile": 2 * LIMIT_US, "chain": LIMIT_US}
    finding = first_finding(beside(times_us, ["cpp", "compile"]))
    assert (finding.name, finding.confidence, finding.gain) == ("unfused-chain", "measured", pytest.approx(3.0))
    assert finding.title.endswith("fusing gains about 3×, as cpp shows")
    values = {evidence.what: evidence.value for evidence in finding.evidence}
    assert values["gain, predicted"] == pytest.approx(4.5)
    assert values["chain, for comparison"] == pytest.approx(4.5)


def test_a_fused_implementation_that_is_no_faster_leaves_no_gain():
    finding = first_finding(beside({"cpp": 5 * LIMIT_US}, ["cpp"]))
    assert finding.gain is None
    assert finding.title.endswith(", but cpp, which is fused, gains nothing")


def test_a_fused_implementation_that_is_faster_than_predicted_does_not_raise_the_gain():
    finding = first_finding(beside({"cpp": 0.9 * LIMIT_US}, ["cpp"]))
    assert (finding.confidence, finding.gain) == ("computed", pytest.approx(4.5))


def test_on_a_cpu_the_gain_is_likely_as_an_operator_may_be_bound_by_arithmetic():
    on_cpu = subject(device=None, time_us=9 * GB / 4e6, operators=CHAIN)
    assert found_rules(on_cpu) == ["unfused-chain"]
    finding = first_finding(on_cpu)
    assert finding.confidence == "likely"
    assert finding.title.startswith("4 operators move")
