"""Explanations as JSON."""

import json

import pytest

from kernellab.explaining.document import add_findings, explanation_document, run_document
from kernellab.explaining.explanation import explain
from kernellab.explaining.run_explanation import explain_run
from kernellab.record.verdict import derive
from support.explain_records import CHAIN_TRAFFIC, code_entry, code_kernel, record, result, tuned_entry
from support.subjects import CHAIN, LIMIT_US, kernel, subject


def test_the_prediction_has_the_time_of_every_resource():
    predicted = explanation_document(explain(subject(kernel(once_loops=1))))["predicted"]
    assert predicted["time_us"] == pytest.approx(LIMIT_US)
    assert (predicted["kernel"], predicted["dearest"], predicted["loops_counted_once"]) == ("good", "memory", 1)
    resources = ["memory", "flight", "issue", "special", "fp64", "fp32", "matmul", "local"]
    assert list(predicted["items_us"]) == resources


def test_a_chain_has_its_steps_and_its_gain_by_the_model_and_by_the_time():
    fusion = explanation_document(explain(subject(operators=CHAIN, time_us=5 * LIMIT_US)))["fusion"]
    assert (fusion["gain"], fusion["timed_gain"]) == (pytest.approx(4.5), pytest.approx(5.0))
    assert (fusion["kernels"], len(fusion["steps"])) == (4, 4)


def test_a_run_is_one_json_document():
    derived = derive(record(result("manual", 2250.0, traffic=CHAIN_TRAFFIC), code=[code_entry(code_kernel())]))
    run = {**derived, "schema": 3, "command": ["klab"]}
    document = json.loads(json.dumps(run_document(run, explain_run(run)), allow_nan=False))
    assert [(entry["impl"], entry["measured"]) for entry in document["results"]] == [
        ("manual", True),
        ("triton", False),
    ]
    (choices,) = document["choices"]
    assert [choice["impl"] for choice in choices["impls"]] == ["manual"]
    keys = {"schema", "command", "machine", "results", "others", "choices"}
    assert set(document) == keys


def test_what_is_not_explained_has_its_pass_status_and_reason():
    run = {**derive(record(code=[tuned_entry(None)])), "schema": 3, "command": []}
    (other,) = run_document(run, explain_run(run))["others"]
    assert (other["impl"], other["arch"], other["pass"]) == ("triton", "sm_90", "forward")
    assert (other["status"], other["reason"]) == ("refused", "k does not fit: out of shared memory")


def test_findings_are_added_to_the_verdicts_of_timed_results_alone():
    untimed = {**result("triton", 510.0), "times": []}
    wrong = result("liar", 10.0, check={"status": "wrong", "reason": "3 of 9 elements differ"})
    derived = derive(record(result("manual", 2250.0, traffic=CHAIN_TRAFFIC), untimed, wrong))
    assert all("findings" not in entry["derived"] for entry in derived["results"])
    add_findings(derived)
    rules = {e["impl"]: [finding["rule"] for finding in e["derived"]["findings"]] for e in derived["results"]}
    assert rules == {"manual": ["unfused-chain"], "triton": [], "liar": []}
