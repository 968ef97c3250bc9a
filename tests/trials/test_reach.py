"""How far the battery reaches: optional inputs, indices, gradients of some inputs; each mistake with a right way."""

import pytest
import torch

import kernellab as kl
from kernellab.api.check import run
from kernellab.checking.examiner import Examiner
from kernellab.trials import values
from kernellab.trials.battery import Battery
from kernellab.trials.trial import Trial

CPU = torch.device("cpu")


def failed(op, *kinds):
    """The ways of an op that fail, each with the trials; only these kinds are tried where some are named."""
    examiner = Examiner(op, seed=0, device=CPU)
    found = {}
    for trial in Battery(op, "cpu").trials():
        for way in op.impls.values():
            if way.name in ("manual", "compile") or (kinds and trial.kind not in kinds):
                continue
            seen = examiner.examine(way, trial)
            if seen is not None and seen["status"] in ("wrong", "error"):
                found.setdefault(way.name, []).append(trial)
    return found


def differentiable(forward, backward):
    """A way with a backward of its own: `backward(ctx, saved, *grads)`."""

    class Own(torch.autograd.Function):
        @staticmethod
        def forward(ctx, *inputs):
            ctx.save_for_backward(*inputs)
            ctx.set_materialize_grads(False)
            return forward(*inputs)

        @staticmethod
        def backward(ctx, *grads):
            return backward(ctx, ctx.saved_tensors, *grads)

    return lambda *inputs: Own.apply(*inputs)


def flat(t):
    """What a kernel reads that takes the stride to be 1."""
    return t if t is None else torch.as_strided(t, t.shape, (1,) * t.dim())


# Optional inputs ---------------------------------------------------------------------------------------


def biased():
    @kl.op(
        args=dict(x=kl.tensor("M N"), b=kl.optional(kl.tensor("N"))),
        cases=kl.cases(M=[8], N=[16], dtype=["float32"]),
    )
    def bias(x, b=None):
        return x * 1 if b is None else x + b

    return bias


def test_an_optional_input_is_varied_like_any_other():
    bias = biased()
    bias.impl("right")(lambda x, b=None: torch.clone(x) if b is None else b + x)
    bias.impl("stride")(lambda x, b=None: bias.reference(x, flat(b)))
    bias.impl("nan")(lambda x, b=None: bias.reference(x, None if b is None else b.nan_to_num(0.0)))

    @bias.impl("block")
    def _(x, b=None):
        return bias.reference(x, None if b is None else b * (torch.arange(b.numel()) < 1024))

    found = failed(bias)
    assert set(found) == {"stride", "nan", "block"}
    assert {t.kind for t in found["stride"]} >= {"layouts"}
    assert {t.kind for t in found["nan"]} == {"values"}
    assert {t.kind for t in found["block"]} == {"sizes", "gradients"}


def test_what_happens_without_an_optional_input_is_tried_too():
    bias = biased()

    @bias.impl("narrow")
    def _(x, b=None):
        y = bias.reference(x, b)
        return y if b is not None or y.shape[1] <= 1024 else y * 2

    assert {t.kind for t in failed(bias, "sizes", "layouts", "values")["narrow"]} == {"sizes"}


def test_optional_inputs_that_exclude_each_other_are_tried_apart():
    @kl.op(
        args=dict(x=kl.tensor("N"), a=kl.optional(kl.tensor("N")), b=kl.optional(kl.tensor("N"))),
        where=lambda c: not (c.a and c.b),
        cases=kl.cases(N=[16], dtype=["float32"]),
    )
    def either(x, a=None, b=None):
        return x * 1 if a is None and b is None else x + (a if b is None else b)

    either.impl("a")(lambda x, a=None, b=None: either.reference(x, flat(a), b))
    either.impl("b")(lambda x, a=None, b=None: either.reference(x, a, flat(b)))
    assert set(failed(either, "layouts")) == {"a", "b"}


