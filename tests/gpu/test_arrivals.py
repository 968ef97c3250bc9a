"""Losses that the last block of a kernel adds up: kernels that run at a time count their blocks apart."""

import pytest
import torch

import kernellab as kl

pytestmark = pytest.mark.gpu


def loss_of(impl, logits, target):
    return kl.ops.cross_entropy[impl](logits, target, reduction="sum")


@pytest.fixture(params=["triton", "cuda"])
def impl(request):
    return request.param


@pytest.fixture
def batches():
    """Of whole numbers in narrow rows, whose losses are the same in any order, but for their rounding."""
    generator = torch.Generator("cuda").manual_seed(0)
    logits = torch.randint(-8, 8, (8, 4096, 512), generator=generator, device="cuda").float()
    targets = torch.randint(0, 512, (8, 4096), generator=generator, device="cuda")
    return list(zip(logits, targets, strict=True))


def test_streams_at_a_time(impl, batches):
    expected = [loss_of("torch", *batch) for batch in batches]
    streams = [torch.cuda.Stream() for _ in batches]
    torch.cuda.synchronize()
    for _ in range(20):
        losses = []
        for stream, batch in zip(streams, batches, strict=True):
            with torch.cuda.stream(stream):
                losses.append(loss_of(impl, *batch))
        torch.cuda.synchronize()
        torch.testing.assert_close(losses, expected)


def test_a_graph_is_replayed_beside_other_kernels(impl, batches):
    (logits, target), *others = batches
    loss_of(impl, logits, target)  # compiles
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        captured = loss_of(impl, logits, target)
    expected = loss_of("torch", logits, target)
    stream = torch.cuda.Stream()
    for _ in range(20):
        with torch.cuda.stream(stream):
            graph.replay()
        beside = [loss_of(impl, *batch) for batch in others]
        torch.cuda.synchronize()
        torch.testing.assert_close(captured, expected)
        torch.testing.assert_close(beside, [loss_of("torch", *batch) for batch in others])
