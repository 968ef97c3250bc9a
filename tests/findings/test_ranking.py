"""The order of findings."""

import dataclasses

from kernellab.findings.finding import Finding, Precedence
from kernellab.findings.ranking import rank


def finding(name, gain, confidence="likely", **fields):
    return Finding(title=name, do="", confidence=confidence, gain=gain, name=name, **fields)


def ranked_names(*findings):
    return [finding.name for finding in rank(findings)]


def test_the_larger_gain_comes_first_and_no_gain_last():
    assert ranked_names(finding("none", None), finding("small", 1.2), finding("large", 3.0)) == [
        "large",
        "small",
        "none",
    ]


def test_a_gain_is_weighted_by_the_confidence_in_it():
    assert ranked_names(finding("possible", 2.0, "possible"), finding("measured", 1.5, "measured")) == [
        "measured",
        "possible",
    ]
    assert ranked_names(finding("possible", 4.0, "possible"), finding("measured", 1.5, "measured"))[0] == "possible"


def test_findings_of_the_same_gain_keep_their_order():
    assert ranked_names(finding("b", 2.0), finding("a", 2.0)) == ["b", "a"]


def test_a_finding_whose_gain_assumes_a_fix_comes_after_it():
    line = finding("line", 1.1)
    program = finding("program", 5.0, after=[line])
    other = finding("other", 2.0)
    assert ranked_names(program, line, other) == ["other", "line", "program"]
    assert ranked_names(program, other) == ["program", "other"]  # the fix is not among the findings


def test_a_first_finding_comes_before_gains():
    assert ranked_names(finding("gain", 5.0), finding("first", None, precedence=Precedence.FIRST)) == ["first", "gain"]


def test_where_no_gain_is_left_only_findings_without_one_follow():
    at_the_limit = finding("limit", None, precedence=Precedence.NO_GAIN_LEFT)
    assert ranked_names(finding("gain", 5.0), finding("warning", None), at_the_limit) == ["limit", "warning"]


def test_a_finding_that_stands_alone_drops_all_others():
    alone = finding("alone", None, precedence=Precedence.ALONE)
    first = dataclasses.replace(alone, name="first", precedence=Precedence.FIRST)
    assert ranked_names(finding("gain", 5.0), first, alone) == ["alone"]
