"""Judging values: rounding and cancellation are no faults, and nothing trivial passes."""

import collections

import pytest
import torch

import kernellab as kl
from kernellab.accuracy.judge import judge_values
from kernellab.accuracy.outputs import Wrong
from kernellab.accuracy.prepared_trial import CannotCheck
from kernellab.checking.examiner import Examiner
from kernellab.declaration.kinds import kind_of
from kernellab.declaration.op import Impl
from kernellab.declaration.passes import NotDifferentiable
from kernellab.declaration.targets import shipped_names
from kernellab.trials import calls
from kernellab.trials.battery import battery
from kernellab.trials.trial_inputs import NotApplicable
from support.trying import CPU, examine, op_of, plane


@pytest.mark.parametrize("seed", range(8))
def test_sums_in_another_order_are_right_for_every_seed(seed):
    def blocks(x):
        return sum(piece.sum(-1) for piece in x.split(64, dim=-1))

    op = op_of(lambda x: x.sum(-1), "N", flip=lambda x: x.flip(-1).sum(-1), blocks=blocks)
    for rows, width in ((1, 4097), (2, 65536)):
        for name in ("flip", "blocks"):
            assert examine(op, name, plane(width, rows), seed).status == "ok"


def test_products_that_cancel_are_right_in_another_order_and_wrong_in_fewer_bits():
    op = kl.op(args=dict(a=kl.tensor("M K"), b=kl.tensor("K N")), reduces="K", dtypes=["float32"])(lambda a, b: a @ b)
    op.impl("halves")(lambda a, b: a[:, :64] @ b[:64] + a[:, 64:] @ b[64:])
    op.impl("bits")(lambda a, b: a.bfloat16().float() @ b)
    for seed in range(4):
        sizes = {"M": 64, "K": 128, "N": 64}
        assert examine(op, "halves", sizes, seed, values={"b": "all equal"}).status == "ok"
        assert examine(op, "bits", sizes, seed, values={"b": "all equal"}).status == "wrong"


def two_pass(x, keep=torch.float32):
    wide = x.to(torch.promote_types(x.dtype, keep))
    off = wide - wide.mean(-1, keepdim=True)
    return (off * torch.rsqrt(off.square().mean(-1, keepdim=True) + 1e-5)).to(x.dtype)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float64"])
def test_rounding_errors_of_a_constant_row_pass_and_larger_errors_do_not(dtype):
    reference = lambda x: torch.nn.functional.layer_norm(x, x.shape[-1:])  # noqa: E731
    op = op_of(reference, "N", dtypes=[dtype], right=two_pass, wrong=lambda x: two_pass(x) + 1e-2)
    assert examine(op, "right", plane(256), dtype=dtype, values={"x": "all equal"}).status == "ok"
    assert examine(op, "wrong", plane(256), dtype=dtype, values={"x": "all equal"}).status == "wrong"


def to_int8(x):
    return (x * 12.7).round().clamp(-127, 127).to(torch.int8)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_integers_must_equal_the_oracle_or_the_peer(dtype):
    impls = dict(torch=to_int8, wide=lambda x: to_int8(x.float()), off=lambda x: to_int8(x) + 1)
    op = op_of(to_int8, dtypes=[dtype], **impls)
    for name in ("manual", "torch", "wide"):
        assert examine(op, name, plane(512, 64), dtype=dtype).status == "ok", name
    off = examine(op, "off", plane(512, 64), dtype=dtype)
    assert (off.status, "integers differ" in off.reason) == ("wrong", True)


def test_the_result_of_the_forward_is_judged_with_the_gradients():
    op = op_of(
        lambda x: torch.nn.functional.softplus(x),
        wrong=lambda x: torch.nn.functional.softplus(x) + (1 if x.requires_grad else 0),
    )
    assert examine(op, "wrong", plane()).status == "ok"
    for more in ({}, {"upstream": "expanded"}, {"call": "backward twice"}):
        outcome = examine(op, "wrong", plane(), pass_name="backward", **more)
        assert (outcome.status, outcome.reason.startswith("values: the result: ")) == ("wrong", True)


