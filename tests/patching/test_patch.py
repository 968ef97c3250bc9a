"""kernellab.patch: what computes the same is served by the kernels, the rest stays, and everything can be undone."""

import copy
import pickle

import pytest
import torch

import kernellab as kl
from support import patchable
from support.models import gradients
from support.serving import OPERATORS

BY = {
    "": "cross_entropy in its forward",
    "norms.0": "kernellab.nn.LayerNorm",
    "norms.1": "rms_norm",
    "attention": "rope, softmax in its forward",
    "mlp": "swiglu",
    "mlp.act_fn": "kernellab.nn.SiLU",
    "gelu": "gelu(approximate='tanh')",
}


@pytest.fixture
def model():
    torch.manual_seed(0)
    return patchable.Model()


@pytest.fixture
def served(monkeypatch):
    """The names of the operators that were called."""
    called = []
    for name, operator in OPERATORS.items():
        monkeypatch.setattr(operator, "call", lambda *args, n=name, c=operator.call: (called.append(n), c(*args))[1])
    return called


def batch(seed=0):
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(2, 5, patchable.WIDTH, generator=generator)
    return x, torch.randint(0, patchable.CLASSES, (2, 5), generator=generator)


def classes_of(model):
    return {path: type(module) for path, module in model.named_modules()}


SERVED = ["layer_norm", "rope", "softmax", "rms_norm", "swiglu", "gelu", "cross_entropy"]


def test_a_patched_model_has_the_loss_and_the_gradients_that_it_had(model, served):
    expected = gradients(model, *batch())
    done = kl.patch(model)
    assert {entry.path: entry.by for entry in done.replaced} == BY
    served.clear()  # those of the trials
    torch.testing.assert_close(gradients(model, *batch()), expected)
    assert served == SERVED


def test_a_call_of_pytorchs_attention_is_replaced(served):
    torch.manual_seed(0)
    model, (x, _) = patchable.FusedAttention(), batch()

    def step():
        model.zero_grad()
        model(x).square().sum().backward()
        return {name: parameter.grad.clone() for name, parameter in model.named_parameters()}

    expected = step()
    done = kl.patch(model)
    assert [entry.by for entry in done.replaced] == ["scaled_dot_product_attention in its forward"]
    torch.testing.assert_close(step(), expected)
    assert served == ["attention"]
    done.undo()
    torch.testing.assert_close(step(), expected, rtol=0, atol=0)
    assert served == ["attention"]


def test_what_looks_alike_but_computes_something_else_is_left_with_the_reason(model):
    (left,) = kl.patch(model).left
    assert (left.path, left.module) == ("norms.2", "ShiftedRMSNorm")
    assert left.reason == "it computes something else than rms_norm"


def test_a_dry_run_says_the_same_and_changes_nothing(model, served):
    before = classes_of(model)
    planned = kl.patch(model, dry_run=True)
    assert classes_of(model) == before
    served.clear()
    gradients(model, *batch())
    assert served == []
    done = kl.patch(model)
    assert (planned.replaced, planned.left) == (done.replaced, done.left)
    assert str(planned).startswith(
        "7 modules would be replaced, 1 left as they are\n  (the model): Model by cross_entropy"
    )
    assert "norms.2: ShiftedRMSNorm left: it computes" in str(done)


def test_undo_makes_the_model_what_it_was(model, served):
    before, expected = classes_of(model), gradients(model, *batch())
    done = kl.patch(model)
    assert classes_of(model) != before
    done.undo()
    served.clear()
    assert classes_of(model) == before
    torch.testing.assert_close(gradients(model, *batch()), expected, rtol=0, atol=0)
    assert served == []


def test_modules_stay_the_objects_that_they_were(model):
    modules, parameters = list(model.modules()), list(model.parameters())
    seen = []
    model.mlp.register_forward_hook(lambda module, args, output: seen.append(module))
    kl.patch(model)
    assert [id(module) for module in model.modules()] == [id(module) for module in modules]
    assert [id(parameter) for parameter in model.parameters()] == [id(parameter) for parameter in parameters]
    assert isinstance(model.mlp, patchable.GatedMLP)
    gradients(model, *batch())
    assert seen == [model.mlp]


def test_only_the_patched_model_changes(model, served):
    other = copy.deepcopy(model)
    kl.patch(model)
    served.clear()
    gradients(other, *batch())
    assert served == []


@pytest.mark.parametrize("copy_of", [copy.deepcopy, lambda module: pickle.loads(pickle.dumps(module))])
def test_copies_of_a_patched_model_are_patched(model, copy_of, served):
    kl.patch(model)
    expected = gradients(model, *batch())
    copied = copy_of(model)
    served.clear()
    torch.testing.assert_close(gradients(copied, *batch()), expected)
    assert served == SERVED


def test_a_second_patch_has_nothing_to_do(model):
    kl.patch(model)
    again = kl.patch(model)
    assert again.replaced == []


def test_a_patched_model_compiles_as_one_graph_of_our_operators_once(model):
    from torch._dynamo.backends.common import aot_autograd

    torch._dynamo.reset()
    expected = gradients(model, *batch())
    kl.patch(model)
    graphs = []

    def compiler(graph, inputs):
        graphs.append({node.target._opname for node in graph.graph.nodes if "kernellab" in str(node.target)})
        return graph.forward

    model.compile(fullgraph=True, backend=aot_autograd(fw_compiler=compiler, bw_compiler=compiler))
    for _ in range(3):
        torch.testing.assert_close(gradients(model, *batch()), expected)
    assert graphs == [set(SERVED), {f"{op}_backward" for op in SERVED}]


def test_a_forward_that_something_else_has_replaced_is_left(model):
    model.mlp.forward = lambda x: x
    reasons = {entry.path: entry.reason for entry in kl.patch(model).left}
    assert reasons["mlp"] == "its forward is an attribute of the module: something replaced it before"


def test_parameters_without_values_or_of_another_class_are_a_reason_to_wait():
    with torch.device("meta"):
        empty = patchable.OwnRMSNorm()
    assert "patch the model when they are loaded" in kl.patch(empty).left[0].reason

    class Sharded(torch.nn.Parameter):
        pass

    sharded = patchable.OwnRMSNorm()
    sharded.weight = Sharded(sharded.weight.detach())
    assert "patch the model before it is sharded" in kl.patch(sharded).left[0].reason


@pytest.mark.parametrize("architecture", ["Llama", "GPT2", "Bert"])
def test_models_of_transformers(architecture, served):
    import transformers

    size = dict(vocab_size=97, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, attn_implementation="eager")
    config = transformers.AutoConfig.for_model(architecture.lower(), **size)
    expected_calls = {
        "Llama": {"rms_norm", "rope", "softmax", "swiglu", "cross_entropy"},
        "GPT2": {"layer_norm", "softmax", "gelu", "cross_entropy"},
        "Bert": {"layer_norm", "softmax", "gelu", "cross_entropy"},
    }[architecture]
    kind = transformers.AutoModelForMaskedLM if architecture == "Bert" else transformers.AutoModelForCausalLM
    torch.manual_seed(0)
    model = kind.from_config(config).eval()
    ids = torch.randint(0, 97, (2, 10))

    def step():
        model.zero_grad()
        loss = model(input_ids=ids, labels=ids).loss
        loss.backward()
        return loss.detach(), {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}

    before = step()
    done = kl.patch(model)
    served.clear()
    torch.testing.assert_close(step(), before, rtol=1e-4, atol=1e-6)
    assert set(served) == expected_calls
    assert done.left == []
    done.undo()
    torch.testing.assert_close(step(), before, rtol=0, atol=0)
