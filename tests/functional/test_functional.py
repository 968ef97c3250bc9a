"""kernellab.functional has the semantics of torch.nn.functional, whichever of the two serves."""

import inspect

import pytest
import torch
import torch.nn.functional as F

import kernellab as kl
from support.functional_calls import LAYOUTS, NAMESAKES, REFERENCES, calls, outcome, values
from support.serving import OPERATORS, kernels_serve, own_table

K = kl.functional


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", calls())
def test_results_strides_and_gradients_are_pytorchs(name, layout):
    function = name.split()[0]
    ours = outcome(*calls(LAYOUTS[layout])[name](getattr(K, function)))
    theirs = outcome(*calls(LAYOUTS[layout])[name](REFERENCES[function]))
    torch.testing.assert_close(ours, theirs, equal_nan=True)  # the mean of no losses is NaN
    if function != "rope" and "linear" not in function:  # PyTorch has no rope; gradients of matmuls are as they come
        contiguous = layout == "contiguous" or len(theirs[0]) == 1
        assert [y.stride() for y in ours[0] if contiguous] == [y.stride() for y in theirs[0] if contiguous]
    assert [y.requires_grad for y in ours[0]] == [y.requires_grad for y in theirs[0]]


@pytest.fixture
def served(monkeypatch):
    """The names of the operators that were called."""
    called = []
    for name, operator in OPERATORS.items():
        monkeypatch.setattr(operator, "call", lambda *args, n=name, c=operator.call: (called.append(n), c(*args))[1])
    return called


@pytest.mark.parametrize("name", calls())
def test_these_calls_are_served_by_the_kernels(name, served):
    inputs, call = calls()[name](getattr(K, name.split()[0]))
    call(*inputs)
    assert served == [name.split()[0]]


X, W = values(4, 8), torch.rand(8)
CLASSES = torch.tensor([0, 1, 2, 7])
Q, COS, SIN = values(2, 3, 5, 8), values(5, 4), values(5, 4, seed=1)
NOT_COVERED = {
    "softmax over another dim": lambda f: f("softmax")(values(4, 8, 3), 1),
    "softmax in another dtype": lambda f: f("softmax")(X, -1, dtype=torch.float64),
    "softmax of a number": lambda f: f("softmax")(torch.tensor(3.0), 0),
    "silu in place": lambda f: f("silu")(X.clone(), inplace=True),
    "a norm over two dims": lambda f: f("layer_norm")(values(2, 3, 4), (3, 4)),
    "a weight of another dtype": lambda f: f("rms_norm")(X, (8,), W.double(), 1e-6),
    "class weights": lambda f: f("cross_entropy")(X, CLASSES, weight=W),
    "probabilities": lambda f: f("cross_entropy")(X, torch.softmax(X, -1)),
    "classes in dim 1 of several": lambda f: f("cross_entropy")(values(4, 8, 2), torch.stack([CLASSES] * 2, -1)),
    "one row": lambda f: f("cross_entropy")(X[0], CLASSES[0]),
    "the old reduction": lambda f: f("cross_entropy")(X, CLASSES, size_average=False),
    "a gate that is broadcast": lambda f: f("swiglu")(X, X[:1]),
    "another dtype beside the gate": lambda f: f("geglu")(X, X.double()),
    "a residual that is broadcast": lambda f: f("add_rms_norm")(values(1, 4, 8), X, (8,), W, 1e-6)[1],
    "a layer with one output": lambda f: f("linear_gelu")(X, W),
    "a bias of the vocabulary": lambda f: f("linear_cross_entropy")(X, X, CLASSES % 4, linear_bias=W[:4]),
    "weights of the vocabulary": lambda f: f("linear_cross_entropy")(X, X, CLASSES % 4, weight=W[:4]),
    "probabilities of the vocabulary": lambda f: f("linear_cross_entropy")(X, X, torch.softmax(X[:, :4], -1)),
    "one token": lambda f: f("linear_cross_entropy")(X[0], X, CLASSES[0]),
    "tables for each sequence": lambda f: f("rope")(Q, Q, COS.expand(2, 1, 5, 4), SIN.expand(2, 1, 5, 4))[0],
    "tables that are learned": lambda f: f("rope")(Q, Q, COS.clone().requires_grad_(), SIN)[0],
}


@pytest.mark.parametrize("case", NOT_COVERED)
def test_what_the_kernels_do_not_cover_pytorch_computes(case, served):
    ours = NOT_COVERED[case](lambda name: getattr(K, name))
    torch.testing.assert_close(ours, NOT_COVERED[case](REFERENCES.__getitem__))
    assert set(served) <= {"rms_norm"}  # which serves the norm of a sum


