"""Calls that were recorded are repeated with the results of the ordinary way, and only where nothing is bypassed."""

import functools
import gc
import threading
import weakref

import pytest
import torch
import torch.nn.functional as F
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.checkpoint import checkpoint

import kernellab as kl
from kernellab.build import cuda
from kernellab.capture.standin_cuda import replace_attribute
from support.functional_calls import LAYOUTS, REFERENCES, calls, outcome, values
from support.models import gradients, make_batch, make_model
from support.serving import REPEATED, own_table, rule

K = kl.functional
USUAL = ("gelu", "swiglu", "softmax", "layer_norm", "add_rms_norm", "cross_entropy", "rope")
# A view of the input goes to the op, not the input.
NOT_REPEATED = "softmax before ones"
REPEATABLE = [name for name in calls() if name.split()[0] in REPEATED and name != NOT_REPEATED]
OTHERS = [name for name in REPEATABLE if name not in USUAL]
NAMES = [*USUAL, *(pytest.param(name, marks=pytest.mark.exhaustive) for name in OTHERS)]


def run(name):
    """The results and gradients of a call, and those of PyTorch."""
    function = name.split()[0]
    ours, theirs = (outcome(*calls()[name](f)) for f in (getattr(K, function), REFERENCES[function]))
    torch.testing.assert_close(ours, theirs, equal_nan=True)
    return ours


@pytest.mark.parametrize("name", NAMES)
def test_results_and_gradients_are_those_of_pytorch_in_every_call(name, kernels, standin, request, repeated):
    kernels(name)
    request.getfixturevalue("driver")
    for _ in range(6):
        before = standin.launches
        run(name)
        assert standin.launches > before
    # The first two calls are made and recorded, and so are the first two of those that have the launcher's backward.
    stream_is_learnt = name in ("cross_entropy", "cross_entropy sum")
    forward, backward = repeated(lambda: [run(name) for _ in range(3 if stream_is_learnt else 1)])
    assert forward == backward == (3 if stream_is_learnt else 1)


def repeat_gelu(x, times=5, f=K.gelu):
    for _ in range(times):
        y = f(x)
        if y.requires_grad:
            torch.autograd.grad(y, x, torch.ones(x.shape))
    return y


@pytest.fixture
def x(kernels, request):
    """An input of gelu, whose calls are repeated."""
    kernels("gelu", lambda: repeat_gelu(values(97)[1:].requires_grad_(), 1))
    request.getfixturevalue("driver")
    x = values(6, 16).requires_grad_()
    repeat_gelu(x)
    return x


def test_what_was_recorded_is_repeated_on_other_values_of_the_same_form(x, repeated):
    other = values(6, 16, seed=7).requires_grad_()
    y = []
    assert repeated(lambda: y.append(K.gelu(other))) == (1, 0)
    torch.testing.assert_close(y[0], F.gelu(other))
    assert repeated(lambda: y.append(torch.autograd.grad(y[0], other, torch.ones(6, 16)))) == (0, 1)
    torch.testing.assert_close(y[1], torch.autograd.grad(F.gelu(other), other, torch.ones(6, 16)))
    assert K.gelu(torch.nn.Parameter(other.detach())).grad_fn.name() == "kernellab::gelu_backward"


@pytest.mark.parametrize(
    "other",
    [
        lambda: values(96)[:96],
        lambda: values(97)[1:],  # not aligned to 16 bytes
        lambda: values(16, 6).t(),
    ],
)
def test_another_form_is_another_call(x, other, repeated):
    z = other().requires_grad_()
    assert repeated(lambda: repeat_gelu(z, 2)) == (0, 0)
    assert repeated(lambda: K.gelu(z)) == (1, 0)
    torch.testing.assert_close(K.gelu(z), F.gelu(z))


def test_the_same_tensor_as_both_inputs_is_repeated_on_two(kernels, request):
    kernels("swiglu")
    request.getfixturevalue("driver")
    gate, up = values(6, 16), values(6, 16, seed=1)
    for _ in range(3):
        torch.testing.assert_close(K.swiglu(gate, gate), F.silu(gate) * gate)
    torch.testing.assert_close(K.swiglu(gate, up), F.silu(gate) * up)


