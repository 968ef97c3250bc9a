"""kernellab.functional on a GPU: PyTorch's results, autocast, CUDA graphs, compiled code."""

import pytest
import torch
import torch.distributed as dist
from torch.utils.checkpoint import checkpoint

import kernellab as kl
from kernellab.library.rules import shipped_name
from kernellab.library.tables import architecture
from support.functional_calls import REFERENCES, assert_as_exact, calls, outcome
from support.models import gradients, make_batch, make_model
from support.serving import OPERATORS, own_table, rule

pytestmark = pytest.mark.gpu
K = kl.functional
DTYPES = [torch.float32, torch.bfloat16]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", calls())
def test_results_and_gradients_are_as_exact_as_pytorchs(name, dtype):
    function = name.split()[0]
    reference = kl.ops.rope if function == "rope" else REFERENCES[function]  # complex numbers have no bfloat16
    inputs, call = calls(device="cuda", dtype=dtype)[name](getattr(K, function))
    _, reference_call = calls(device="cuda", dtype=dtype)[name](reference)
    ours, theirs = outcome(inputs, call), outcome(inputs, reference_call)
    assert_as_exact(ours, theirs, outcome([x.double() for x in inputs], reference_call, dtype))
    if function not in ("rope", "add_rms_norm"):
        assert [y.stride() for y in ours[0]] == [y.stride() for y in theirs[0]]


def test_more_elements_than_32_bits_count_are_served():
    x = torch.randn(32769, 65536, device="cuda", dtype=torch.bfloat16)
    assert x.numel() > 1 << 31
    for function in (lambda module, x: module.gelu(x), lambda module, x: module.softmax(x, -1)):
        y = function(K, x)
        for rows in (slice(0, 2), slice(-2, None)):
            torch.testing.assert_close(y[rows], function(torch.nn.functional, x[rows]))
        del y


@pytest.mark.parametrize("name", ["gelu", "softmax", "layer_norm", "rms_norm", "add_rms_norm", "cross_entropy"])
@pytest.mark.parametrize("dtype", DTYPES)
def test_autocast_gives_the_dtypes_that_it_gives_pytorchs_functions(name, dtype):
    inputs, call = calls(device="cuda", dtype=dtype)[name](getattr(K, name))
    _, reference = calls(device="cuda", dtype=dtype)[name](REFERENCES[name])
    with torch.autocast("cuda", torch.bfloat16):
        (ours, ours_gradients), (theirs, theirs_gradients) = outcome(inputs, call), outcome(inputs, reference)
    assert [y.dtype for y in (*ours, *ours_gradients)] == [y.dtype for y in (*theirs, *theirs_gradients)]


def test_under_autocast_a_norm_with_parameters_of_float32_is_served_by_the_kernels():
    x = torch.randn(4, 16, device="cuda", dtype=torch.bfloat16)
    weight = torch.randn(16, device="cuda")
    with torch.autocast("cuda", torch.bfloat16), torch.profiler.profile() as recording:
        y = K.layer_norm(x, (16,), weight)
    assert y.dtype == torch.float32
    assert "kernellab::layer_norm" in {event.key for event in recording.key_averages()}


def test_float64_is_pytorchs():
    x = torch.randn(4, 16, device="cuda", dtype=torch.float64)
    assert not any(operator.serves(x) for operator in OPERATORS.values())
    torch.testing.assert_close(K.softmax(x, -1), torch.softmax(x, -1))


@pytest.mark.parametrize("width", [1, 1000, 4096, 50257, 262144])
def test_rows_of_any_width_are_served(width):
    x = torch.randn(3, width, device="cuda", dtype=torch.bfloat16, requires_grad=True)
    assert OPERATORS["softmax"].serves(x)
    torch.testing.assert_close(K.softmax(x, -1), torch.softmax(x, -1))
    weight = torch.ones(width, device="cuda", dtype=torch.bfloat16)
    ours, theirs = K.rms_norm(x, (width,), weight, 1e-6), REFERENCES["rms_norm"](x, (width,), weight, 1e-6)
    torch.testing.assert_close(ours, theirs)


def model_on_gpu():
    return make_model().cuda(), [t.cuda() for t in make_batch()]


def test_a_step_of_a_model_is_captured_in_a_cuda_graph_and_replayed_on_other_values():
    model, batch = model_on_gpu()
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):  # kernels are compiled before the capture
        for _ in range(2):
            gradients(model, *batch)
    torch.cuda.current_stream().wait_stream(side)
    model.zero_grad()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        model(*batch).backward()
    for static, fresh in zip(batch, make_batch(seed=2), strict=True):
        static.copy_(fresh)
    graph.replay()
    replayed = {name: p.grad.clone() for name, p in model.named_parameters()}
    torch.testing.assert_close(replayed, gradients(make_model().cuda(), *batch))


def test_a_model_is_compiled_by_inductor_as_one_graph():
    model, batch = model_on_gpu()
    expected = gradients(model, *batch)
    model.compile(fullgraph=True)
    torch.testing.assert_close(gradients(model, *batch), expected, rtol=1e-4, atol=1e-5)


