"""Repeated calls on a GPU: real launches, streams, graphs, threads, and their host time."""

import gc
import statistics
import threading
import time

import pytest
import torch
import torch.nn.functional as F

import kernellab as kl
from kernellab.launcher import build
from kernellab.launcher.repetition import LAUNCHER
from kernellab.library.rules import shipped_name
from kernellab.library.tables import architecture
from support.functional_calls import REFERENCES, assert_as_exact, calls, outcome
from support.models import gradients, make_batch, make_model
from support.serving import OPERATORS, own_table, rule

pytestmark = pytest.mark.gpu
K = kl.functional
DTYPES = [torch.float32, torch.bfloat16]
NOT_REPEATED = "softmax before ones"


@pytest.fixture(autouse=True, scope="module")
def _launcher():
    failed = build.target().failed
    assert LAUNCHER.wait_until_built(300), failed.read_text() if failed.exists() else "not built"


def repeated(call):
    """How many forward and backward passes a call repeats."""
    before = LAUNCHER.extension.repeated_passes()
    call()
    return tuple(after - start for after, start in zip(LAUNCHER.extension.repeated_passes(), before, strict=True))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", [name for name in calls() if name != NOT_REPEATED])
def test_repeated_results_and_gradients_are_as_exact_as_pytorchs(name, dtype):
    function = name.split()[0]
    reference = kl.ops.rope if function == "rope" else REFERENCES[function]
    inputs, call = calls(device="cuda", dtype=dtype)[name](getattr(K, function))
    _, reference_call = calls(device="cuda", dtype=dtype)[name](reference)
    theirs, exact = outcome(inputs, reference_call), outcome([x.double() for x in inputs], reference_call, dtype)
    for _ in range(8):
        assert_as_exact(outcome(inputs, call), theirs, exact)
    assert repeated(lambda: outcome(inputs, call)) == (1, 1)


@pytest.mark.parametrize("width", [8192, 65536])
def test_launches_with_clusters_and_much_shared_memory_are_repeated(width):
    rules = "".join(rule(op, "cuda", "cuda") for op in OPERATORS)
    x = torch.randn(16, width, device="cuda", dtype=torch.bfloat16, requires_grad=True)
    weight = torch.randn(width, device="cuda", dtype=torch.bfloat16, requires_grad=True)
    upstream = torch.randn_like(x)
    with own_table(rules, shipped_name(architecture(x.device))):
        for function in (lambda m: m.softmax(x, -1), lambda m: m.layer_norm(x, (width,), weight, weight)):
            for _ in range(6):
                ours = function(K)
                actual = torch.autograd.grad(ours, x, upstream)
            assert ours.grad_fn.name().startswith("kernellab::")
            theirs = function(F)
            torch.testing.assert_close(ours, theirs, rtol=0.02, atol=0.02)
            torch.testing.assert_close(actual, torch.autograd.grad(theirs, x, upstream), rtol=0.05, atol=0.05)


def test_the_shared_memory_of_a_recorded_launch_is_not_taken_away_by_others():
    """Rows of other widths launch the same kernel with other amounts of shared memory."""
    rules = "".join(rule(op, "cuda", "cuda") for op in OPERATORS)
    xs = [torch.randn(16, width, device="cuda", dtype=torch.bfloat16, requires_grad=True) for width in (16384, 10240)]
    with own_table(rules, shipped_name(architecture(xs[0].device))):
        for _ in range(5):
            for x in xs:
                y = K.rms_norm(x, x.shape[-1:], None, 1e-6)
                (actual,) = torch.autograd.grad(y, x, torch.ones_like(y))
                theirs = F.rms_norm(x, x.shape[-1:], None, 1e-6)
                expected = torch.autograd.grad(theirs, x, torch.ones_like(y))[0]
                torch.testing.assert_close(actual, expected, rtol=0.05, atol=0.05)


def warm(x):
    for _ in range(5):
        y = K.gelu(x)
        if x.requires_grad:
            torch.autograd.grad(y, x, torch.ones_like(y))
    return y


def test_repeated_calls_are_made_on_the_current_stream():
    x = torch.zeros(1024, device="cuda")
    warm(x)
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        torch.cuda._sleep(20_000_000)
        x.fill_(1.0)
        y = []
        assert repeated(lambda: y.append(K.gelu(x))) == (1, 0)
    stream.synchronize()
    torch.testing.assert_close(y[0], F.gelu(torch.ones(1024, device="cuda")))