@pytest.mark.filterwarnings("ignore:Implicit dimension choice")
@pytest.mark.parametrize(
    "call",
    [
        lambda f: f("gelu")(X, approximate="sigmoid"),
        lambda f: f("gelu")([1.0]),
        lambda f: f("softmax")(X, 2),
        lambda f: f("softmax")(X, None, dtype="float32"),
        lambda f: f("layer_norm")(X, 8),
        lambda f: f("layer_norm")(X, (7,)),
        lambda f: f("layer_norm")(X, (8,), W[:7]),
        lambda f: f("rms_norm")(X, ()),
        lambda f: f("cross_entropy")(X, CLASSES[:3]),
        lambda f: f("cross_entropy")(X, CLASSES + 1),
        lambda f: f("cross_entropy")(X, CLASSES.float()),
        lambda f: f("cross_entropy")(X, CLASSES, reduction="median"),
        lambda f: f("cross_entropy")(X, CLASSES, label_smoothing=2.0),
        lambda f: f("swiglu")(X, X[:, :3]),
        lambda f: f("add_rms_norm")(X, X[:, :3], (8,)),
        lambda f: f("linear_gelu")(X, W[None, :7]),
        lambda f: f("linear_gelu")(X, X, W),
        lambda f: f("linear_gelu")(X, X, approximate="sigmoid"),
        lambda f: f("linear_cross_entropy")(X, X, CLASSES),
        lambda f: f("linear_cross_entropy")(X, X, CLASSES[:3]),
        lambda f: f("linear_cross_entropy")(X, X, CLASSES % 4, reduction="median"),
        lambda f: f("rope")(Q, Q, COS[:3], SIN[:3]),
    ],
)
def test_wrong_input_raises_the_type_of_error_that_pytorch_raises(call):
    with pytest.raises(Exception) as theirs:
        call(REFERENCES.__getitem__)
    with pytest.raises(theirs.type):
        call(lambda name: getattr(K, name))


# PyTorch has it from 2.13 on.
NEW_NAMESAKES = [name for name in ("linear_cross_entropy",) if hasattr(F, name)]


@pytest.mark.parametrize("name", [*NAMESAKES, *NEW_NAMESAKES])
def test_a_namesake_has_the_signature_of_pytorchs_function(name):
    try:
        theirs = inspect.signature(getattr(F, name))
    except ValueError:  # built in: documented as gelu(input, approximate = 'none')
        assert str(inspect.signature(K.gelu)).startswith("(input: 'Tensor', approximate: 'str' = 'none')")
        return
    ours = inspect.signature(getattr(K, name))
    expected = [(p.name, p.kind, p.default) for p in theirs.parameters.values()]
    assert [(p.name, p.kind, p.default) for p in ours.parameters.values()] == expected


def test_every_operator_has_a_function():
    assert set(K.__all__) == {operator.function for operator in OPERATORS.values()}


def test_rows_that_are_apart_are_read_where_they_are():
    """No copy, if the columns are neighbours in memory: the kernel gets the tensor, and allocates only its outputs."""
    x = values(6, 40)[:, 8:24]
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as recording:
        K.softmax(x, -1)
        K.layer_norm(x, (16,))
        K.cross_entropy(x, torch.tensor([0, 1, 2, 3, 4, 5]), reduction="none")
        K.swiglu(x, x)
    seen = {event.key for event in recording.key_averages()}
    assert {"kernellab::softmax", "kernellab::layer_norm", "kernellab::cross_entropy", "kernellab::swiglu"} <= seen
    assert not seen & {"aten::copy_", "aten::clone", "aten::contiguous"}


@pytest.mark.parametrize(
    ("name", "dtype"),
    [(name, torch.float32) for name in REFERENCES] + [("softmax", torch.bfloat16), ("cross_entropy", torch.bfloat16)],
)
def test_autocast_on_the_cpu_gives_the_dtypes_that_it_gives_pytorchs_functions(name, dtype):
    inputs, call = calls(dtype=dtype)[name](getattr(K, name))
    _, reference = calls(dtype=dtype)[name](REFERENCES[name])
    with torch.autocast("cpu", torch.bfloat16):
        (ours, ours_gradients), (theirs, theirs_gradients) = outcome(inputs, call), outcome(inputs, reference)
    assert [y.dtype for y in (*ours, *ours_gradients)] == [y.dtype for y in (*theirs, *theirs_gradients)]


def test_without_a_compiler_pytorch_serves_quietly(monkeypatch, served):
    monkeypatch.setattr("kernellab.machine.tools.cxx", lambda: None)
    with kernels_serve():
        torch.testing.assert_close(K.softmax(X, -1), torch.softmax(X, -1))
    assert served == []


def test_small_tensors_on_the_cpu_are_pytorchs_by_the_shipped_table(served):
    with own_table(""):
        K.softmax(X, -1)
        K.rms_norm(X, (8,))
    assert served == []
