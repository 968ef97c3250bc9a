"""Smaller cases in place of large ones."""

import kernellab as kl
from kernellab.declaration.case import Case
from kernellab.trials.small_cases import largest_input, shrink_to


def test_leading_dims_shrink_before_named_dims():
    softmax = kl.ops.softmax
    case = Case({"...": (4096,), "N": 16384}, "float32")
    small = shrink_to(softmax, case, 65_536)
    assert dict(small.dims) == {"...": (4,), "N": 16384}
    assert largest_input(softmax, shrink_to(softmax, case.with_(dims={"...": (9,), "N": 1 << 20}), 65_536)) <= 65_536
    matmul = kl.ops.matmul
    square = Case({"M": 1024, "K": 1024, "N": 1024}, "float32")
    assert dict(shrink_to(matmul, square, 65_536).dims) == {"M": 256, "K": 256, "N": 256}