def test_the_first_cuda_call_of_a_thread_may_be_a_repeated_one():
    x = torch.randn(1024, device="cuda", requires_grad=True)
    warm(x)
    results = []

    def work():
        y = K.gelu(x)
        results.append((y, *torch.autograd.grad(y, x, torch.ones_like(y))))

    thread = threading.Thread(target=work)
    assert repeated(lambda: (thread.start(), thread.join(60))) == (1, 1)
    y = F.gelu(x)
    torch.testing.assert_close(results, [(y, *torch.autograd.grad(y, x, torch.ones_like(y)))])


def test_threads_share_recorded_calls():
    failures = []

    def work(number):
        try:
            stream = torch.cuda.Stream()
            with torch.cuda.stream(stream):
                for turn in range(50):
                    x = torch.randn(1 + turn % 4, 128, device="cuda").requires_grad_()
                    target = torch.zeros(len(x), dtype=torch.int64, device="cuda")
                    loss = K.cross_entropy(K.softmax(x, -1), target)
                    expected = F.cross_entropy(F.softmax(x, -1), target)
                    torch.testing.assert_close(loss, expected)
                    torch.testing.assert_close(*(torch.autograd.grad(t, x)[0] for t in (loss, expected)))
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert not failures


def test_repeated_calls_are_captured_in_a_cuda_graph():
    model, batch = make_model().cuda(), [t.cuda() for t in make_batch()]
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(8):
            gradients(model, *batch)
    torch.cuda.current_stream().wait_stream(side)
    model.zero_grad()
    graph = torch.cuda.CUDAGraph()
    before = LAUNCHER.extension.repeated_passes()
    with torch.cuda.graph(graph):
        model(*batch).backward()
    after = LAUNCHER.extension.repeated_passes()
    assert after[0] - before[0] >= 10
    assert after[1] - before[1] >= 10
    for static, fresh in zip(batch, make_batch(seed=2), strict=True):
        static.copy_(fresh)
    for _ in range(3):
        graph.replay()
    replayed = {name: p.grad.clone() for name, p in model.named_parameters()}
    LAUNCHER.forget()
    torch.testing.assert_close(replayed, gradients(make_model().cuda(), *batch))


def test_under_autocast_calls_are_repeated_with_the_dtypes_of_the_ordinary_call():
    x = torch.randn(8, 128, device="cuda", dtype=torch.bfloat16)
    weight = torch.randn(128, device="cuda")
    with torch.autocast("cuda", torch.bfloat16):
        for _ in range(5):
            assert K.gelu(x).dtype is torch.bfloat16
            assert K.layer_norm(x, (128,), weight).dtype is torch.float32
        assert repeated(lambda: K.gelu(x)) == (1, 0)


def test_memory_is_given_back():
    x = torch.randn(8, 128, device="cuda", requires_grad=True)
    warm(x)
    gc.collect()
    before = torch.cuda.memory_allocated()
    for _ in range(1000):
        y = K.gelu(x)
        torch.autograd.grad(y, x, torch.ones_like(y))
    del y
    gc.collect()
    assert torch.cuda.memory_allocated() <= before


def test_a_profile_shows_the_operator_with_its_kernel():
    x = torch.randn(8, 128, device="cuda", requires_grad=True)
    warm(x)
    activities = [torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA]
    with torch.profiler.profile(activities=activities) as recording:
        y = K.gelu(x)
        y.backward(torch.ones_like(y))
        torch.cuda.synchronize()
    names = [event.key for event in recording.key_averages()]
    assert {"kernellab::gelu", "kernellab::gelu_backward"} <= set(names)
    assert sum("map_flat" in name for name in names) == 2  # the kernels of both


@pytest.mark.clocked
def test_a_call_takes_at_most_1_3_times_the_host_time_of_pytorchs():
    x = torch.randn(8, 128, device="cuda", dtype=torch.bfloat16)
    for _ in range(10):
        K.gelu(x), F.gelu(x)
    ratios = []
    for _ in range(25):
        times = []
        for function in (K.gelu, F.gelu):
            torch.cuda.synchronize()
            begin = time.perf_counter()
            for _ in range(50):
                function(x)
            times.append(time.perf_counter() - begin)
        ratios.append(times[0] / times[1])
    assert statistics.median(ratios) <= 1.3
