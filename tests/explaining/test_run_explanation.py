"""The explanation of a run: what is explained, what is not and why, and what there is to choose from."""

from kernellab.explaining.run_explanation import explain_run
from kernellab.record.verdict import derive
from support.explain_records import CHAIN_TRAFFIC, code_entry, code_kernel, record, result, tuned_entry


def explained(run):
    return [(e.subject.impl, e.subject.measured) for e in run.explanations]


def reasons(run):
    return {entry.impl: (entry.status, entry.reason) for entry in run.unexplained}


def test_timed_and_compiled_implementations_are_explained_and_failed_ones_named_with_their_reasons():
    wrong = result("liar", 10.0, check={"status": "wrong", "reason": "3 of 9 elements differ"})
    failed = code_entry(impl="cuda", status="error", reason="does not compile")
    compiled = code_entry(code_kernel())
    run = explain_run(derive(record(result("manual", 2250.0), wrong, code=[compiled, failed])))
    assert explained(run) == [("manual", True), ("triton", False)]
    assert reasons(run) == {"liar": ("wrong", "3 of 9 elements differ"), "cuda": ("error", "does not compile")}


def test_a_kernel_that_does_not_fit_is_named_and_is_no_choice():
    run = explain_run(derive(record(code=[tuned_entry(None, None)])))
    assert explained(run) == []
    assert reasons(run) == {"triton": ("refused", "k does not fit: out of shared memory")}
    assert run.choices == []


def test_an_implementation_that_was_skipped_is_explained_by_its_machine_code():
    skipped = result("triton", 1.0, check={"status": "skipped", "reason": "needs a GPU"})
    run = explain_run(derive(record(skipped, code=[code_entry(code_kernel())])))
    assert explained(run) == [("triton", False)]
    assert reasons(run) == {}


def test_there_is_one_table_of_choices_for_each_op_and_case():
    manual, triton = result("manual", 2250.0, traffic=CHAIN_TRAFFIC), result("triton", 510.0)
    run = explain_run(derive(record(manual, triton, result("manual", 9.0, op="g"))))
    assert [(table.op, [row.impl for row in table.rows]) for table in run.choices] == [
        ("f", ["triton", "manual"]),
        ("g", ["manual"]),
    ]
    assert run.choices[0].advice.startswith("A hand-written kernel pays here: triton")