class Seen(TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.names = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.names.append(str(func))
        return func(*args, **(kwargs or {}))


def test_a_dispatch_mode_sees_the_operators(x, repeated):
    with Seen() as mode:
        assert repeated(lambda: K.gelu(x)) == (0, 0)
    assert "kernellab.gelu.default" in mode.names
    y = K.gelu(x)
    with Seen() as mode:
        assert repeated(lambda: y.sum().backward()) == (0, 0)
    assert "kernellab.gelu_backward.default" in mode.names


def test_a_function_mode_sees_the_operators(x, repeated):
    seen = []

    class Mode(torch.overrides.TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            seen.append(str(func))
            return func(*args, **(kwargs or {}))

    with Mode():
        assert repeated(lambda: K.gelu(x)) == (0, 0)
    assert "kernellab.gelu.default" in seen


def test_fake_tensors_are_not_computed(x, repeated):
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode() as mode:
        fake = mode.from_tensor(x)
        assert repeated(lambda: K.gelu(fake)) == (0, 0)
        assert type(K.gelu(fake)) is type(fake)
    assert repeated(lambda: K.gelu(fake)) == (0, 0)


def test_transforms_and_forward_derivatives_are_pytorchs(x, repeated):
    plain = x.detach()
    expected = torch.func.grad(lambda t: F.gelu(t).sum())(plain)
    results = []
    assert repeated(lambda: results.append(torch.func.grad(lambda t: K.gelu(t).sum())(plain))) == (0, 0)
    torch.testing.assert_close(results[0], expected)
    assert repeated(lambda: results.append(torch.func.jvp(K.gelu, (plain,), (plain,)))) == (0, 0)
    torch.testing.assert_close(results[1], torch.func.jvp(F.gelu, (plain,), (plain,)))
    with pytest.raises(RuntimeError, match=r"kernellab.functional.gelu cannot be used inside torch.vmap: call it on"):
        torch.vmap(K.gelu)(plain)


def test_a_subclass_of_tensors_is_pytorchs(x, repeated):
    class Logged(torch.Tensor):
        pass

    logged = x.detach().as_subclass(Logged)
    assert repeated(lambda: K.gelu(logged)) == (0, 0)
    assert type(K.gelu(logged)) is Logged


def test_lazily_negated_tensors_are_not_misread(x):
    negated = torch._neg_view(x.detach())
    for _ in range(4):
        torch.testing.assert_close(K.gelu(negated), F.gelu(negated))


def test_compiled_code_has_the_operator(x):
    torch._dynamo.reset()
    names = []

    def backend(graph, inputs):
        names.extend(str(node.target) for node in graph.graph.nodes)
        return graph.forward

    compiled = torch.compile(lambda t: K.gelu(t) + 1, fullgraph=True, backend=backend)
    torch.testing.assert_close(compiled(x), F.gelu(x) + 1)
    assert any("gelu" in name for name in names)


def test_memory_is_filled_where_torch_is_asked_to(x, repeated, monkeypatch):
    monkeypatch.setattr(torch.utils.deterministic, "fill_uninitialized_memory", True)
    torch.use_deterministic_algorithms(True)
    try:
        assert repeated(lambda: K.gelu(x)) == (0, 0)
    finally:
        torch.use_deterministic_algorithms(False)
    assert repeated(lambda: K.gelu(x)) == (1, 0)


def test_launches_that_are_captured_are_not_made(x, standin):
    captured = []
    before = standin.launches
    with replace_attribute(cuda, "interceptor", lambda kernel, *_: captured.append(kernel.name)):
        K.gelu(x)
    assert len(captured) == 1
    assert standin.launches == before


def test_autocast_casts_as_for_the_ordinary_call(kernels, request):
    kernels("cross_entropy")
    request.getfixturevalue("driver")
    logits, target = values(6, 16).bfloat16(), torch.arange(6)
    for _ in range(4):
        with torch.autocast("cpu", torch.bfloat16):
            loss = K.cross_entropy(logits, target)
        assert loss.dtype is torch.float32
    assert F.cross_entropy(logits, target).dtype is torch.bfloat16


def test_a_kernel_that_others_register_for_an_operator_is_used(x, extension, repeated):
    before = set(torch.library._impls)
    with torch.library._scoped_library("kernellab", "IMPL") as library:
        library.impl("gelu", lambda x, approximate: torch.full_like(x, 42.0), "AutogradCPU")
        assert repeated(lambda: K.gelu(x)) == (0, 0)
        assert K.gelu(x).eq(42.0).all()
    torch.library._impls.intersection_update(before)


# Autograd -----------------------------------------------------------------------------------------------


def test_no_graph_is_made_where_none_is_needed(x, repeated):
    for _ in range(3):
        with torch.no_grad():
            assert not K.gelu(x).requires_grad
        with torch.inference_mode():
            y = K.gelu(x)
        assert y.is_inference()
    torch.testing.assert_close(y.clone(), F.gelu(x.detach()))
    with torch.no_grad():
        assert repeated(lambda: K.gelu(x)) == (1, 0)
    with torch.inference_mode():
        assert repeated(lambda: K.gelu(x)) == (1, 0)


def test_a_tensor_of_inference_mode_cannot_be_saved_as_in_pytorch(kernels, request):
    kernels("swiglu")
    request.getfixturevalue("driver")
    with torch.inference_mode():
        gate = values(6, 16)
    up = values(6, 16, seed=1).requires_grad_()
    for _ in range(2):
        K.swiglu(gate.clone(), up)
    for f in (K.swiglu, lambda gate, up: gate * up, K.swiglu):
        with pytest.raises(RuntimeError, match="Inference tensors cannot be saved for backward"):
            f(gate, up)


def test_a_saved_input_that_was_changed_in_place_is_an_error(x):
    z = (x * 1).requires_grad_()
    y = K.gelu(z)
    assert y.grad_fn.name() == "kernellab::gelu_backward"
    with torch.no_grad():
        z.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


def test_a_graph_is_used_once_unless_it_is_retained(x):
    y = K.gelu(x).sum()
    first = torch.autograd.grad(y, x, retain_graph=True)
    torch.testing.assert_close(torch.autograd.grad(y, x), first)
    with pytest.raises(RuntimeError, match="backward through the graph a second time"):
        torch.autograd.grad(y, x)


def test_a_gradient_cannot_be_differentiated_again_and_the_error_says_what_to_use(x):
    y = K.gelu(x)
    assert y.grad_fn.name() == "kernellab::gelu_backward"
    (gradient,) = torch.autograd.grad((y * y).sum(), x, create_graph=True)
    with pytest.raises(RuntimeError, match=r"kernellab.functional.gelu cannot be differentiated again: use PyTorch's"):
        gradient.sum().backward()


def test_hooks_on_saved_tensors_are_called(x):
    packed = []
    with torch.autograd.graph.saved_tensors_hooks(lambda t: (packed.append(t), t * 2)[1], lambda t: t / 2):
        y = K.gelu(x)
    assert y.grad_fn.name() == "kernellab::gelu_backward"
    assert len(packed) == 1
    torch.testing.assert_close(torch.autograd.grad(y.sum(), x), torch.autograd.grad(F.gelu(x).sum(), x))


@pytest.mark.parametrize("reentrant", [False, True])
def test_activations_can_be_computed_again(x, reentrant):
    for _ in range(4):
        z = values(6, 16, seed=3).requires_grad_()
        y = checkpoint(lambda t: K.gelu(K.gelu(t)), z, use_reentrant=reentrant)
        actual = torch.autograd.grad(y.sum(), z) if not reentrant else (y.sum().backward(), (z.grad,))[1]
        expected = torch.autograd.grad(F.gelu(F.gelu(z)).sum(), z)
        torch.testing.assert_close(actual, expected)


def test_only_the_gradients_that_are_needed_are_computed(kernels, request, repeated):
    def frozen():
        x, weight = values(6, 16).requires_grad_(), values(16, seed=2)
        return x, K.layer_norm(x, (16,), weight, weight)

    kernels("layer_norm", lambda: frozen()[1].sum().backward())
    driver = request.getfixturevalue("driver")
    for _ in range(5):
        run("layer_norm")
        x, y = frozen()
        torch.autograd.grad(y.sum(), x)
    x, y = frozen()
    before = driver.launches
    assert repeated(lambda: y.sum().backward()) == (0, 1)
    assert driver.launches == before + 1  # the sums for weight and bias are not added up
    expected = torch.autograd.grad(F.layer_norm(x, (16,), values(16, seed=2), values(16, seed=2)).sum(), x)
    torch.testing.assert_close((x.grad,), expected)


def test_the_gradient_of_a_result_that_is_not_used_is_not_made_up(kernels, request):
    def both(f):
        x, y, weight = (values(*shape).requires_grad_() for shape in [(6, 16), (6, 16), (16,)])
        normed, total = f(x, y, (16,), weight, 1e-6)
        return [torch.autograd.grad(t.sum(), (x, y), retain_graph=True) for t in (normed, total)]

    kernels("add_rms_norm", lambda: both(K.add_rms_norm))
    request.getfixturevalue("driver")
    for _ in range(5):
        torch.testing.assert_close(both(K.add_rms_norm), both(REFERENCES["add_rms_norm"]))


def test_a_missing_gradient_of_queries_or_keys_is_zero(kernels, request):
    """The upstream gradient is expanded: it is copied, and a pass that copies is not repeated."""
    kernels("rope")
    request.getfixturevalue("driver")
    tables = (values(5, 4, seed=2), values(5, 4, seed=3))
    for _ in range(5):
        q, k = values(2, 3, 5, 8).requires_grad_(), values(2, 1, 5, 8, seed=1).requires_grad_()
        gradients_of_q, gradients_of_k = torch.autograd.grad(K.rope(q, k, *tables)[0].sum(), (q, k))
        expected = torch.autograd.grad(REFERENCES["rope"](q, k, *tables)[0].sum(), q)
        torch.testing.assert_close((gradients_of_q,), expected)
        assert not gradients_of_k.any()


def test_a_profile_shows_the_operators_by_their_names(x):
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], record_shapes=True) as recording:
        y = K.gelu(x)
        y.backward(torch.ones(6, 16))
    assert y.grad_fn.name() == "kernellab::gelu_backward"
    events = {event.name: event for event in recording.events()}
    assert events["kernellab::gelu"].input_shapes == [[6, 16]]
    assert "kernellab::gelu_backward" in events
    node = events["autograd::engine::evaluate_function: kernellab::gelu_backward"]
    assert node.sequence_nr == events["kernellab::gelu"].sequence_nr >= 0