def test_where_the_peer_overflows_and_the_oracle_does_not_a_finite_result_cannot_be_judged():
    def normal(x, scale):
        return x * scale / (x.square().mean(-1, keepdim=True) + 1).sqrt()

    op = op_of(lambda x: normal(x, 1.0), reduces="N")
    op.impl("torch")(lambda x: torch.where(x.square().isinf().any(-1, keepdim=True), torch.nan, normal(x, 1.0)))
    op.impl("overflows")(lambda x: normal(x, 1.0))  # x / inf is 0
    op.impl("wrong")(lambda x: normal(x, 1.01))
    large = dict(values={"x": "large to overflow"})
    outcome = examine(op, "overflows", plane(), **large)
    assert outcome.status == "unknown"
    assert "the peer, torch, is not finite at" in outcome.reason
    assert examine(op, "overflows", plane()).status == "ok"
    assert examine(op, "wrong", plane()).status == "wrong"


def test_complex_results_are_not_judged():
    op = op_of(lambda x: torch.fft.rfft(x), zero=lambda x: torch.fft.rfft(x) * 0)
    for pass_name in ("forward", "backward", "double backward"):
        assert examine(op, "zero", plane(), pass_name=pass_name).status in ("unknown", "outside")


def _substitutes(y):
    """What a lazy kernel could return: zeros, the mean, the right numbers in the wrong places."""
    finite = y[y.isfinite()]
    yield "zeros", torch.zeros_like(y)
    yield "mean", torch.full_like(y, float(finite.double().mean()) if finite.numel() else 0.0)
    if y.dim():
        yield "permutation", y.roll(1, dims=-1) if y.shape[-1] > 1 else y.roll(1, dims=0)


def _differs(prepared, number, other):
    """Whether a substitute differs from the result by more than rounding."""
    y = prepared.peer[number]
    scale = max(float(torch.where(y.isfinite(), y, 0).double().abs().max()), prepared.least_scales[number]) or 1.0
    if y.dtype == torch.float64 and float(y.abs().max()) < 1e-12 * prepared.least_scales[number]:
        return False  # all terms cancel, as in a softmax whose upstream gradient is constant: zeros are right
    allowed = (2 * prepared.peer_errors[number].max + 5) * torch.finfo(y.dtype).eps * scale
    apart = (y.double() - other.double()).abs().nan_to_num(0.0, posinf=0.0)
    patterns = (y.isnan() != other.isnan()) | (y.isinf() != other.isinf())
    return bool((apart > allowed).any()) or bool(patterns.any())


# Ops whose values are like those of another.
RELATIVES = {
    *("add", "square", "silu", "swiglu", "geglu", "dropout_add", "log_softmax", "rms_norm", "add_rms_norm"),
    *("linear_gelu", "linear_cross_entropy"),
}


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.exhaustive] * (name in RELATIVES)) for name in shipped_names()]
)
def test_zeros_the_mean_and_a_permutation_are_wrong_in_every_kind_of_trial(name):
    op = getattr(kl.ops, name)
    examiner = Examiner(op, seed=0, device=CPU)
    impostor = Impl(op, "impostor", op.reference, kind_of("impostor"))
    judged, useful = collections.Counter(), collections.Counter()
    missed = []
    for trial in battery(op, "cpu"):
        sort = (trial.kind, trial.case.dtype, trial.case.options.get("reduction"))  # a scalar has no permutation
        if trial.call != calls.PLAIN or trial.kind in ("large", "long", "strides") or useful[sort] == 2:
            continue
        try:
            prepared = examiner.prepare(trial)
        except (CannotCheck, NotDifferentiable, NotApplicable):
            continue
        before = judged.total()
        for number, y in enumerate(prepared.peer):
            for substitute, fake in _substitutes(y):
                if not y.numel() or not _differs(prepared, number, fake):
                    continue
                judged[trial.kind, trial.case.dtype, substitute] += 1
                outputs = (*prepared.peer[:number], fake, *prepared.peer[number + 1 :])
                try:
                    judge_values(op, impostor, outputs, prepared, pass_name=trial.pass_name, check_nonfinite=True)
                    missed.append(f"{substitute} for result {number}: {trial.label}")
                except Wrong:
                    pass
                except CannotCheck:  # the peer overflows where the oracle does not
                    judged[trial.kind, trial.case.dtype, substitute] -= 1
        useful[sort] += judged.total() > before
    assert not missed, missed[:10]
    for substitute in ("zeros", "mean", "permutation"):
        kinds = ("sizes", "layouts", "values")
        if "reduction" in op.all_options() and substitute != "zeros":
            kinds = ("options",)  # by default a scalar, which is its own mean
        for kind in (*kinds, "gradients"):
            assert judged[kind, "float32", substitute], (kind, substitute)
        for dtype in op.dtypes:
            assert judged[kinds[-1], dtype, substitute], (dtype, substitute)