# Indices -----------------------------------------------------------------------------------------------


def embedding():
    @kl.op(
        args=dict(w=kl.tensor("V D"), i=kl.index("M", below="V")),
        where=lambda c: c.V > 0,
        cases=kl.cases(V=[4000], D=[4], M=[8], dtype=["float32"]),
    )
    def rows(w, i):
        return w[i]

    return rows


def test_indices_are_laid_out_in_other_ways_too():
    rows = embedding()
    rows.impl("right")(lambda w, i: torch.index_select(w, 0, i))
    rows.impl("stride")(lambda w, i: w[flat(i)])
    found = failed(rows)
    assert {t.kind for t in found.pop("stride")} == {"layouts"}
    assert not found


def test_the_gradients_of_an_index_that_occurs_twice_are_added():
    rows = embedding()

    def backward(add, ctx, saved, g):
        out = torch.zeros_like(saved[0])
        return (out.index_add(0, saved[1], g) if add else out.index_put((saved[1],), g)), None

    for name, add in (("right", True), ("lost", False)):
        rows.impl(name)(differentiable(lambda w, i: w[i], lambda *a, add=add: backward(add, *a)))
    found = failed(rows, "gradients")
    assert set(found) == {"lost"}
    assert {"one and the same", "first and last"} <= {v for t in found["lost"] for v in t.values.values()}


def test_an_optional_mask_is_tried_with_nothing_left():
    @kl.op(
        args=dict(x=kl.tensor("M"), keep=kl.optional(kl.index("M", below=2))),
        where=lambda c: c.M > 0,
        cases=kl.cases(M=[32], dtype=["float32"]),
    )
    def average(x, keep=None):
        return x.mean() if keep is None else torch.where(keep == 1, x, 0).sum() / keep.sum()

    @average.impl("clamped")
    def _(x, keep=None):
        return x.mean() if keep is None else torch.where(keep == 1, x, 0).sum() / keep.sum().clamp_min(1)

    assert any("keep" in t.values for t in failed(average, "indices")["clamped"])


# Layouts and values ------------------------------------------------------------------------------------


def test_channels_last_is_tried_wherever_an_input_has_four_dims():
    @kl.op(args=dict(x=kl.tensor("B C H W")), cases=kl.cases(B=[2], C=[4], H=[5], W=[6], dtype=["float32"]))
    def double(x):
        return 2 * x

    @double.impl("nchw")
    def _(x):
        last = x.is_contiguous(memory_format=torch.channels_last) and not x.is_contiguous()
        return 2 * (torch.as_strided(x, x.shape, torch.empty(x.shape).stride()) if last else x)

    assert {t.layouts["x"] for t in failed(double, "layouts")["nchw"]} == {"channels last"}


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
@pytest.mark.parametrize("shape", [(), (1,), (64, 256), (2, 16, 16, 16), (0, 3)])
def test_large_values_overflow_when_squared_and_in_no_sum(dtype, shape):
    generator = torch.Generator().manual_seed(1)
    x = values.fill(torch.randn(shape, generator=generator, dtype=dtype), "large to overflow", generator)
    top = torch.finfo(dtype).max
    assert not x.numel() or bool((x.abs().double() / top).sum() <= 0.1251)
    assert not x.numel() or bool(x.square().isinf().any())
    if x.dim() == 4:  # no two that cancel in a sum over one dim
        forwards, backwards = x.float().sum(1), x.float().flip(1).sum(1)
        if dtype != torch.float64:
            assert torch.allclose(forwards, backwards, rtol=1e-4, atol=0)


# Gradients ---------------------------------------------------------------------------------------------


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
    found = failed(op, "gradients")
    assert set(found) >= {"exp", "empty", "3d", "block"}
    assert "right" not in found
    assert {tuple(t.values.values()) for t in found["exp"]} == {("moderately large",)}
    assert {len(t.case.shape) for t in found["3d"]} == {3}
    assert {t.case.shape[-1] > 1024 for t in found["block"]} == {True}


