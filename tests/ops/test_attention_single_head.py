"""The autograd function of one head: PyTorch's results over batch × sequence × dim."""

import pytest
import torch
import torch.nn.functional as F

from kernellab.ops.attention.single_head import SingleHeadAttention
from support.functional_calls import outcome, values


@pytest.mark.parametrize("is_causal", [False, True])
@pytest.mark.parametrize(("queries", "keys"), [(150, 150), (5, 300), (140, 7)])
def test_results_and_gradients_are_pytorchs(queries, keys, is_causal):
    inputs = [values(2, length, 16, seed=seed).double() for seed, length in enumerate((queries, keys, keys))]
    ours = outcome(inputs, lambda q, k, v: SingleHeadAttention.apply(q, k, v, is_causal))
    theirs = outcome(inputs, lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=is_causal))
    torch.testing.assert_close(ours, theirs)


def test_one_number_for_each_query_is_saved_and_none_for_a_pair():
    q, k, v = (values(2, length, 16, seed=seed).requires_grad_() for seed, length in enumerate((30, 40, 40)))
    y = SingleHeadAttention.apply(q, k, v)
    saved = y.grad_fn.saved_tensors
    assert [tuple(x.shape) for x in saved] == [(2, 30, 16), (2, 40, 16), (2, 40, 16), (2, 30, 16), (2, 30)]
    torch.testing.assert_close(saved[-1], (q @ k.transpose(-1, -2) / 4).logsumexp(-1))


def test_it_needs_the_gradient_of_one_input_alone():
    q, k, v = (values(1, 9, 8, seed=seed) for seed in range(3))
    k.requires_grad_()
    (gradient,) = torch.autograd.grad(SingleHeadAttention.apply(q, k, v, True).sum(), k)
    (expected,) = torch.autograd.grad(F.scaled_dot_product_attention(q, k, v, is_causal=True).sum(), k)
    torch.testing.assert_close(gradient, expected)