def test_one_process_shards_a_model_on_its_gpu(tmp_path):
    from torch.distributed.fsdp import fully_shard

    model, batch = model_on_gpu()
    expected = gradients(model, *batch)
    dist.init_process_group("nccl", init_method=f"file://{tmp_path / 'store'}", rank=0, world_size=1)
    try:
        sharded = fully_shard(make_model().cuda())
        sharded(*batch).backward()
        actual = {name: p.grad.full_tensor() for name, p in sharded.named_parameters()}
    finally:
        dist.destroy_process_group()
    torch.testing.assert_close(actual, expected)


def test_dropout_follows_the_generator_of_the_gpu_and_moves_it_on():
    x, residual = torch.ones(64, 256, device="cuda"), torch.zeros(64, 256, device="cuda")
    torch.manual_seed(3)
    first, second = (K.dropout_add(x, residual, 0.5) for _ in range(2))
    torch.manual_seed(3)
    assert torch.equal(K.dropout_add(x, residual, 0.5), first)
    for y in (first, second):
        assert abs((y == 2).float().mean().item() - 0.5) < 6 * (0.25 / x.numel()) ** 0.5
    assert not torch.equal(first, second)
    leaf = x.clone().requires_grad_()
    y = checkpoint(lambda x: K.dropout_add(x, residual, 0.5), leaf, use_reentrant=False)
    y.sum().backward()
    assert torch.equal(leaf.grad, y.detach())


def test_every_replay_of_a_cuda_graph_drops_other_elements():
    x, residual = torch.ones(64, 256, device="cuda"), torch.zeros(64, 256, device="cuda")
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = K.dropout_add(x, residual, 0.5)
    replays = []
    for _ in range(2):
        graph.replay()
        replays.append(y.clone())
    assert not torch.equal(*replays)


# Attention ---------------------------------------------------------------------------------------------


def heads(*lengths, dtype=torch.bfloat16):
    """Projections of these numbers of tokens with 8 heads, the others with 2 that share them."""
    generator = torch.Generator(device="cuda").manual_seed(0)
    return [
        torch.randn(2, length, 8 if place == 0 else 2, 64, device="cuda", generator=generator).to(dtype).transpose(1, 2)
        for place, length in enumerate(lengths)
    ]


@pytest.fixture
def triton_attends():
    """A table for this GPU that leaves attention to our kernels."""
    name = shipped_name(architecture(torch.device("cuda", torch.cuda.current_device())))
    with own_table(rule("attention", "triton", "triton"), name=name):
        yield


def test_attention_is_pytorchs_by_the_shipped_table():
    q, k, v = heads(128, 128, 128)
    assert not OPERATORS["attention"].serves(q)
    options = {"is_causal": True, "enable_gqa": True}
    theirs = torch.nn.functional.scaled_dot_product_attention(q, k, v, **options)
    assert torch.equal(K.scaled_dot_product_attention(q, k, v, **options), theirs)


@pytest.mark.parametrize("dtype", [*DTYPES, torch.float16], ids=str)
@pytest.mark.parametrize("case", ["causal", "longer keys", "a mask", "a bool mask"])
def test_attention_by_our_kernels_is_as_exact_as_pytorchs(case, dtype, triton_attends):
    q, k, v = heads(200, *[333 if case == "longer keys" else 200] * 2, dtype=dtype)
    kept = torch.rand(200, 200, device="cuda", generator=torch.Generator(device="cuda").manual_seed(1)) < 0.7
    mask = {"a mask": torch.where(kept, 0.5, -1.0).to(dtype), "a bool mask": kept}.get(case)
    assert OPERATORS["attention"].serves(q)

    def call(function):
        def attend(q, k, v):
            bias = mask.to(q.dtype) if case == "a mask" else mask
            return function(q, k, v, bias, is_causal=case == "causal", scale=0.1, enable_gqa=True)

        return attend

    ours, theirs = call(K.scaled_dot_product_attention), call(torch.nn.functional.scaled_dot_product_attention)
    exact = outcome([x.double() for x in (q, k, v)], theirs, dtype)
    results = outcome((q, k, v), ours)
    assert_as_exact(results, outcome((q, k, v), theirs), exact)
    assert results[0][0].stride() == q.stride()
    again = outcome((q, k, v), ours)
    assert all(torch.equal(x, y) for x, y in zip((*results[0], *results[1]), (*again[0], *again[1]), strict=True))


def test_a_query_that_sees_no_key_gives_0(triton_attends):
    q, k, v = heads(100, 100, 100)
    mask = torch.ones(100, 100, dtype=torch.bool, device="cuda")
    mask[[0, 40, 99]] = False
    (y,), gradients = outcome((q, k, v), lambda *x: K.scaled_dot_product_attention(*x, mask, enable_gqa=True))
    assert not y[:, :, [0, 40, 99]].any()
    assert all(x.isfinite().all() for x in gradients)


def test_attention_is_captured_in_a_cuda_graph_and_compiled_by_inductor(triton_attends):
    inputs = [x.requires_grad_() for x in heads(128, 128, 128)]

    def attend(q, k, v):
        return K.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)

    expected = outcome(inputs, attend)
    torch.testing.assert_close(outcome(inputs, torch.compile(attend, fullgraph=True)), expected)
    graph = torch.cuda.CUDAGraph()
    with torch.no_grad(), torch.cuda.graph(graph):
        y = attend(*inputs)
    graph.replay()
    assert torch.equal(y, expected[0][0])
