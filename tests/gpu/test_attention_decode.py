"""Attention of a few queries on a GPU: keys split over programs, and what is added up."""

import pytest
import torch

import kernellab as kl
from kernellab.ops.attention import decode
from kernellab.ops.attention.settings import Settings
from support.functional_calls import assert_as_exact

pytestmark = pytest.mark.gpu
# batch, heads, groups, queries, keys, columns
SIZES = [
    (1, 32, 8, 1, 8192, 128),
    (4, 8, 8, 1, 131072, 64),
    (16, 32, 32, 1, 2048, 80),
    (1, 16, 1, 16, 5001, 256),
    (2, 6, 2, 3, 257, 40),
    (64, 32, 4, 1, 1, 128),
]


def make(size, dtype):
    batch, heads, groups, queries, keys, columns = size
    generator = torch.Generator(device="cuda").manual_seed(0)
    shapes = (batch, heads, queries, columns), *[(batch, groups, keys, columns)] * 2
    return [torch.randn(shape, device="cuda", generator=generator).to(dtype) for shape in shapes]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("causal", [None, "bottom_right"])
@pytest.mark.parametrize("size", SIZES, ids=str)
def test_results_are_as_exact_as_pytorchs(size, causal, dtype):
    inputs = make(size, dtype)
    op = kl.ops.attention
    ours, theirs = (op[impl](*inputs, causal=causal) for impl in ("triton-decode", "torch"))
    exact = op["tiled"](*(x.double() for x in inputs), causal=causal)
    assert_as_exact(((ours,), ()), ((theirs,), ()), ((exact,), ()))


def test_the_keys_of_few_heads_are_split_and_a_repetition_gives_the_same_bits():
    q, k, v = make(SIZES[0], torch.bfloat16)
    splits, _ = decode._split(k.shape[2], 64, k.shape[1], q.device)
    assert splits > 8
    y, lse = decode.forward(q, k, v, None, Settings())
    for _ in range(5):
        again = decode.forward(q, k, v, None, Settings())
        assert torch.equal(y, again[0])
        assert torch.equal(lse, again[1])


def test_a_step_is_captured_in_a_cuda_graph_and_replayed_on_other_values():
    q, k, v = make(SIZES[0], torch.bfloat16)
    attend = kl.ops.attention["triton-decode"]
    attend(q, k, v)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = attend(q, k, v)
    q.copy_(torch.randn_like(q))
    k.copy_(torch.randn_like(k))
    graph.replay()
    assert torch.equal(y, attend(q, k, v))