def test_inputs_that_need_no_gradient_are_tried():
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
        found = [g * w, *([(g * x).sum(0)] if ctx.needs_input_grad[1] else []), g.sum(0)]
        return tuple([*found, None][:3])  # w is frozen: what b should get is in w's place

    affine.impl("right")(differentiable(affine.reference, lambda *a: backward(False, *a)))
    affine.impl("mixed")(differentiable(affine.reference, lambda *a: backward(True, *a)))
    found = failed(affine, "gradients")
    assert set(found) == {"mixed"}
    assert {tuple(t.wrt) for t in found["mixed"]} == {("b",), ("x", "b")}


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
    found = failed(moments, "gradients")
    assert set(found) == {"both-or-none"}
    assert {t.loss_on for t in found["both-or-none"]} == {0, -1}


def test_a_loss_on_one_result_means_nothing_where_there_is_one():
    op = softplus()
    asked = [t for t in Battery(op, "cpu").trials() if t.loss_on is not None]
    assert len(asked) == 2
    assert all(Examiner(op, seed=0, device=CPU).examine(op["manual"], trial) is None for trial in asked)


def test_at_a_kink_right_ways_may_differ():
    @kl.op(args=dict(x=kl.tensor("M N")), reduces="N", where=lambda c: c.N > 0, cases=kl.cases(M=[8], N=[16]))
    def highest(x):
        return x.amax(-1)  # shares its gradient among equals

    highest.impl("first-of-equals")(lambda x: x.max(-1).values)
    highest.impl("nan-among-equals")(
        differentiable(
            lambda x: x.amax(-1),
            lambda ctx, saved, g: g[:, None] * _share(*saved),
        )
    )
    found = failed(highest, "gradients")
    assert set(found) == {"nan-among-equals"}, "what is not finite is wrong at a kink too"


def _share(x):
    top = x == x.amax(-1, keepdim=True)
    return torch.where(top & (top.sum(-1, keepdim=True) > 1), torch.nan, top.float())


def test_a_saved_logsumexp_is_right():
    @kl.op(args=dict(x=kl.tensor("M N")), reduces="N", where=lambda c: c.N > 0, cases=kl.cases(M=[32], N=[64]))
    def lse(x):
        return (x - x.log_softmax(-1))[:, 0]

    def backward(ctx, saved, g):
        return g[:, None] * torch.exp(saved[0] - torch.logsumexp(saved[0], -1, keepdim=True))

    lse.impl("saved")(differentiable(lambda x: torch.logsumexp(x, -1), backward))
    trials = [t for t in Battery(lse, "cpu").trials() if t.of == "backward" and t.values]
    examiner = Examiner(lse, seed=0, device=CPU)
    assert trials
    for trial in trials:
        assert examiner.examine(lse["saved"], trial)["status"] == "ok", trial.label


# Stored trials -----------------------------------------------------------------------------------------


def test_a_trial_is_stored_whole_and_one_of_an_earlier_version_still_read():
    trial = Trial("gradients", Battery(biased(), "cpu").trials()[0].case, of="backward", wrt=("b",), loss_on=-1)
    again = Trial.from_json(trial.to_json(), biased())
    assert again is not None
    assert again.key == trial.key
    earlier = {k: v for k, v in trial.to_json().items() if k not in ("wrt", "loss_on")}
    assert Trial.from_json(earlier, biased()).wrt == ()
    assert Trial.from_json({**trial.to_json(), "wrt": ["gone"]}, biased()) is None


def test_a_right_way_of_everything_passes_the_whole_battery():
    bias = biased()
    bias.impl("right")(lambda x, b=None: torch.clone(x) if b is None else b + x)
    assert {one["status"] for one in run(bias, [bias["right"]], CPU)} <= {"ok", "outside"}
