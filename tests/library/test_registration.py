"""Every op is an operator of torch.library: schema, fake, autograd, and refusals that say what to do."""

import pytest
import torch

import kernellab as kl
from support.serving import OPERATORS


def floats(*shape):
    return torch.randn(*shape, generator=GENERATOR).requires_grad_()


GENERATOR = torch.Generator().manual_seed(0)
TARGET = torch.tensor([0, 2, -100, 15])
TABLES = (torch.randn(5, 4), torch.randn(5, 4))
# Arguments of each operator: contiguous, and with strides of other kinds.
CALLS = {
    "gelu": [(floats(4, 16), "tanh"), (floats(16, 4).t(), "none")],
    "silu": [(floats(4, 16),), (floats(4, 20)[:, :16],)],
    "swiglu": [(floats(4, 16), floats(4, 16)), (floats(4, 32)[:, 16:], floats(1, 16).expand(4, 16))],
    "geglu": [(floats(4, 16), floats(4, 16), "none")],
    "softmax": [(floats(4, 16),), (floats(3, 2, 16).transpose(0, 1),)],
    "log_softmax": [(floats(4, 16),)],
    "layer_norm": [(floats(4, 16), floats(16), floats(16), 1e-5), (floats(4, 20)[:, 2:], None, None, 1e-5)],
    "rms_norm": [(floats(4, 16), floats(16), 1e-6), (floats(2, 4, 5, 3).permute(0, 3, 1, 2), None, 1e-6)],
    "add_rms_norm": [(floats(4, 16), floats(4, 16), floats(16), 1e-6), (floats(4, 16), floats(16, 4).t(), None, 1e-6)],
    "cross_entropy": [
        (floats(4, 16), TARGET, "mean", 0.1, -100),
        (floats(16, 4).t(), TARGET, "none", 0.0, -100),
        (floats(4, 16), TARGET.abs() % 16, "sum", 0.0, 2),
    ],
    "rope": [
        (floats(2, 3, 5, 8), floats(2, 1, 5, 8), *TABLES, False),
        (floats(2, 5, 3, 8).transpose(1, 2), floats(2, 1, 5, 8), *TABLES, True),
    ],
}
CALLS["linear_gelu"] = [
    (floats(2, 3, 16), floats(5, 16), floats(5), "tanh", [True, True, True]),
    (floats(4, 20)[:, 2:18], floats(16, 5).t(), None, "none", [True, True, False]),
    (torch.randn(4, 16), torch.randn(5, 16), None, "none", [False, False, False]),
]
CALLS["linear_cross_entropy"] = [
    (floats(4, 8), floats(16, 8), TARGET, "mean", 0.1, -100, [True, True]),
    (floats(8, 4).t(), floats(16, 9)[:, 1:], TARGET, "none", 0.0, -100, [True, True]),
    (torch.randn(4, 8), floats(16, 8), TARGET.abs() % 16, "sum", 0.0, 2, [False, True]),
    (torch.randn(4, 8), torch.randn(16, 8), TARGET, "mean", 0.0, -100, [False, False]),
]
CALLS["dropout_add"] = [
    (floats(4, 16), floats(4, 16), 0.5, -3, 4),
    (floats(16, 4).t(), torch.randn(4, 16), 1.0, 1 << 40, 0),
]
# Grouped heads with all options, and strides of a projection with a bias that is broadcast.
CALLS["attention"] = [
    (floats(2, 4, 5, 8), floats(2, 2, 7, 8), floats(2, 2, 7, 8), None, "bottom_right", 0.3, 3, 0.2, -3, 4),
    (
        *(floats(2, 5, 3, 8).transpose(1, 2) for _ in range(3)),
        floats(5, 5).expand(2, 3, 5, 5),
        *(None, None, None, 0.0, 0, 0),
    ),
]
IDS = [(op, place) for op, calls in CALLS.items() for place in range(len(calls))]


def test_there_are_arguments_for_every_operator():
    assert set(CALLS) == set(OPERATORS)


@pytest.mark.parametrize(("op", "place"), IDS)
def test_an_operator_passes_opcheck(op, place):
    torch.library.opcheck(OPERATORS[op].call, CALLS[op][place])


@pytest.mark.parametrize(("op", "place"), IDS)
def test_the_operator_of_its_backward_passes_opcheck(op, place):
    args, contract = CALLS[op][place], OPERATORS[op].choice.contract
    count = len(contract.inputs)
    outputs = OPERATORS[op].call(*args)
    outputs = tuple(t.detach() for t in (outputs if isinstance(outputs, tuple) else (outputs,)))
    upstream = [torch.randn_like(y) for y in outputs[: contract.results]]
    needs = [isinstance(t, torch.Tensor) and t.requires_grad for t in args[:count]]
    saved = [t if t is None else t.detach() for t in contract.pick_saved(args[:count], outputs)]
    if not any(needs):
        return
    options = args[count : count + len(getattr(kl.ops, op).options)]
    backward = getattr(torch.ops.kernellab, f"{op}_backward").default
    torch.library.opcheck(backward, (*upstream, *saved, *options, contract.wanted(needs)))


