"""The rule that decides whether a result is right: strict enough for zeros, fair to rounding."""

import math

import pytest
import torch

import kernellab as kl
from kernellab.accuracy.errors import measure, nonfinite_mismatch, passes
from kernellab.accuracy.outputs import as_tensors
from kernellab.declaration import inputs
from kernellab.declaration.case_request import CaseRequest
from kernellab.declaration.targets import shipped_names

DTYPES = ["float32", "float16", "bfloat16"]


# By the number of dims; `...` stands for one.
SHAPES = {2: (48, 64), 3: (48, 32, 40), 5: (2, 6, 8, 40, 3), 6: (2, 4, 24, 16, 2, 32)}


def _results(name, dtype):
    """(result, oracle) for each tensor that an op returns, and whether each row has a scale of its own."""
    op = getattr(kl.ops, name)
    options = {"reduction": ["none"]} if "reduction" in op.all_options() else {}  # a scalar is its own mean
    (case,) = op.expand(CaseRequest(shapes=[SHAPES[len(op.dims)]], dtypes=[dtype], options=options), "cpu")
    made = inputs.make_inputs(op, case, seed=3)
    oracle = as_tensors(inputs.call(op, op.reference, inputs.upcast(made), case))
    ready_made = "torch" in op.impls and not op["torch"].random
    own = as_tensors(inputs.call(op, op["torch" if ready_made else "manual"], made, case))
    return list(zip(own, oracle, strict=True)), bool(op.reduces)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", shipped_names())
def test_zeros_the_mean_and_a_permutation_are_wrong_for_every_shipped_op(name, dtype):
    results, rowwise = _results(name, dtype)
    for own, oracle in results:
        peer = measure(own, oracle, rowwise=rowwise)
        assert passes(peer, peer)
        shuffled = own.flatten()[torch.randperm(own.numel())].view_as(own)
        for fake in (torch.zeros_like(own), torch.full_like(own, own.float().mean().item()), shuffled):
            assert not passes(measure(fake, oracle, rowwise=rowwise), peer)


def test_one_wrong_element_among_many_is_wrong():
    [(own, oracle)], _ = _results("gelu", "float32")
    peer = measure(own, oracle, rowwise=False)
    spoiled = own.clone()
    spoiled[7, 9] += 1e-3
    errors = measure(spoiled, oracle, rowwise=False)
    assert not passes(errors, peer)
    assert errors.at == (7, 9)
    assert errors.max_abs == pytest.approx(1e-3, rel=1e-2)


def test_many_slightly_wrong_elements_are_wrong_by_the_quantile():
    oracle = torch.randn(1000, 1000, dtype=torch.float64)
    oracle[0, 0] = 5
    peers = oracle.float()
    peers[0, 0] *= 1 + 100 * torch.finfo(torch.float32).eps  # the peer has one outlier of its own
    result = oracle.float() * (1 + 20 * torch.finfo(torch.float32).eps)
    peer, errors = (measure(y, oracle, rowwise=False) for y in (peers, result))
    assert errors.max <= 2 * peer.max + 4
    assert not passes(errors, peer)


def test_each_row_has_its_own_scale():
    oracle = torch.tensor([[1e-6, 2e-6], [1.0, 2.0]], dtype=torch.float64)
    fake = oracle.float()
    fake[0] = 0
    assert measure(fake, oracle, rowwise=False).max < 100  # lost beside the large row
    assert measure(fake, oracle, rowwise=True).max > 1e5


def test_nan_and_inf_must_occur_where_the_oracle_has_them():
    oracle = torch.tensor([1.0, math.nan, math.inf, -math.inf], dtype=torch.float64)
    assert nonfinite_mismatch(oracle.float(), oracle, None) is None
    for place in range(1, 4):
        bad = oracle.float()
        bad[place] = 0
        assert "NaN or inf" in nonfinite_mismatch(bad, oracle, None)
    finite = torch.ones(4, dtype=torch.float64)
    assert "at [2] nan, should be 1" in nonfinite_mismatch(torch.tensor([1, 1, math.nan, 1]), finite, None)


def test_overflow_that_the_peer_shares_is_accepted():
    oracle = torch.tensor([1e6, 1.0], dtype=torch.float64)  # inf in float16
    y = oracle.half()
    assert nonfinite_mismatch(y, oracle, None) is None
    peer = torch.tensor([math.nan, 1.0]).half()
    assert nonfinite_mismatch(peer.clone(), oracle, peer) is None
    assert nonfinite_mismatch(peer.clone(), oracle, None) is not None


@pytest.mark.parametrize("shape", [(), (0,), (3, 0), (1,), (2, 3, 4)])
def test_any_shape_can_be_measured(shape):
    oracle = torch.randn(shape, dtype=torch.float64)
    errors = measure(oracle.float(), oracle, rowwise=True)
    assert errors.max <= 0.51


def test_the_quantile_sees_every_column():
    oracle = torch.ones(1 << 20, 5, dtype=torch.float64)
    y = oracle.float()
    y[:, 1:] *= 1 + 8 * torch.finfo(torch.float32).eps
    assert measure(y, oracle, rowwise=False).q999 > 7


def test_values_that_the_dtype_cannot_hold_do_not_set_the_scale():
    oracle = torch.ones(100, dtype=torch.float64)
    oracle[3] = 1e60
    zeros = torch.zeros(100)
    zeros[3] = float("inf")
    assert measure(zeros, oracle, rowwise=False).max > 1e6
    assert measure(zeros, oracle, rowwise=True).max > 1e6
