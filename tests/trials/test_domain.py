"""Where an op is defined, and what an implementation refuses."""

import pytest

import kernellab as kl
from kernellab.declaration.case import Case
from kernellab.trials.domain import Domain, is_defined, refusal
from kernellab.trials.trial import Trial
from support.trying import op_of, plane


def test_where_decides_and_one_that_raises_means_no():
    op = kl.op(args=dict(x=kl.tensor("N")), where=lambda case: 12 % case.N == 0)(lambda x: x)
    assert [is_defined(op, Case({"N": n}, "float32")) for n in (3, 5, 0)] == [True, False, False]


def test_supports_is_asked_about_the_layout_and_may_raise():
    op = op_of(lambda x: x * 2)
    op.impl("picky", supports=lambda case: case.contiguous or "contiguous inputs only")(lambda x: x * 2)
    case = Case(plane(), "float32")
    assert refusal(op["picky"], Trial("layouts", case, layouts={"x": "transposed"})) == "contiguous inputs only"
    for layout in ("contiguous", "sliced rows", "misaligned"):
        assert refusal(op["picky"], Trial("layouts", case, layouts={"x": layout})) is None
    op.impl("raising", supports=lambda case: 1 / 0)(lambda x: x * 2)
    with pytest.raises(ZeroDivisionError):
        refusal(op["raising"], Trial("sizes", case))


def test_a_domain_asks_where_and_supports_once_and_takes_an_error_for_a_no():
    asked = []
    op = kl.op(args=dict(x=kl.tensor("N")), where=lambda case: case.N != 5)(lambda x: x)
    op.impl("divides", supports=lambda case: asked.append(case.N) or 12 % case.N == 0)(lambda x: x)
    domain = Domain(op, op["divides"])
    answers = [domain.accepts(Case({"N": n}, "float32")) for n in (3, 5, 7, 0, 3)]
    assert answers == [True, False, False, False, True]
    assert asked == [3, 7, 0]
    assert Domain(op).accepts(Case({"N": 7}, "float32"))