def test_anomaly_detection_names_the_line_of_the_forward_call(x):
    with torch.autograd.set_detect_anomaly(True, check_nan=True):
        y = K.gelu(x)
        x.data.fill_(float("nan"))
        with (
            pytest.warns(UserWarning, match=r"Error detected in kernellab::gelu_backward[^$]*y = K.gelu\(x\)"),
            pytest.raises(RuntimeError, match="returned nan values"),
        ):
            y.sum().backward()


# What is kept -------------------------------------------------------------------------------------------


def test_no_tensor_is_kept(x):
    z = (x.detach() * 2).requires_grad_()
    y = K.gelu(z)
    y.sum().backward()
    kept = [weakref.ref(t) for t in (z, y)]
    del z, y
    gc.collect()
    assert [reference() for reference in kept] == [None, None]


def test_the_number_of_known_calls_is_bounded(silent_driver, extension, repeated):
    extension.set_capacity(8)
    try:
        K.gelu(torch.ones(3)), K.gelu(torch.ones(3))
        for size in range(4, 40):
            K.gelu(torch.ones(size))
            assert repeated(lambda: K.gelu(torch.ones(3))) == (1, 0)  # what is used is kept
            assert extension.known_calls() <= 8
    finally:
        extension.set_capacity(4096)


def test_when_tables_change_calls_are_recorded_again(x, repeated):
    with own_table(rule("gelu", "cpp", "cpp")):
        assert repeated(lambda: repeat_gelu(x)) == (0, 0)
    assert repeated(lambda: repeat_gelu(x, 2)) == (0, 0)
    assert repeated(lambda: K.gelu(x)) == (1, 0)


