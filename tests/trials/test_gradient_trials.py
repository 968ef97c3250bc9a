"""Which mistakes in a backward pass the gradient trials find; each beside a correct implementation."""

import torch

import kernellab as kl
from kernellab.checking.examiner import Examiner
from kernellab.trials.battery import battery
from support.trying import CPU, differentiable, failures, gather_rows


def softplus(**more):
    @kl.op(cases=kl.cases(shape=[(16, 32)], dtype=["float32"]), **more)
    def softplus(x):
        return torch.nn.functional.softplus(x)

    return softplus


def test_gradients_are_tried_at_other_sizes_ranks_and_values():
    op = softplus()

    def by(slope):
        return differentiable(torch.nn.functional.softplus, lambda ctx, saved, g: g * slope(*saved))

    op.impl("right")(by(torch.sigmoid))
    op.impl("exp")(by(lambda x: x.exp() / (1 + x.exp())))
    op.impl("empty")(by(lambda x: torch.sigmoid(x) * (1 // x.numel() + 1)))
    op.impl("3d")(by(lambda x: torch.sigmoid(x) * (2 if x.dim() == 3 else 1)))
    op.impl("block")(by(lambda x: torch.sigmoid(x) * (torch.arange(x.shape[-1]) < 1024)))
    failed = failures(op, "gradients")
    assert set(failed) >= {"exp", "empty", "3d", "block"}
    assert "right" not in failed
    assert {tuple(t.values.values()) for t in failed["exp"]} == {("moderately large",)}
    assert {len(t.case.shape) for t in failed["3d"]} == {3}
    assert {t.case.shape[-1] > 1024 for t in failed["block"]} == {True}


def test_frozen_inputs_are_tried():
    @kl.op(
        args=dict(x=kl.tensor("M N"), w=kl.tensor("N"), b=kl.tensor("N")),
        cases=kl.cases(M=[8], N=[16], dtype=["float32"]),
    )
    def affine(x, w, b):
        return x * w + b

    def backward(mixed, ctx, saved, g):
        x, w, _ = saved
        if not mixed:
            return g * w, (g * x).sum(0), g.sum(0)
        gradients = [g * w, *([(g * x).sum(0)] if ctx.needs_input_grad[1] else []), g.sum(0)]
        return tuple([*gradients, None][:3])  # with w frozen, the gradient of b is in w's place

    affine.impl("right")(differentiable(affine.reference, lambda *a: backward(False, *a)))
    affine.impl("mixed")(differentiable(affine.reference, lambda *a: backward(True, *a)))
    failed = failures(affine, "gradients")
    assert set(failed) == {"mixed"}
    assert {tuple(t.wrt) for t in failed["mixed"]} == {("b",), ("x", "b")}


def test_a_loss_on_one_of_several_results_is_tried():
    @kl.op(args=dict(x=kl.tensor("M N")), reduces="N", cases=kl.cases(M=[8], N=[16], dtype=["float32"]))
    def moments(x):
        return x.sum(-1), x.square().sum(-1)

    def backward(all_or_nothing, ctx, saved, first, second):
        if all_or_nothing and (first is None or second is None):
            return None
        zero = torch.zeros(saved[0].shape[:-1])
        return (zero if first is None else first)[:, None] + (zero if second is None else second)[:, None] * 2 * saved[
            0
        ]

    moments.impl("right")(differentiable(moments.reference, lambda *a: backward(False, *a)))
    moments.impl("both-or-none")(differentiable(moments.reference, lambda *a: backward(True, *a)))
    failed = failures(moments, "gradients")
    assert set(failed) == {"both-or-none"}
    assert {t.loss_on for t in failed["both-or-none"]} == {0, -1}


def test_a_loss_on_one_result_does_not_apply_where_there_is_one():
    op = softplus()
    trials = [t for t in battery(op, "cpu") if t.loss_on is not None]
    assert len(trials) == 2
    assert all(Examiner(op, seed=0, device=CPU).examine(op["manual"], trial) is None for trial in trials)


def test_the_gradients_of_an_index_that_occurs_twice_are_added():
    rows = gather_rows()

    def backward(add, ctx, saved, g):
        out = torch.zeros_like(saved[0])
        return (out.index_add(0, saved[1], g) if add else out.index_put((saved[1],), g)), None

    for name, add in (("right", True), ("lost", False)):
        rows.impl(name)(differentiable(lambda w, i: w[i], lambda *a, add=add: backward(add, *a)))
    failed = failures(rows, "gradients")
    assert set(failed) == {"lost"}
    assert {"one and the same", "first and last"} <= {v for t in failed["lost"] for v in t.values.values()}


def test_gradients_are_tried_with_as_many_rows_as_the_forward_pass():
    @kl.op(args=dict(x=kl.tensor("... N"), w=kl.tensor("N")), cases=kl.cases(shape=[(64, 32)], dtype=["float32"]))
    def scale(x, w):
        return x * w

    def backward(rows, ctx, saved, g):
        x, w = saved
        return g * w, (g * x).reshape(-1, w.numel())[:rows].sum(0) if w.numel() else w

    scale.impl("right")(differentiable(scale.reference, lambda *a: backward(None, *a)))
    for rows in (1024, 2048, 65536):
        scale.impl(f"first-{rows}")(differentiable(scale.reference, lambda *a, rows=rows: backward(rows, *a)))
    assert set(failures(scale, "gradients")) == {"first-1024", "first-2048", "first-65536"}


def test_gradients_are_tried_at_the_declared_case():
    @kl.op(args=dict(x=kl.tensor("M N")), cases=kl.cases(M=[600], N=[700], dtype=["float32"]))
    def double(x):
        return 2 * x

    def backward(wrong, ctx, saved, g):
        return g * (3 if wrong and min(g.shape) > 512 and max(g.shape) < 1000 else 2)

    double.impl("right")(differentiable(double.reference, lambda *a: backward(False, *a)))
    double.impl("between")(differentiable(double.reference, lambda *a: backward(True, *a)))
    failed = failures(double, "gradients")
    assert {t.case.shape for t in failed.pop("between")} >= {(600, 700)}
    assert not failed


def test_gradients_of_other_option_values_are_tried_in_other_dtypes_at_other_sizes_and_upstream():
    @kl.op(
        args=dict(x=kl.tensor("M N")),
        options=dict(square=[False, True]),
        cases=kl.cases(M=[8], N=[32], dtype=["float32", "bfloat16"]),
    )
    def power(x, *, square=False):
        return x * x if square else x * 1

    def by(fault):
        square = differentiable(lambda x: x * x, lambda ctx, saved, g: fault(2 * g * saved[0], saved[0], g))
        return lambda x, *, square_=square, square=False: square_(x) if square else x * 1

    power.impl("right")(by(lambda out, x, g: out))
    power.impl("bf16")(by(lambda out, x, g: out * (2 if x.dtype == torch.bfloat16 else 1)))
    power.impl("late-rows")(by(lambda out, x, g: out * (torch.arange(x.shape[0])[:, None] < 2048)))
    power.impl("expanded")(by(lambda out, x, g: out * (2 if g.stride() == (0, 0) and g.numel() > 1 else 1)))
    assert set(failures(power, "gradients")) == {"bf16", "late-rows", "expanded"}


def test_long_sums_of_gradients_are_tried_in_the_narrowest_dtype():
    @kl.op(
        args=dict(x=kl.tensor("M N"), b=kl.tensor("N")),
        cases=kl.cases(M=[8], N=[16], dtype=["float32", "bfloat16"]),
    )
    def add(x, b):
        return x + b

    def in_16_bits(ctx, saved, g):
        total = torch.zeros_like(saved[1])
        for rows in g.split(8):
            total = total + rows.sum(0)
        return g, total

    add.impl("right")(differentiable(add.reference, lambda ctx, saved, g: (g, g.sum(0))))
    add.impl("16-bits")(differentiable(add.reference, in_16_bits))
    examiner = Examiner(add, seed=0, device=CPU)
    not_right = {
        (impl, trial.case.dtype)
        for trial in battery(add, "cpu")
        for impl in ("right", "16-bits")
        if trial.kind == "gradients" and (outcome := examiner.examine(add[impl], trial)) is not None
        if outcome.status in ("imprecise", "wrong")
    }
    assert not_right == {("16-bits", "bfloat16")}
