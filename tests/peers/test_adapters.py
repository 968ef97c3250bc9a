"""The functions around each library: names, arguments, layouts and side effects, tried on stand-ins for the libraries.

The stand-ins have the parameters of the real functions, which a test compares where a library is installed.
"""

from __future__ import annotations

import functools
import importlib
import inspect

import pytest

from kernellab.checking.declared_case import CaseChecker
from kernellab.checking.examiner import Examiner
from kernellab.declaration.case import Case
from kernellab.declaration.passes import pass_of
from kernellab.declaration.targets import Target, shipped_names
from kernellab.peers import load, load_library, peer_names
from kernellab.trials.trial import Trial
from support.trying import CPU

KERNELS = {
    "liger": "softmax swiglu geglu layer_norm rms_norm add_rms_norm rope cross_entropy",
    "flaggems": "gelu silu swiglu geglu softmax log_softmax layer_norm rms_norm add_rms_norm rope cross_entropy "
    "dropout_add",
    "quack": "softmax layer_norm rms_norm add_rms_norm rope cross_entropy",
}
FORWARD_ONLY = {("flaggems", "add_rms_norm"), ("flaggems", "rope")}
SIZES = {
    "cross_entropy": {"M": 12, "V": 40},
    "rope": {"B": 2, "H": 4, "G": 2, "S": 5, "D": 16},
}
DEFAULT_SIZES = {"...": (3, 4), "N": 24}


def op_with(library, name):
    return load(Target(name, module=f"kernellab.ops.{name}", op=name, peers=[library]))[name]


def case_of(op, dtype="float32", sizes=None, **options):
    """With every optional tensor, and the first value of every other option."""
    first = {name: values[0] for name, values in op.options.items()}
    given = dict.fromkeys(op.presence_options, True)
    return Case(sizes or SIZES.get(op.name, DEFAULT_SIZES), dtype, {**first, **given, **options})


@pytest.mark.parametrize("library", peer_names())
def test_the_kernels_of_each_library(stand_ins, library):
    assert sorted(load_library(library).ops) == sorted(KERNELS[library].split())


PAIRS = [(library, name) for library in KERNELS for name in KERNELS[library].split() if name in shipped_names()]


@pytest.mark.parametrize("pass_name", ["forward", "backward"])
@pytest.mark.parametrize(("library", "name"), PAIRS)
def test_each_kernel_computes_the_op(stand_ins, library, name, pass_name):
    op = op_with(library, name)
    case = case_of(op, "float32" if (library, name) == ("quack", "layer_norm") else "bfloat16")
    outcome = CaseChecker(op, case, seed=0, device=CPU, pass_=pass_of(pass_name)).check(op[library])
    if pass_name == "backward" and (library, name) in FORWARD_ONLY:
        assert (outcome.status, outcome.reason) == ("skipped", "not differentiable: its result has no grad_fn")
    else:
        assert outcome.status == "ok", outcome.reason


def test_a_kernel_without_backward_is_not_differentiable_where_it_copies_its_inputs_either(stand_ins):
    op = op_with("flaggems", "add_rms_norm")
    layouts = dict(x="transposed", residual="transposed")
    trial = Trial("layouts", case_of(op), pass_name="backward", layouts=layouts)
    outcome = Examiner(op, seed=0, device=CPU).examine(op["flaggems"], trial)
    assert (outcome.status, outcome.reason) == ("outside", "not differentiable: its result has no grad_fn")


@pytest.mark.parametrize(
    ("library", "name", "changes", "sentence"),
    [
        ("liger", "softmax", dict(sizes={"...": (2,), "N": 65537}), "takes rows of at most 65536 columns"),
        ("liger", "softmax", dict(dtype="float64"), "takes float32, float16 and bfloat16"),
        ("liger", "geglu", dict(approximate="none"), "has the tanh form only"),
        ("liger", "layer_norm", dict(bias=False), "needs a weight and a bias"),
        ("liger", "add_rms_norm", dict(weight=False), "needs a weight"),
        ("liger", "rope", dict(interleaved=True), "pairs the two halves of a head only"),
        ("flaggems", "rms_norm", dict(weight=False), "needs a weight"),
        ("quack", "layer_norm", dict(dtype="bfloat16"), "takes a weight and a bias in float32 only"),
        ("quack", "layer_norm", dict(weight=False), "needs a weight"),
        ("quack", "rope", dict(sizes={**SIZES["rope"], "D": 12}), "takes heads of 8, 16, … 512 columns"),
        ("quack", "cross_entropy", dict(label_smoothing=0.1), "has no label smoothing"),
    ],
)
def test_a_stated_limit_is_a_sentence(stand_ins, library, name, changes, sentence):
    op = op_with(library, name)
    assert op[library].refusal(case_of(op, **changes)) == sentence
    assert op[library].refusal(case_of(op)) is None


def test_inputs_that_a_kernel_overwrites_and_gradients_in_forward_are_declared(stand_ins):
    changed = {pair: impl.mutates for pair in PAIRS if (impl := op_with(*pair)[pair[0]]).mutates}
    assert changed == {
        ("liger", "swiglu"): {"gate", "up"},
        ("liger", "geglu"): {"gate", "up"},
        ("liger", "rope"): {"q", "k"},
        ("liger", "cross_entropy"): {"logits"},
        ("flaggems", "add_rms_norm"): {"x", "residual"},
    }
    assert [pair for pair in PAIRS if op_with(*pair)[pair[0]].grad_in_forward] == [("liger", "cross_entropy")]


LIGER = "Softmax SiLUMul GELUMul LayerNorm RMSNorm FusedAddRMSNorm Rope CrossEntropy"
FUNCTIONS = {
    "liger": {"liger_kernel.ops": [f"Liger{name}Function.forward" for name in LIGER.split()]},
    "flaggems": {
        "flag_gems": [
            *("gelu", "gelu_backward", "silu", "silu_backward", "silu_and_mul", "gelu_and_mul"),
            *("softmax", "softmax_backward", "log_softmax", "log_softmax_backward", "dropout", "dropout_backward"),
            *("layer_norm", "layer_norm_backward", "rms_norm", "fused_add_rms_norm"),
            *("apply_rotary_pos_emb", "cross_entropy_loss"),
        ]
    },
    "quack": {
        "quack": ["softmax", "rmsnorm", "cross_entropy"],
        "quack.rmsnorm": ["layernorm_fwd", "layernorm_bwd"],
        "quack.rotary": ["apply_rotary_emb"],
    },
}


@pytest.mark.parametrize("library", FUNCTIONS)
def test_the_stand_ins_have_the_parameters_of_the_real_functions(request, library):
    try:
        real = parameters(FUNCTIONS[library])
    except Exception as error:  # not installed, or it needs a GPU to be imported
        pytest.skip(f"{library} cannot be imported here: {error}")
    request.getfixturevalue("stand_ins")
    assert parameters(FUNCTIONS[library]) == real


def parameters(functions):
    """Of each function, names and defaults in order."""
    found = {}
    for module, names in functions.items():
        for name in names:
            function = functools.reduce(getattr, name.split("."), importlib.import_module(module))
            signature = inspect.signature(function).parameters.values()
            found[name] = [(p.name, p.kind, p.default) for p in signature]
    return found
