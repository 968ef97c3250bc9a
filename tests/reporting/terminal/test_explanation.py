"""Explanations in the terminal."""

import io

import pytest
from rich.console import Console

from kernellab.explaining.explanation import explain
from kernellab.explaining.run_explanation import explain_run
from kernellab.explaining.subject_reader import read_subjects
from kernellab.findings.finding import WEIGHTS
from kernellab.record.verdict import derive
from kernellab.reporting.sentences import explanation as sentences
from kernellab.reporting.sentences.explanation import fact_lines, headline
from kernellab.reporting.terminal.explanation import show
from support.explain_records import CHAIN_TRAFFIC, code_entry, code_kernel, record, result, tuned_entry
from support.subjects import GOOD_KERNEL, LIMIT_US, found_rules, kernel, subject


def kernel_lines(of_record):
    (explanation,) = map(explain, read_subjects(of_record))
    return [line for line in fact_lines(explanation) if line.startswith("k: ")]


def test_the_headline_is_the_first_finding_with_its_gain():
    scattered = subject(kernel(sectors=8.0))
    assert headline(explain(scattered)) == (
        "uncoalesced: a warp's accesses touch 8 times the sectors their bytes would fill; fixing it gains about 8×"
    )


def test_without_a_finding_the_headline_is_the_distance_from_the_limit():
    slow = subject(GOOD_KERNEL, time_us=2 * LIMIT_US)
    assert found_rules(slow) == []
    assert headline(explain(slow)) == "50 % of measured bandwidth; no rule explains the rest"


def test_without_a_time_the_headline_is_the_prediction():
    predicted = "no problem found in its code: predicted 500 µs, bound by the bytes it must move"
    assert headline(explain(subject(GOOD_KERNEL))) == predicted
    looping = headline(explain(subject(kernel(once_loops=1))))
    assert looping == f"{predicted}; 1 loop of unknown length counted once"


def test_of_an_autotuned_kernel_the_configuration_is_named():
    expected = "configuration 2 of 3, the fastest by the model: BLOCK=128 num_warps=4"
    assert [line.partition("; ")[2] for line in kernel_lines(record(code=[tuned_entry(2, 16, 4)]))] == [expected]
    choice = {"kernel": "k", "config": {"BLOCK": 64, "num_warps": 4}}
    timed = result("triton", 510.0, built={"seconds": 1.0, "tuned": [choice]})
    expected = "configuration 1 of 2: BLOCK=64 num_warps=4"
    assert [line.partition("; ")[2] for line in kernel_lines(record(timed, code=[tuned_entry(2, 16)]))] == [expected]


@pytest.mark.parametrize("confidence", WEIGHTS)
def test_every_confidence_has_a_description(confidence):
    assert sentences._CONFIDENCE[confidence]


def shown(of_record, **options):
    out = io.StringIO()
    derived = derive(of_record)
    show(explain_run(derived), derived, Console(file=out, width=200, color_system=None), **options)
    return out.getvalue()


def test_a_run_is_shown_with_what_was_timed_first_and_what_to_choose_last():
    manual = result("manual", 2250.0, traffic=CHAIN_TRAFFIC)
    compiled = code_entry(code_kernel(grid=(488282, 1, 1)), impl="cuda")
    text = shown(record(manual, result("triton", 510.0), code=[compiled]))
    headings = ["f · 1 · float32 · cuda; copies 4000 GB/s", "not timed: a model of H100", "Which implementation"]
    places = [text.index(heading) for heading in headings]
    assert places == sorted(places)
    assert text.index("f triton: at the limit") < text.index("f manual: 4 kernels move")  # the faster first
    assert "Compute it in one kernel" in text
    assert "moved by the chain" not in text


def test_verbose_adds_the_evidence_and_what_is_automatic_in_each_language():
    text = shown(record(result("manual", 2250.0, traffic=CHAIN_TRAFFIC)), verbose=True)
    assert "     moved by the chain: 9000 MB (torch's dispatcher)" in text
    assert "coalescing accesses to memory" in text
