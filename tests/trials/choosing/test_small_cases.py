"""Smaller cases in place of large ones."""

import kernellab as kl
from kernellab.declaration.case import Case
from kernellab.trials.choosing.small_cases import Axis, largest_input, shrink_to


def test_leading_dims_shrink_before_named_dims():
    softmax = kl.ops.softmax
    case = Case({"...": (4096,), "N": 16384}, "float32")
    small = shrink_to(softmax, case, 65_536)
    assert dict(small.dims) == {"...": (4,), "N": 16384}
    assert largest_input(softmax, shrink_to(softmax, case.with_(dims={"...": (9,), "N": 1 << 20}), 65_536)) <= 65_536
    matmul = kl.ops.matmul
    square = Case({"M": 1024, "K": 1024, "N": 1024}, "float32")
    assert dict(shrink_to(matmul, square, 65_536).dims) == {"M": 256, "K": 256, "N": 256}


def test_a_smaller_case_is_found_where_the_usual_step_is_outside():
    @kl.op(args=dict(q=kl.tensor("H S D"), k=kl.tensor("H S D")), cases=kl.cases(H=[32], S=[4096], D=[128]))
    def scores(q, k):
        return q @ k.mT

    def accepts(case):
        return case.S % 128 == 0 and case.D in (64, 128) and case.H % 4 == 0

    case = Case({"H": 32, "S": 4096, "D": 128}, "float32")
    small = shrink_to(scores, case, 1 << 16, accepts=accepts)
    assert accepts(small)
    assert largest_input(scores, small) <= 1 << 16
    kept = shrink_to(scores, case, 1 << 20, accepts=accepts, keep=Axis("S"))
    assert (kept.S, largest_input(scores, kept)) == (4096, 1 << 20)
    assert shrink_to(scores, case, 1 << 16, accepts=lambda c: False) == case