def test_what_was_recorded_before_tables_changed_is_not_kept(x, extension, repeated):
    z = values(5, 4).requires_grad_()
    K.gelu(z)

    def change(t):  # as another thread may, while the call is recorded
        extension.forget()
        return t

    with torch.autograd.graph.saved_tensors_hooks(change, lambda t: t):
        K.gelu(z)
    assert repeated(lambda: (K.gelu(z), K.gelu(z))) == (0, 0)
    assert repeated(lambda: K.gelu(z)) == (1, 0)


def test_a_launch_that_fails_is_an_error_with_the_drivers_name_of_it(x, standin):
    standin.fail_with(700)
    try:
        with pytest.raises(RuntimeError, match="cuLaunchKernelEx failed: CUDA_ERROR_OF_TESTS"):
            K.gelu(x)
    finally:
        standin.fail_with(0)


def test_an_error_in_a_recorded_call_leaves_the_next_ones_repeatable(x, repeated):
    z = values(5, 4).requires_grad_()
    K.gelu(z)

    def stop(t):
        raise KeyError("stopped")

    with torch.autograd.graph.saved_tensors_hooks(stop, stop), pytest.raises(KeyError, match="stopped"):
        K.gelu(z)
    K.gelu(z)
    assert repeated(lambda: K.gelu(z)) == (1, 0)


