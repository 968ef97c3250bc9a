"""kernellab.nn: torch's modules with other kernels behind them."""

import copy
import pickle

import pytest
import torch

import kernellab as kl

MODULES = {
    "GELU": {"approximate": "tanh"},
    "SiLU": {},
    "Softmax": {"dim": -1},
    "LogSoftmax": {"dim": -1},
    "LayerNorm": {"normalized_shape": 16, "eps": 1e-3},
    "RMSNorm": {"normalized_shape": 16},
    "CrossEntropyLoss": {"label_smoothing": 0.1, "ignore_index": 1},
}
FUSED = {
    "SwiGLU": {},
    "GEGLU": {"approximate": "tanh"},
    "AddRMSNorm": {"normalized_shape": 16, "eps": 1e-6},
    "LinearGELU": {"in_features": 16, "out_features": 8, "approximate": "tanh"},
    "RotaryEmbedding": {"columns": 8, "positions": 5},
    "DropoutAdd": {"p": 1.0},
}


def make(namespace, name):
    torch.manual_seed(0)
    module = getattr(namespace, name)(**{**MODULES, **FUSED}[name])
    for parameter in module.parameters():
        torch.nn.init.normal_(parameter)
    return module


def inputs(name):
    x = torch.randn(4, 16, generator=torch.Generator().manual_seed(1))
    heads = x.view(1, 2, 4, 8)
    second = {
        "CrossEntropyLoss": [torch.tensor([0, 1, 2, 15])],
        "SwiGLU": [x + 1],
        "GEGLU": [x + 1],
        "AddRMSNorm": [x + 1],
        "RotaryEmbedding": [heads],
        "DropoutAdd": [x + 1],
    }
    return [heads if name == "RotaryEmbedding" else x, *second.get(name, [])]


def test_every_module_is_tried():
    assert set(kl.nn.__all__) == {*MODULES, *FUSED}


@pytest.mark.parametrize("name", MODULES)
def test_a_module_is_torchs_and_computes_and_prints_the_same(name):
    ours, theirs = make(kl.nn, name), make(torch.nn, name)
    assert isinstance(ours, getattr(torch.nn, name))
    assert repr(ours) == repr(theirs)
    torch.testing.assert_close(ours(*inputs(name)), theirs(*inputs(name)))


@pytest.mark.parametrize("name", ["LayerNorm", "RMSNorm"])
def test_state_dicts_load_both_ways(name):
    ours, theirs = make(kl.nn, name), getattr(torch.nn, name)(**MODULES[name])
    theirs.load_state_dict(ours.state_dict())
    again = getattr(kl.nn, name)(**MODULES[name])
    again.load_state_dict(theirs.state_dict())
    torch.testing.assert_close(again(*inputs(name)), ours(*inputs(name)))
    torch.testing.assert_close(theirs(*inputs(name)), ours(*inputs(name)))


def test_a_fused_norm_has_the_parameters_of_the_norm_and_a_rotation_none():
    plain, fused = make(torch.nn, "RMSNorm"), make(kl.nn, "AddRMSNorm")
    fused.load_state_dict(plain.state_dict())
    make(kl.nn, "LinearGELU").load_state_dict(torch.nn.Linear(16, 8).state_dict())
    assert make(kl.nn, "RotaryEmbedding").state_dict() == {}


@pytest.mark.parametrize("name", [*MODULES, *FUSED])
@pytest.mark.parametrize("copy_of", [copy.deepcopy, lambda module: pickle.loads(pickle.dumps(module))])
def test_a_module_can_be_copied_and_pickled(name, copy_of):
    module = make(kl.nn, name)
    torch.testing.assert_close(copy_of(module)(*inputs(name)), module(*inputs(name)))
    assert repr(copy_of(module)) == repr(module)


def test_a_rotation_keeps_lengths_and_depends_on_the_distance_of_positions_alone():
    rotation = kl.nn.RotaryEmbedding(8, positions=64)
    q, k = (torch.randn(1, 1, 1, 8, generator=torch.Generator().manual_seed(seed)) for seed in (0, 1))
    scores = []
    for start in (0, 7, 50):
        turned_q, turned_k = rotation(q.expand(1, 1, 4, 8), k.expand(1, 1, 4, 8), start=start)
        torch.testing.assert_close(turned_q.norm(dim=-1), q.norm(dim=-1).expand(1, 1, 4))
        scores.append((turned_q[..., 3, :] * turned_k[..., 1, :]).sum())
    torch.testing.assert_close(scores, [scores[0]] * 3)
    torch.testing.assert_close(rotation(q, k), (q, k))  # position 0 is not turned


def test_a_rotation_follows_the_dtype_of_the_queries_and_refuses_positions_that_it_has_not():
    rotation = kl.nn.RotaryEmbedding(8, positions=4)
    q = torch.randn(1, 2, 4, 8, dtype=torch.float64)
    assert rotation(q, q)[0].dtype == torch.float64
    with pytest.raises(ValueError, match="positions 1 to 4 are outside the 4 that this module has"):
        rotation(q, q, start=1)


def test_dropout_with_addition_only_adds_in_evaluation():
    module, (x, residual) = make(kl.nn, "DropoutAdd"), inputs("DropoutAdd")
    assert torch.equal(module(x, residual), residual)
    assert torch.equal(module.eval()(x, residual), x + residual)
    assert isinstance(module, torch.nn.Dropout)
    assert repr(module) == "DropoutAdd(p=1.0, inplace=False)"


def test_extra_repr_of_the_modules_that_torch_lacks():
    assert repr(make(kl.nn, "GEGLU")) == "GEGLU(approximate='tanh')"
    expected = "LinearGELU(in_features=16, out_features=8, bias=True, approximate='tanh')"
    assert repr(make(kl.nn, "LinearGELU")) == expected
    assert repr(make(kl.nn, "RotaryEmbedding")) == "RotaryEmbedding(8, positions=5, base=10000.0, interleaved=False)"
