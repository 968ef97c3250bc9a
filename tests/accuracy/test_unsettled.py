"""NaN and inf that the definition of an op does not settle."""

import math

import pytest
import torch

import kernellab as kl
from kernellab.accuracy.unsettled import UnsettledValues
from support.trying import examine, op_of, plane

WITH_INF = "with ±inf"


def attention_to_earlier_rows():
    """`p @ v` with lower triangular weights: later rows of v have weight 0."""

    def weights(p):
        return torch.softmax(p, -1).tril()

    @kl.op(args=dict(p=kl.tensor("N N"), v=kl.tensor("N D")), reduces="N")
    def mix(p, v):
        return weights(p) @ v

    def block_by_block(p, v, last=lambda stop: stop):
        rows = [weights(p)[n : n + 8, : last(n + 8)] @ v[: last(n + 8)] for n in range(0, len(p), 8)]
        return torch.cat(rows) if rows else torch.zeros_like(v)

    mix.impl("skips")(block_by_block)
    mix.impl("too many")(lambda p, v: block_by_block(p, v, lambda stop: stop - 8))
    mix.impl("finite")(lambda p, v: weights(p) @ v.nan_to_num(posinf=0, neginf=0))
    mix.impl("no nan")(lambda p, v: (weights(p) @ v).nan_to_num(posinf=torch.inf, neginf=-torch.inf, nan=0))
    return mix


def test_what_has_a_weight_of_0_may_be_skipped():
    op = attention_to_earlier_rows()
    sizes = {"N": 32, "D": 16}
    for values in ({"v": WITH_INF}, {}):
        assert examine(op, "skips", sizes, values=values).status == "ok"
        assert examine(op, "too many", sizes, values=values).status == "wrong"
    assert examine(op, "finite", sizes, values={"v": WITH_INF}).status == "wrong"
    assert examine(op, "no nan", sizes, values={"v": WITH_INF}).status == "wrong"


def coins(shape, dtype, device, generator):
    return torch.rand(shape, generator=generator, device=device) < 0.5


def test_a_mask_may_be_applied_by_choosing():
    @kl.op(args=dict(x=kl.tensor("N"), keep=kl.tensor("N", dtype="bool", values=coins)))
    def drop(x, keep):
        return x * keep

    drop.impl("chooses")(lambda x, keep: torch.where(keep, x, 0))
    drop.impl("chooses the others")(lambda x, keep: torch.where(keep, 0, x))
    assert examine(drop, "chooses", {"N": 512}, values={"x": WITH_INF}).status == "ok"
    assert examine(drop, "chooses the others", {"N": 512}, values={"x": WITH_INF}).status == "wrong"


def test_a_softmax_of_inf_is_nan_and_nothing_else():
    op = op_of(lambda x: torch.softmax(x, -1), "N", limit=lambda x: torch.softmax(x.clamp(-1e30, 1e30), -1))
    outcome = examine(op, "limit", plane(64), values={"x": WITH_INF})
    assert outcome.status == "wrong"
    assert "NaN or inf" in outcome.reason


@pytest.mark.parametrize(("signs", "settled"), [((1.0, 1.0), torch.inf), ((1.0, -1.0), torch.nan)])
def test_weights_of_both_signs_are_nan(signs, settled):
    w = torch.tensor([[*signs, 0.0]])
    x = torch.tensor([torch.inf, torch.inf, -torch.inf])

    def reference(inputs):
        return ((w.double() @ inputs["x"].double()[:, None]).flatten(),)

    unsettled = UnsettledValues(reference, {"x": x}, reference({"x": x}))
    for got in (torch.inf, -torch.inf, torch.nan, 1.0):
        value = float(unsettled.settle(0, torch.tensor([got])))
        assert math.isnan(value) or (value, got) == (settled, settled)
    assert float(unsettled.settle(0, torch.tensor([torch.inf]))) == settled or math.isnan(settled)
