"""Correct implementations that must not be called wrong, each beside a wrong one that must be."""

import pytest
import torch
import torch.nn.functional as F

import kernellab as kl
from kernellab.accuracy.errors import digits_that_differ
from kernellab.accuracy.judge import judge_values
from kernellab.accuracy.outputs import Wrong
from kernellab.checking.examiner import NOT_BECAUSE_THE_SAME, Examiner
from kernellab.declaration.case import Case
from kernellab.declaration.kinds import KINDS
from kernellab.declaration.op import Impl
from kernellab.trials.trial import Trial
from support.trying import CPU, examine, op_of, plane

LARGE = {"x": "large to overflow"}


# Where PyTorch itself overflows ---------------------------------------------------------------------------


def test_nothing_can_be_told_where_pytorch_overflows_and_the_oracle_does_not():
    op = op_of(lambda x: F.layer_norm(x, x.shape[-1:]), "N", torch=lambda x: F.layer_norm(x, x.shape[-1:]))

    @op.impl("two passes")
    def _(x):
        c = x - x.mean(-1, keepdim=True)
        return c * torch.rsqrt((c * c).mean(-1, keepdim=True) + 1e-5)

    op.impl("zeros")(torch.zeros_like)
    for name in ("torch", "two passes", "zeros"):
        outcome = examine(op, name, plane(128), values=LARGE)
        assert (outcome.status, "overflows" in outcome.reason) == ("unknown", True), name
    assert examine(op, "zeros", plane(128)).status == "wrong"


def test_elements_at_which_the_reference_overflows_are_not_judged_and_the_others_are():
    def overflows_above_one(x):
        return torch.where(x > 1, x * 1e38 * 1e38 * 1e-38 * 1e-38, x)

    op = op_of(
        overflows_above_one,
        finite=lambda x: torch.where(x > 1, 7.0, x),
        inf=lambda x: torch.where(x > 1, torch.inf, x),
        wrong=lambda x: torch.where(x > 1, 7.0, 2 * x),
        nan=lambda x: torch.where(x > 0, torch.nan, x),
    )
    statuses = {name: examine(op, name, plane()).status for name in ("finite", "inf", "wrong", "nan")}
    assert statuses == {"finite": "ok", "inf": "ok", "wrong": "wrong", "nan": "wrong"}


# What torch.compile generates -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "dtype", "factor", "right"),
    [
        ("compile", "float32", 1 + 8e-6, True),
        ("compile", "float32", 1 + 3e-5, False),
        ("compile", "float64", 1 + 8e-6, False),
        ("python", "float32", 1 + 8e-6, False),
    ],
)
def test_compiled_code_may_approximate_as_pytorch_does(kind, dtype, factor, right):
    op = op_of(lambda x: torch.erf(x), dtypes=[dtype])
    trial = Trial("declared", Case(plane(), dtype))
    prepared = Examiner(op, seed=0, device=CPU).prepare(trial)
    impl = Impl(op, "mine", op.reference, KINDS[kind])
    outputs = tuple((t * factor).to(t.dtype) for t in prepared.peer)

    def judge():
        return judge_values(op, impl, outputs, prepared, pass_name="forward", check_nonfinite=True)

    if right:
        assert judge().imprecision is None
    else:
        with pytest.raises(Wrong):
            judge()


# Sums -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(6))
def test_a_sum_in_another_order_is_not_wrong_without_declared_reduction(seed):
    def dot(x):
        flat = x.reshape(-1)
        return torch.dot(flat, torch.ones_like(flat))

    op = op_of(lambda x: x.sum(), dot=dot, bits=lambda x: x.bfloat16().float().sum(), zero=lambda x: x.sum() * 0)
    for sizes, values in ((plane(32769, 3), {}), (plane(256, 64), {"x": "all equal"})):
        assert examine(op, "dot", sizes, seed, values=values).status in ("ok", "imprecise"), sizes
        assert examine(op, "zero", sizes, seed, values=values).status == "wrong", sizes
    assert examine(op, "bits", plane(256, 64), seed, values={"x": "all equal"}).status == "wrong"


@pytest.mark.parametrize("reduces", ["N", ""])
def test_the_mean_of_squares_less_the_square_of_the_mean_is_wrong_with_a_large_mean(reduces):
    def shifted(shape, dtype, device, generator):
        return torch.randn(shape, dtype=dtype, device=device, generator=generator) + 3000.0

    op = kl.op(args=dict(x=kl.tensor("... N")), reduces=reduces, values=dict(x=shifted))(
        lambda x: x.var(-1, correction=0)
    )
    op.impl("one pass")(lambda x: (x * x).mean(-1) - x.mean(-1).square())
    op.impl("two passes")(lambda x: (x - x.mean(-1, keepdim=True)).square().mean(-1))
    for seed in range(3):
        assert examine(op, "one pass", plane(512, 8), seed).status == "wrong"
        assert examine(op, "two passes", plane(512, 8), seed).status in ("ok", "imprecise")


