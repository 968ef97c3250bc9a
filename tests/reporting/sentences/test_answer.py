"""The answer is given for each op: case by case, and in one sentence for many cases."""

from kernellab.reporting.sentences.answer import answers, closing
from support.records import result, timed
from support.sweeps import at, derived_record


def _cases(op, sizes, **times):
    """Results of an op at sizes of two dims, none of which makes a sweep."""
    return [at(timed(impl, us), {"M": n + 7, "N": n}, op=op) for n in sizes for impl, us in times.items()]


def test_each_op_has_its_own_answer():
    record = derived_record(
        *_cases("f", [8], manual=300, triton=100),
        *_cases("g", [8], manual=100),
        at(result("cpp", status="wrong", reason="values"), {"M": 15, "N": 8}, op="g"),
    )
    of_f, of_g = answers(record)
    assert (of_f.op, of_g.op) == ("f", "g")
    assert of_f.claims[0].startswith("f M=15 N=8 · float32: triton is fastest, 3× as fast as manual")
    assert of_f.statuses == "2 results right."
    assert of_g.statuses == "1 result right, 1 not right: g cpp."
    assert (of_f.worst, of_g.worst) == ("ok", "wrong")


def test_the_headline_counts_the_cases_each_implementation_leads():
    record = derived_record(
        *_cases("f", [8, 16, 32], manual=300, triton=100),
        *_cases("f", [64], manual=100, triton=300),
        *_cases("f", [128], manual=100, triton=100),
    )
    (answer,) = answers(record)
    assert answer.headline == (
        "triton is fastest at 3 of 5 cases (3× as fast as manual), manual at 1; at 1 no lead is resolved"
    )


def test_the_closing_lines_are_those_of_all_ops():
    record = derived_record(*_cases("f", [8], manual=300), *_cases("g", [8], manual=100))
    claims = [claim for answer in answers(record) for claim in answer.claims]
    assert closing(record) == [*claims, "2 results right."]
    assert answers(derived_record(result("cpp", status="skipped", reason="needs a CPU")))[0].headline == ""
