"""The ready-made kinds of values, and the special values that each allows."""

import pytest
import torch

import kernellab as kl
from kernellab.base.errors import UserError
from kernellab.trials.values import VALUES, fills_of, special_values

CPU = torch.device("cpu")
SHAPES = [(7, 24), (3,), (), (2, 5, 1), (0, 4), (4, 0)]


def sum_to_one(x):
    return not x.numel() or torch.allclose(x.double().sum(-1), torch.ones(()).double(), atol=2e-2)


HOLDS = {
    kl.positive: lambda x: bool((x > 0).all()),
    kl.nonnegative: lambda x: bool((x >= 0).all()),
    kl.scale: lambda x: bool(((x > 0.1) & (x < 10)).all()),
    kl.probabilities: lambda x: bool(((x >= 0) & (x <= 1)).all()) and sum_to_one(x),
    kl.log_probabilities: lambda x: bool((x <= 0).all()) and sum_to_one(x.double().exp()),
    kl.between(-1, 0.5): lambda x: bool(((x >= -1) & (x <= 0.5)).all()),
    kl.angle_table("cos"): lambda x: bool((x.abs() <= 1).all()),
    kl.angle_table("sin", repeat=None): lambda x: bool((x.abs() <= 1).all()),
}
KINDS = {kind.expression: (kind, holds) for kind, holds in HOLDS.items()}


def draw(kind, shape=(7, 24), dtype=torch.float32, seed=0):
    return kind(shape, dtype, CPU, torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16, torch.float64])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("name", KINDS)
def test_ordinary_and_special_values_are_what_the_kind_promises(name, shape, dtype):
    kind, holds = KINDS[name]
    arg = kl.tensor("...", values=kind)
    ordinary = draw(kind, shape, dtype)
    assert (tuple(ordinary.shape), ordinary.dtype) == (shape, dtype)
    assert bool(ordinary.isfinite().all())
    assert holds(ordinary)
    for special in special_values(arg):
        x = ordinary
        for fill in fills_of(arg, special):
            x = fill(x, torch.Generator().manual_seed(1))
        assert (tuple(x.shape), x.dtype) == (shape, dtype)
        assert bool(x.isfinite().all()), special
        assert holds(x), special


def test_every_kind_names_special_values_that_exist():
    for kind, _ in KINDS.values():
        assert set(kind.allows) <= set(VALUES)
        assert not set(kind.own) & set(VALUES)


def test_an_input_without_declared_values_may_have_all_special_values_and_one_of_a_function_none():
    assert special_values(kl.tensor("N")) == tuple(VALUES)
    assert special_values(kl.tensor("N", values=lambda *_: None)) == ()
    assert special_values(kl.mask("N")) == ()


def test_a_positive_input_is_tried_with_no_negative_number_zero_nan_or_inf():
    refused = {"with NaN", "with ±inf", "rows of -inf", "all zero", "alternating signs"}
    assert not refused & set(special_values(kl.tensor("N", values=kl.positive)))
    assert {"tiny and denormal", "large to overflow"} <= set(special_values(kl.tensor("N", values=kl.positive)))


def test_cosines_and_sines_are_of_the_same_angles():
    @kl.op(
        args=dict(
            cos=kl.tensor("S D", values=kl.angle_table("cos")), sin=kl.tensor("S D", values=kl.angle_table("sin"))
        )
    )
    def f(cos, sin):
        return cos + sin

    from kernellab.declaration.case import Case
    from kernellab.declaration.inputs import make_inputs

    first, second = (make_inputs(f, Case({"S": 9, "D": 8}, "float64"), seed, CPU) for seed in (0, 1))
    assert torch.allclose(first["cos"] ** 2 + first["sin"] ** 2, torch.ones(9, 8).double())
    assert not torch.equal(first["cos"], second["cos"]), "contents differ between seeds"


@pytest.mark.parametrize(
    ("repeat", "again"),
    [("halves", lambda t: (t[:, :4], t[:, 4:])), ("pairs", lambda t: (t[:, ::2], t[:, 1::2]))],
)
def test_the_angles_stand_twice_in_a_row(repeat, again):
    once, twice = again(draw(kl.angle_table("cos", repeat=repeat), (9, 8)))
    assert torch.equal(once, twice)
    table = draw(kl.angle_table("cos", repeat=None), (9, 8))
    assert len(set(table[1].tolist())) == 8


def test_both_ends_of_a_range_are_reached():
    arg = kl.tensor("N", values=kl.between(2, 3))
    (fill,) = fills_of(arg, "at both ends")
    assert set(fill(draw(arg.values), torch.Generator()).flatten().tolist()) == {2.0, 3.0}


@pytest.mark.parametrize(
    ("write", "message"),
    [
        (lambda: kl.between(1, 0), "the smaller one first"),
        (lambda: kl.between(float("nan"), 0), "write two numbers"),
        (lambda: kl.between(0, float("inf")), "write two numbers"),
        (lambda: kl.angle_table("tan"), "write 'cos' or 'sin'"),
        (lambda: kl.angle_table("cos", repeat="thrice"), "'halves', 'pairs' or None"),
    ],
)
def test_a_mistake_is_named(write, message):
    with pytest.raises(UserError, match=message):
        write()


def test_products_with_weights_are_of_size_1_and_only_special_values_that_make_rows_alike_are_not_tried():
    product = torch.randn(64, 1024, generator=torch.Generator().manual_seed(1)) @ draw(kl.weights, (64, 1024)).t()
    assert product.std() == pytest.approx(1, abs=0.1)
    assert set(VALUES) - set(kl.weights.special_values) == {"all equal", "alternating signs"}