@pytest.mark.parametrize("seed", range(4))
def test_the_deviation_of_equal_rows_may_be_a_rounding_of_the_mean(seed):
    def two_passes(x):
        return (x - x.mean(0)).square().sum(0).div(x.shape[0] - 1).sqrt()

    op = op_of(lambda x: x.std(0), dims="M N", right=two_passes, wrong=lambda x: two_passes(x) + 1e-4)
    sizes, layouts = {"M": 7, "N": 31}, {"x": "expanded rows"}
    assert examine(op, "right", sizes, seed, layouts=layouts).status == "ok"
    assert examine(op, "wrong", sizes, seed, layouts=layouts).status == "wrong"


@pytest.mark.parametrize("seed", range(4))
def test_a_sum_of_denormal_terms_may_be_off_by_some_of_their_spacings(seed):
    op = op_of(lambda x: x.mean(-1), scaled=lambda x: (x / x.shape[-1]).sum(-1), doubled=lambda x: x.mean(-1) * 2)
    values = {"x": "tiny and denormal"}
    assert examine(op, "scaled", plane(256, 64), seed, values=values).status == "ok"
    assert examine(op, "doubled", plane(256, 64), seed, values=values).status == "wrong"


def test_denormal_numbers_taken_as_0_are_imprecise_and_normal_ones_wrong():
    tiny = {"x": "tiny and denormal"}

    def flush(limit):
        return lambda x: torch.where(x.abs() < limit, 0.0 * x, torch.asin(x))

    smallest = torch.finfo(torch.float32).tiny
    op = op_of(
        lambda x: torch.asin(x),
        flushes=flush(smallest),
        zeros=flush(4 * smallest),
        scales=lambda x: torch.asin(x) * 1.1,
    )
    outcome = examine(op, "flushes", plane(), values=tiny)
    assert (outcome.status, "takes denormal numbers as 0" in outcome.reason) == ("imprecise", True)
    assert examine(op, "zeros", plane(), values=tiny).status == "wrong"
    assert examine(op, "scales", plane(), values=tiny).status == "wrong"


def test_attention_to_itself_is_not_wrong_because_its_gradients_cancel():
    sizes = {"S": 64, "D": 64}

    def attention(round_result, add):
        class Attention(torch.autograd.Function):
            @staticmethod
            def forward(ctx, q, k, v):
                p = torch.softmax(q.float() @ k.float().mT, -1)
                o = round_result(p @ v.float())
                ctx.save_for_backward(q, k, v, o)
                return o.to(q.dtype)

            @staticmethod
            def backward(ctx, g):
                q, k, v, o = (t.float() for t in ctx.saved_tensors)
                p = torch.softmax(q @ k.mT, -1)
                s = p * (g.float() @ v.mT - (o * g.float()).sum(-1, keepdim=True))
                same = add if ctx.saved_tensors[0].data_ptr() == ctx.saved_tensors[1].data_ptr() else 0
                return tuple(t.to(g.dtype) for t in (s @ k + same, s.mT @ q, p.mT @ g.float()))

        return Attention.apply

    @kl.op(args=dict.fromkeys("qkv", kl.tensor("S D")), reduces="S D", dtypes=["float16"])
    def attend(q, k, v):
        return (torch.softmax(q.float() @ k.float().mT, -1) @ v.float()).to(q.dtype)

    attend.impl("rounds its result")(attention(lambda o: o.half(), 0))
    attend.impl("is wrong with one tensor")(attention(lambda o: o.half(), 1))
    same = dict(dtype="float16", pass_name="backward", same=("q", "k"))
    outcome = examine(attend, "rounds its result", sizes, **same)
    assert (outcome.status, outcome.notes) == ("ok", (NOT_BECAUSE_THE_SAME,))
    assert examine(attend, "is wrong with one tensor", sizes, **same).status == "wrong"


def test_rounding_is_allowed_for_in_large_tensors_too():
    def column_by_column(x):
        total = torch.zeros_like(x[:, 0])
        for column in x.unbind(-1):
            total += column
        return total

    op = op_of(lambda x: x.sum(-1), "N", slow=column_by_column, wrong=lambda x: column_by_column(x[:, 1:]))
    large = plane(4099, 520)  # 2 million elements
    assert examine(op, "slow", large).status in ("ok", "imprecise")
    assert examine(op, "wrong", large).status == "wrong"


def test_a_chain_of_16_bit_operators_is_imprecise_in_large_tensors_too():
    def chain(x):
        for _ in range(4):
            x = x * x
        return x

    op = op_of(chain, torch=lambda x: x.double().pow(16).to(x.dtype), chain=chain, wrong=lambda x: chain(x) * 1.25)
    large = plane(2048, 1025)  # 2 million elements
    assert examine(op, "chain", large, dtype="bfloat16").status == "imprecise"
    assert examine(op, "wrong", large, dtype="bfloat16").status == "wrong"


# Gradients that cancel ------------------------------------------------------------------------------------