@pytest.mark.parametrize("op", CALLS)
def test_a_gradient_cannot_be_differentiated_again_and_the_error_says_what_to_use(op):
    args = CALLS[op][0]
    outputs = OPERATORS[op].call(*args)
    y = outputs[0] if isinstance(outputs, tuple) else outputs
    gradient, *_ = torch.autograd.grad((y * y).sum(), args[0], create_graph=True)
    function = OPERATORS[op].function
    with pytest.raises(RuntimeError, match=f"functional.{function} cannot be differentiated again: use PyTorch's"):
        gradient.sum().backward()


@pytest.mark.parametrize("op", ["softmax", "layer_norm", "rope"])
def test_vmap_is_refused(op):
    args = CALLS[op][0]
    batch = torch.stack([args[0], args[0]])
    with pytest.raises(RuntimeError, match=rf"kernellab.functional.{op} cannot be used inside torch.vmap: call it on"):
        torch.vmap(lambda x: OPERATORS[op].call(x, *args[1:])[0])(batch)


@pytest.mark.parametrize("op", ["layer_norm", "rms_norm", "add_rms_norm"])
def test_only_the_gradients_that_are_needed_are_computed(op, monkeypatch):
    """As with frozen weights, of which a fine-tuned model has many."""
    wanted = []
    choice = OPERATORS[op].choice
    run = choice.backward

    def spy(x, options):
        def backward(*taken, wanted: list[bool]):
            seen.append(list(wanted))
            return run(x, options)(*taken, wanted=wanted)

        return backward

    seen = wanted
    monkeypatch.setattr(choice, "backward", spy)
    args = [t.detach() if isinstance(t, torch.Tensor) else t for t in CALLS[op][0]]
    args[0] = args[0].requires_grad_()
    OPERATORS[op].call(*args)[0].sum().backward()
    assert args[0].grad is not None
    assert seen == [[True] + [False] * (len(choice.contract.differentiated) - 1)]


def test_the_gradient_of_a_result_that_is_not_used_is_not_made_up():
    x, residual, weight, eps = CALLS["add_rms_norm"][0]
    normed, total, _ = OPERATORS["add_rms_norm"].call(x, residual, weight, eps)
    expected_total = x + residual
    expected = torch.nn.functional.rms_norm(expected_total, (16,), weight, eps)
    for ours, theirs in ((normed, expected), (total, expected_total), (normed + total, expected + expected_total)):
        upstream = torch.randn_like(ours)
        inputs = (x, residual)
        gradients = torch.autograd.grad(ours, inputs, upstream, retain_graph=True)
        torch.testing.assert_close(gradients, torch.autograd.grad(theirs, inputs, upstream, retain_graph=True))


@pytest.fixture
def autocast_of_gpus():
    """Autocast to bfloat16 on GPUs, of which there may be none: tensors are fake."""
    from torch._subclasses.fake_tensor import FakeTensorMode

    torch.set_autocast_enabled("cuda", True)
    torch.set_autocast_dtype("cuda", torch.bfloat16)
    try:
        with FakeTensorMode(), torch.no_grad():
            yield
    finally:
        torch.set_autocast_enabled("cuda", False)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_autocast_on_gpus_gives_the_dtypes_that_it_gives_pytorchs_functions(autocast_of_gpus, dtype):
    functional = torch.nn.functional
    x = torch.empty(4, 16, dtype=dtype, device="cuda")
    weight, target = torch.empty(16, device="cuda"), torch.empty(4, dtype=torch.int64, device="cuda")
    pairs = {
        "gelu": ((x, "none"), functional.gelu(x)),
        "silu": ((x,), functional.silu(x)),
        "softmax": ((x,), functional.softmax(x, -1)),
        "log_softmax": ((x,), functional.log_softmax(x, -1)),
        "layer_norm": ((x, weight, weight, 1e-5), functional.layer_norm(x, (16,), weight, weight)),
        "rms_norm": ((x, weight, 1e-6), functional.rms_norm(x, (16,), weight, 1e-6)),
        "cross_entropy": ((x, target, "mean", 0.0, -100), functional.cross_entropy(x, target)),
    }
    for op, (args, theirs) in pairs.items():
        outputs = OPERATORS[op].call(*args)
        ours = outputs[0] if isinstance(outputs, tuple) else outputs
        assert (op, ours.dtype) == (op, theirs.dtype)
