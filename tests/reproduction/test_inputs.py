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
from kernellab.trials.trial_inputs import UPSTREAM, make_inputs
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
    names = ScriptNames(FreeNames(()), {"skip": literal(trial.case.skip)})
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
        bits = {8: torch.int64, 4: torch.int32, 2: torch.int16}[x.element_size()]
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


@pytest.mark.parametrize("upstream", UPSTREAM)
def test_upstream_gradients_are_the_same(upstream):
    assert_the_same(gathered, Trial("gradients", CASES[0], pass_name="backward", upstream=upstream))


def test_memory_around_an_input_is_as_wide_as_kernellabs_guard_bands():
    for dtype in (torch.bfloat16, torch.float16):
        assert BAND * dtype.itemsize == BAND_BYTES