class Backwards(torch.autograd.Function):
    """The softmax with a gradient of the wrong sign."""

    @staticmethod
    def forward(ctx, x):
        y = torch.softmax(x, -1)
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx, grad):
        (y,) = ctx.saved_tensors
        return y * ((grad * y).sum(-1, keepdim=True) - grad)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_a_chain_in_16_bits_is_not_wrong_where_its_gradient_cancels(dtype):
    def chain(x):
        e = torch.exp(x - x.amax(-1, keepdim=True))
        return e / e.sum(-1, keepdim=True)

    softmax = lambda x: torch.softmax(x, -1)  # noqa: E731
    op = op_of(softmax, "N", dtypes=[dtype], torch=softmax, chain=chain, backwards=Backwards.apply)
    for seed in range(4):
        for upstream in ("expanded", "random"):
            outcome = examine(op, "chain", plane(128), seed, dtype, pass_name="backward", upstream=upstream)
            assert outcome.status in ("ok", "imprecise"), outcome.reason
        outcome = examine(op, "backwards", plane(128), seed, dtype, pass_name="backward")
        assert outcome.status == "wrong"


def test_a_row_whose_gradient_cancels_excuses_no_other_row():
    def llama(x, w):
        h = x.float()
        return w * (h * torch.rsqrt(h.pow(2).mean(-1, keepdim=True) + 1e-6)).to(x.dtype)

    class NoGradient(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, w):
            return F.rms_norm(x, x.shape[-1:], w, 1e-6)

        @staticmethod
        def backward(ctx, grad):
            return torch.zeros_like(grad), grad.sum(0) * 0

    op = kl.op(args=dict(x=kl.tensor("M N"), w=kl.tensor("N")), reduces="N", dtypes=["bfloat16"])(
        lambda x, w: F.rms_norm(x, x.shape[-1:], w, 1e-6)
    )
    op.impl("torch")(lambda x, w: F.rms_norm(x, x.shape[-1:], w, 1e-6))
    op.impl("llama")(llama)
    op.impl("zero")(NoGradient.apply)
    for seed in range(3):
        sizes = {"M": 65537, "N": 2}
        outcome = examine(op, "llama", sizes, seed, "bfloat16", pass_name="backward")
        assert outcome.status in ("ok", "imprecise"), outcome.reason
        outcome = examine(op, "zero", sizes, seed, "bfloat16", pass_name="backward")
        assert (outcome.status, "the gradient of x" in outcome.reason) == ("wrong", True)


# Integers -------------------------------------------------------------------------------------------------


def test_nan_converted_to_an_integer_may_be_any_integer():
    def quantise(x, of_nan):
        r = torch.round(x / (x.abs().amax(-1, keepdim=True) / 127))
        return torch.where(r.isfinite(), r, of_nan).to(torch.int8)

    op = op_of(
        lambda x: torch.round(x / (x.abs().amax(-1, keepdim=True) / 127)).to(torch.int8),
        other=lambda x: quantise(x, -128.0),
        wrong=lambda x: quantise(x, -128.0) + x.isfinite().all(-1, keepdim=True),
    )
    for kind in ("with ±inf", "with NaN"):
        assert examine(op, "other", plane(), values={"x": kind}).status == "ok"
        assert examine(op, "wrong", plane(), values={"x": kind}).status == "wrong"


def test_the_index_of_nan_is_judged():
    op = op_of(lambda x: x.argmax(-1), right=lambda x: x.max(-1).indices, wrong=lambda x: x.nan_to_num(0.0).argmax(-1))
    assert examine(op, "right", plane(), values={"x": "with NaN"}).status == "ok"
    assert examine(op, "wrong", plane(), values={"x": "with NaN"}).status == "wrong"


# Messages -------------------------------------------------------------------------------------------------


def test_two_numbers_are_shown_with_digits_that_differ():
    assert digits_that_differ(1.25, 2.0) == ("1.25", "2")
    assert digits_that_differ(1781.671, 1781.674) == ("1781.671", "1781.674")
    assert digits_that_differ(0.5, 0.5) == ("0.5", "0.5")


# Values that are 0 whatever the inputs are -----------------------------------------------------------------


def norm_of_one_column(error):
    """The gradient of a layer norm of one column is 0. `error(g)`: what an implementation has instead."""

    class Norm(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return F.layer_norm(x, x.shape[-1:])

        @staticmethod
        def backward(ctx, upstream):
            return error(upstream)

    op = op_of(lambda x: F.layer_norm(x, x.shape[-1:]), "N")
    op.impl("mine")(Norm.apply)
    return examine(op, "mine", plane(1, 127), pass_name="backward")


def test_what_rounding_leaves_of_terms_that_always_cancel_is_not_wrong():
    # g − mean(g), contracted to one rounding, is the rounding error of mean(g) = g·1, times 1/√ε.
    left = lambda g: g * 2.0**-24 * 1e-5**-0.5  # noqa: E731
    assert norm_of_one_column(torch.zeros_like).status == "ok"
    assert norm_of_one_column(left).status == "imprecise"
    assert norm_of_one_column(lambda g: 1e-3 * g).status == "wrong"
    assert norm_of_one_column(lambda g: g).status == "wrong"
