"""The inputs that a script makes are the trial's own."""

import pytest
import torch

import kernellab as kl
from kernellab.checking.outcome import Outcome
from kernellab.declaration.case import Case
from kernellab.reproduction.call import ScriptNames
from kernellab.reproduction.inputs import BAND, write_trial
from kernellab.reproduction.names import FreeNames
from kernellab.reproduction.source_values import literal
from kernellab.trials.guard_bands import BAND_BYTES
from kernellab.trials.layouts import LAYOUTS, fits
from kernellab.trials.trial import Trial
from kernellab.trials.trial_inputs import UPSTREAM, UPSTREAM_LAYOUTS, make_inputs
from kernellab.trials.values import INDICES, VALUES
from support.trying import CPU

WRONG_VALUES = Outcome("wrong", "values:")


@kl.op(
    args=dict(x=kl.tensor("... N"), i=kl.index("N", below="N", sentinel="skip")),
    options=dict(skip=[-1, None]),
    dtypes=["float32", "bfloat16", "float64"],
)
def gathered(x, i, *, skip=-1):
    return x[..., i.clamp_min(0)]


def inputs_of_script(op, trial, seed=0):
    """The inputs that a script makes, without the call below them."""
    names = ScriptNames(FreeNames(()), {name: literal(value) for name, value in op.call_options(trial.case).items()})
    lines = write_trial(op, trial, WRONG_VALUES, seed, names)
    (call,) = (at for at, line in enumerate(lines) if line.startswith(("got, want", "def gradients")))
    variables = {"torch": torch}
    exec("\n".join(lines[:call]), variables)
    return variables


def assert_the_same(op, trial, seed=0):
    made = inputs_of_script(op, trial, seed)
    for name, x in make_inputs(op, trial, seed, CPU, guarded=True).tensors.items():
        y = made[name.replace("upstream gradient ", "upstream_")]
        assert (x.dtype, x.shape, x.stride()) == (y.dtype, y.shape, y.stride())
        bits = {8: torch.int64, 4: torch.int32, 2: torch.int16, 1: torch.int8}[x.element_size()]
        same = torch.equal(x.contiguous().view(bits), y.contiguous().view(bits))
        assert same or (torch.equal(x.isnan(), y.isnan()) and torch.equal(x.nan_to_num(), y.nan_to_num()))
        laid_out = x.numel() and (name in trial.layouts or trial.upstream == "non-contiguous")
        assert not laid_out or (x.storage_offset(), _memory(x)) == (y.storage_offset(), _memory(y))


def _memory(x):
    return x.untyped_storage().nbytes()


CASES = [
    Case({"...": lead, "N": n}, dtype, {"skip": skip})
    for lead, n, dtype, skip in (
        ((3,), 17, "float32", -1),
        ((), 1, "bfloat16", -1),
        ((2, 1), 8, "float64", None),
        ((0,), 5, "float32", -1),
    )
]


@pytest.mark.parametrize("kind", VALUES)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.label)
def test_values_are_the_same(case, kind):
    assert_the_same(gathered, Trial("values", case, values={"x": kind}), seed=5)


@pytest.mark.parametrize("kind", INDICES)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.label)
def test_indices_are_the_same(case, kind):
    assert_the_same(gathered, Trial("indices", case, values={"i": kind}), seed=5)


@pytest.mark.parametrize("layout", [name for name in LAYOUTS if fits(name, 2)])
@pytest.mark.parametrize("case", [CASES[0], CASES[3]], ids=lambda case: case.label)
def test_layouts_are_the_same_and_memory_ends_at_the_same_element(case, layout):
    on = {"x": layout, **({"i": layout} if fits(layout, 1) else {})}
    assert_the_same(gathered, Trial("layouts", case, layouts=on))


@pytest.mark.parametrize("upstream", [*UPSTREAM, *UPSTREAM_LAYOUTS])
@pytest.mark.parametrize("case", [CASES[0], CASES[2]], ids=lambda case: case.label)
def test_upstream_gradients_are_the_same(case, upstream):
    assert_the_same(gathered, Trial("gradients", case, pass_name="backward", upstream=upstream))


def test_one_tensor_for_two_inputs_is_one_in_the_script():
    @kl.op(args=dict(x=kl.tensor("M N"), y=kl.tensor("M N")))
    def add(x, y):
        return x + y

    trial = Trial("calls", Case({"M": 3, "N": 4}, "float32"), same=("x", "y"))
    assert_the_same(add, trial)
    made = inputs_of_script(add, trial)
    assert made["x"] is made["y"]


def test_memory_around_an_input_is_as_wide_as_kernellabs_guard_bands():
    for dtype in (torch.bfloat16, torch.float16):
        assert BAND * dtype.itemsize == BAND_BYTES


VALUE_KINDS = (
    kl.positive,
    kl.nonnegative,
    kl.scale,
    kl.weights,
    kl.probabilities,
    kl.log_probabilities,
    kl.between(-1, 2.5),
    kl.angle_table("sin"),
    kl.angle_table("cos", repeat="pairs"),
)


@pytest.mark.parametrize("kind", VALUE_KINDS, ids=lambda kind: kind.expression)
@pytest.mark.parametrize("sizes", [{"M": 3, "N": 16}, {"M": 0, "N": 4}], ids=str)
def test_declared_values_are_the_same(sizes, kind):
    @kl.op(args=dict(x=kl.tensor("M N", values=kind), y=kl.tensor("1 N/1", values=kind), m=kl.mask("M")))
    def f(x, y, m):
        return x + y

    for special in (None, *kind.special_values):
        for dtype in ("float32", "bfloat16"):
            values = {} if special is None else {"x": special, "y": special}
            assert_the_same(f, Trial("values", Case(sizes, dtype), values=values), seed=3)


def test_large_values_of_several_inputs_have_one_sign_in_a_script_too():
    @kl.op(args=dict(x=kl.tensor("N"), y=kl.tensor("N")), reduces="N")
    def dot(x, y):
        return (x * y).sum()

    assert_the_same(dot, Trial("values", Case({"N": 64}, "float32"), values=dict.fromkeys("xy", "large to overflow")))