def test_a_counter_of_a_stream_is_not_used_while_a_graph_is_captured(kernels, request, repeated):
    kernels("cross_entropy")
    driver = request.getfixturevalue("driver")
    logits, target = values(6, 16), torch.arange(6)
    for _ in range(6):
        loss = K.cross_entropy(logits, target)
    assert repeated(lambda: K.cross_entropy(logits, target)) == (1, 0)
    driver.set_capturing(True)
    try:
        assert repeated(lambda: K.cross_entropy(logits, target)) == (0, 0)
    finally:
        driver.set_capturing(False)
    torch.testing.assert_close(loss, F.cross_entropy(logits, target))


def test_a_thread_gets_the_context_of_the_device_once(x, standin, repeated):
    def work():
        before = standin.contexts
        assert repeated(lambda: (K.gelu(x), K.gelu(x))) == (2, 0)
        given.append(standin.contexts - before)

    given = []
    for _ in range(2):
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
    assert given == [1, 1]


def test_threads_repeat_calls_of_their_own_and_of_each_other(x):
    failures = []

    def work(number):
        try:
            for turn in range(60):
                z = values(2 + turn % 3, 16, seed=number).requires_grad_()
                y = K.gelu(z)
                torch.testing.assert_close(y, F.gelu(z))
                ours, theirs = (torch.autograd.grad(f.sum(), z) for f in (y, F.gelu(z)))
                torch.testing.assert_close(ours, theirs)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=120)
    assert not failures
    assert not any(thread.is_alive() for thread in threads)


# All of them --------------------------------------------------------------------------------------------


def test_every_function_is_repeated(silent_driver, repeated):
    repeatable = {name: calls()[name] for name in REPEATABLE}
    assert {name.split()[0] for name in repeatable} == REPEATED
    for name, call in repeatable.items():
        inputs, function = call(getattr(K, name.split()[0]))
        for _ in range(8):
            outcome(inputs, function)
        assert (name, repeated(functools.partial(outcome, inputs, function))) == (name, (1, 1))


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", USUAL)
def test_tensors_of_any_strides_give_pytorchs_results_strides_and_gradients_in_every_call(name, kernels, request):
    def run_with(function, layout):
        return outcome(*calls(LAYOUTS[layout])[name](function))

    kernels(*(functools.partial(run_with, getattr(K, name), layout) for layout in LAYOUTS))
    request.getfixturevalue("driver")
    for _ in range(6):
        for layout in LAYOUTS:
            ours, theirs = run_with(getattr(K, name), layout), run_with(REFERENCES[name], layout)
            torch.testing.assert_close(ours, theirs, equal_nan=True)
            if len(theirs[0]) == 1:
                assert [y.stride() for y in ours[0]] == [y.stride() for y in theirs[0]]


@pytest.mark.exhaustive
def test_a_model_is_trained_by_repeated_calls(kernels, request, repeated):
    kernels(lambda: gradients(make_model(), *make_batch()))
    request.getfixturevalue("driver")
    expected = None
    with own_table(""):
        expected = gradients(make_model(), *make_batch())
    model = make_model()
    for _ in range(6):
        torch.testing.assert_close(gradients(model, *make_batch()), expected)
    forward, backward = repeated(lambda: gradients(model, *make_batch()))
    # Attention gives rope's two backward passes a transposed gradient, which they copy.
    assert (forward, backward) == (17, 15)
    x, target = make_batch()
    for reentrant in (False, True):
        model.zero_grad()
        checkpoint(model, x.requires_grad_(), target, use_reentrant=reentrant).backward()
        torch.testing.assert_close({name: p.grad for name, p in model.named_parameters()}, expected)
