"""How a trial is judged: no right way is accused for luck, rounding or a refusal, and what is wrong does not hide."""

import ctypes
import dataclasses
import math

import pytest
import torch

import kernellab as kl
from kernellab.checking import examiner as examine
from kernellab.checking.confirmation import surely
from kernellab.checking.examiner import GUARDS, Examiner, room_needed
from kernellab.checking.refusals import refuses_gradients
from kernellab.declaration.case import Case
from kernellab.trials.trial import Trial

CPU = torch.device("cpu")
softplus = torch.nn.functional.softplus


def op_of(reference, reduces="", dims="... N", dtypes=("float32",), **ways):
    """An op of one input; ways by name, `_` for `-`."""
    op = kl.op(args=dict(x=kl.tensor(dims)), reduces=reduces, dtypes=list(dtypes))(reference)
    for name, fn in ways.items():
        op.impl(name)(fn)
    return op


def seen(op, name, sizes, seed=0, dtype="float32", **trial):
    one = Trial("search", Case(sizes, dtype, {n: v[0] for n, v in op.all_options().items()}), **trial)
    examiner = Examiner(op, seed=seed, device=CPU)
    return surely(lambda trial: examiner.examine(op[name], trial), one)


def plane(n=32, m=16):
    return {"...": (m,), "N": n}


# Luck and rounding -------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(8))
def test_sums_in_another_order_are_right_whatever_the_seed(seed):
    def blocks(x):
        return sum(piece.sum(-1) for piece in x.split(64, dim=-1))

    op = op_of(lambda x: x.sum(-1), "N", flip=lambda x: x.flip(-1).sum(-1), blocks=blocks)
    for rows, width in ((1, 4097), (2, 65536)):
        for way in ("flip", "blocks"):
            assert seen(op, way, plane(width, rows), seed)["status"] == "ok"


def test_products_that_cancel_are_right_in_another_order_and_wrong_in_fewer_bits():
    op = kl.op(args=dict(a=kl.tensor("M K"), b=kl.tensor("K N")), reduces="K", dtypes=["float32"])(lambda a, b: a @ b)
    op.impl("halves")(lambda a, b: a[:, :64] @ b[:64] + a[:, 64:] @ b[64:])
    op.impl("bits")(lambda a, b: a.bfloat16().float() @ b)
    for seed in range(4):
        sizes = {"M": 64, "K": 128, "N": 64}
        assert seen(op, "halves", sizes, seed, values={"b": "all equal"})["status"] == "ok"
        assert seen(op, "bits", sizes, seed, values={"b": "all equal"})["status"] == "wrong"


def two_pass(x, keep=torch.float32):
    wide = x.to(torch.promote_types(x.dtype, keep))
    off = wide - wide.mean(-1, keepdim=True)
    return (off * torch.rsqrt(off.square().mean(-1, keepdim=True) + 1e-5)).to(x.dtype)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float64"])
def test_what_rounding_leaves_of_a_constant_row_is_no_fault_but_half_the_bits_are(dtype):
    reference = lambda x: torch.nn.functional.layer_norm(x, x.shape[-1:])  # noqa: E731
    op = op_of(reference, "N", dtypes=[dtype], right=two_pass, wrong=lambda x: two_pass(x) + 1e-2)
    assert seen(op, "right", plane(256), dtype=dtype, values={"x": "all equal"})["status"] == "ok"
    assert seen(op, "wrong", plane(256), dtype=dtype, values={"x": "all equal"})["status"] == "wrong"


@pytest.mark.parametrize(
    ("above", "excess", "status", "tries"),
    [({0}, 2.0, "ok", 2), ({0, 1, 2}, 2.0, "ok", 4), ({0, 1, 2, 3}, 2.0, "wrong", 4), ({0}, 9.0, "wrong", 1)],
)
def test_a_little_above_the_limit_counts_when_three_other_draws_are_too(above, excess, status, tries):
    drawn = []

    def examine(trial):
        drawn.append(trial.draw)
        wrong = trial.draw in above
        return {"status": "wrong", "reason": "values", "excess": excess} if wrong else {"status": "ok", "notes": []}

    found = surely(examine, Trial("sizes", Case({"N": 3}, "float32")))
    assert (found["status"], len(drawn)) == (status, tries)
    assert status == "wrong" or "luck" in found["notes"][0]


def test_another_draw_has_other_values_and_survives_json():
    op = op_of(lambda x: x * 2, ok=lambda x: x + x)
    trial = Trial("search", Case(plane(), "float32"), draw=3)
    assert Trial.from_json(trial.to_json(), op) == trial
    assert "draw" not in dataclasses.replace(trial, draw=0).to_json()
    examiner = Examiner(op, seed=0, device=CPU)
    first, other = (examiner.truth(dataclasses.replace(trial, draw=draw)).inputs["x"] for draw in (0, 3))
    assert not torch.equal(first, other)


# Integers ----------------------------------------------------------------------------------------------


def to_int8(x):
    return (x * 12.7).round().clamp(-127, 127).to(torch.int8)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_integers_are_the_oracles_or_pytorchs_in_the_dtype(dtype):
    ways = dict(torch=to_int8, wide=lambda x: to_int8(x.float()), off=lambda x: to_int8(x) + 1)
    op = op_of(to_int8, dtypes=[dtype], **ways)
    for way in ("manual", "torch", "wide"):
        assert seen(op, way, plane(512, 64), dtype=dtype)["status"] == "ok", way
    off = seen(op, "off", plane(512, 64), dtype=dtype)
    assert (off["status"], "integers differ" in off["reason"]) == ("wrong", True)


# Training ----------------------------------------------------------------------------------------------


class Once(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return softplus(x)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, g):
        return g * torch.sigmoid(ctx.saved_tensors[0])


class Second(torch.autograd.Function):
    """σ(x)·g, with a mistake in its own backward."""

    @staticmethod
    def forward(ctx, x, g):
        ctx.save_for_backward(x)
        return torch.sigmoid(x) * g

    @staticmethod
    def backward(ctx, g):
        return ctx.saved_tensors[0].flatten()[:3] @ g, None


class First(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return softplus(x)

    @staticmethod
    def backward(ctx, g):
        return Second.apply(ctx.saved_tensors[0], g)


def test_double_backward_is_refused_by_name_and_a_mistake_in_it_is_one():
    op = op_of(lambda x: softplus(x), once=Once.apply, mistaken=First.apply)
    refused = seen(op, "once", plane(), of="double backward")
    assert (refused["status"], "once_differentiable" in refused["reason"]) == ("outside", True)
    mistaken = seen(op, "mistaken", plane(), of="double backward")
    assert (mistaken["status"], "RuntimeError" in mistaken["reason"]) == ("error", True)


@pytest.mark.parametrize(
    ("error", "refusal"),
    [
        (NotImplementedError("forward only"), True),
        (RuntimeError("derivative for aten::x is not implemented"), True),
        (RuntimeError("Trying to backward through a.b.default but no autograd formula was registered."), True),
        (RuntimeError("element 0 of tensors does not require grad and does not have a grad_fn"), True),
        (RuntimeError("size mismatch, got input (127), mat (127x127), vec (3)"), False),
        (RuntimeError("Function FBackward returned an invalid gradient at index 0 - got [3] but expected [4]"), False),
        (ValueError("derivative"), False),
    ],
)
def test_refusals_are_told_from_mistakes(error, refusal):
    assert refuses_gradients(error) is refusal


def test_the_result_that_gradients_come_with_is_judged():
    op = op_of(lambda x: softplus(x), wrong=lambda x: softplus(x) + (1 if x.requires_grad else 0))
    assert seen(op, "wrong", plane())["status"] == "ok"
    for more in ({}, {"upstream": "expanded"}, {"call": "backward twice"}):
        found = seen(op, "wrong", plane(), of="backward", **more)
        assert (found["status"], found["reason"].startswith("values: the result: ")) == ("wrong", True)


@torch.library.custom_op("kernellab_tests::twice", mutates_args=())
def forward_only(x: torch.Tensor) -> torch.Tensor:
    return x * 2


@torch.library.custom_op("kernellab_tests::twice_badly", mutates_args=())
def of_another_dtype(x: torch.Tensor) -> torch.Tensor:
    return x * 2


@forward_only.register_fake
def _(x):
    return torch.empty_like(x)


@of_another_dtype.register_fake
def _(x):
    return torch.empty_like(x, dtype=torch.float64)


def test_an_operator_without_gradients_is_outside_and_operators_behind_a_function_are_seen():
    ways = dict(right=lambda x: forward_only(x), wrong=lambda x: of_another_dtype(x), plain=lambda x: x + x)
    op = op_of(lambda x: x * 2, **ways)
    for call in ("plainly", "backward twice"):
        found = seen(op, "right", plane(), of="backward", call=call)
        assert (found["status"], "no autograd formula" in found["reason"]) == ("outside", True)
    assert seen(op, "plain", plane(), call="as a registered op") is None
    assert seen(op, "right", plane(), call="as a registered op")["status"] == "ok"
    found = seen(op, "wrong", plane(), call="as a registered op")
    assert (found["status"], "kernellab_tests.twice_badly" in found["reason"]) == ("wrong", True)


# Calls -------------------------------------------------------------------------------------------------


def test_what_an_earlier_call_returned_is_not_a_later_ones_to_change():
    buffers = {}

    def static(x):
        return buffers.setdefault(x.shape, torch.empty(x.shape)).copy_(2 * x)

    op = op_of(lambda x: x * 2, static=static, fresh=lambda x: x + x)
    found = seen(op, "static", plane(), call="twice")
    assert (found["status"], "its call on other inputs changed" in found["reason"]) == ("wrong", True)
    assert seen(op, "fresh", plane(), call="twice")["status"] == "ok"


def test_results_that_vary_are_noted_where_that_is_declared():
    def noisy(x):
        return x * 2 * (1 + torch.finfo(x.dtype).eps * torch.randint(-1, 2, x.shape))

    op = op_of(lambda x: x * 2, undeclared=noisy)
    op.impl("declared", repeatable=False)(noisy)
    found = seen(op, "declared", plane(), call="twice")
    assert (found["status"], "repeatable=False" in found["notes"][0]) == ("ok", True)
    assert "not repeatable" in seen(op, "undeclared", plane(), call="twice")["reason"]
    assert seen(op, "undeclared", plane(), call="beside large numbers")["status"] == "ok", "it does not read outside"


@pytest.mark.parametrize("beyond", [-1, 64])
@pytest.mark.parametrize("pick", [max, min])
def test_what_is_read_outside_an_input_shows_although_nan_loses_every_comparison(beyond, pick):
    def tail(x):
        """The largest, or the smallest, of one element too many; as most code does, it prefers anything to NaN."""
        read = ctypes.c_float.from_address(x.data_ptr() + 4 * beyond).value
        best = pick(x.tolist())
        return x.new_tensor(best if math.isnan(read) else pick(best, read))

    op = op_of(lambda x: x.amax() if pick is max else x.amin(), dims="N", reads=tail)
    assert seen(op, "reads", {"N": 64})["status"] == "ok"
    found = seen(op, "reads", {"N": 64}, call="beside large numbers")
    assert (found["status"], "reads outside its inputs" in found["reason"]) == ("wrong", True)
    assert seen(op, "manual", {"N": 64}, call="beside large numbers")["status"] == "ok"
    without = Examiner(op, seed=0, device=CPU, guards=GUARDS - {"bands"})
    assert without.examine(op["reads"], Trial("calls", Case({"N": 64}, "float32"), call="beside large numbers")) is None


# What a way takes --------------------------------------------------------------------------------------


def test_a_way_that_works_in_place_is_not_given_elements_that_share_memory():
    op = op_of(lambda x: x * 2)
    op.impl("in-place", mutates=["x"])(lambda x: x.mul_(2))
    found = seen(op, "in-place", plane(), layouts={"x": "expanded rows"})
    assert (found["status"], "share memory" in found["reason"]) == ("outside", True)
    assert seen(op, "in-place", plane(), layouts={"x": "transposed"})["status"] == "ok"


def test_supports_can_ask_for_contiguous_inputs():
    def picky(x):
        if not x.is_contiguous():
            raise ValueError("x must be contiguous")
        return x * 2

    op = op_of(lambda x: x + x)
    op.impl("picky", supports=lambda case: case.contiguous or "contiguous inputs only")(picky)
    for layout in ("transposed", "sliced columns", "every second element", "expanded rows", "first half of a chunk"):
        for of in ("forward", "backward"):
            found = seen(op, "picky", plane(), of=of, layouts={"x": layout})
            assert (found["status"], found["reason"]) == ("outside", "contiguous inputs only")
    for layout in ("sliced rows", "misaligned"):
        assert seen(op, "picky", plane(), layouts={"x": layout})["status"] == "ok"


def test_complex_results_have_no_gradients_to_pass():
    op = op_of(lambda x: torch.fft.rfft(x), zero=lambda x: torch.fft.rfft(x) * 0)
    for of in ("forward", "backward", "double backward"):
        assert seen(op, "zero", plane(), of=of)["status"] in ("unknown", "outside")


# kl.check ----------------------------------------------------------------------------------------------


def failing(x):
    raise ValueError("no such thing")


@pytest.mark.parametrize(
    ("reference", "supports", "why"),
    [
        (failing, None, "no such thing"),
        (lambda x: x * 2, lambda case: "nothing at all", "nothing at all"),
        (lambda x: torch.fft.rfft(x), None, "complex"),
    ],
)
def test_kl_check_cannot_tell_where_nothing_was_judged(reference, supports, why):
    op = kl.op(args=dict(x=kl.tensor("N")), cases=kl.cases(N=[8], dtype=["float32"]))(reference)
    op.impl("way", supports=supports)(lambda x: x + x)
    with pytest.raises(AssertionError, match="cannot tell") as raised:
        kl.check(op, impl="way", quick=True)
    assert why in str(raised.value)


def test_what_is_kept_of_a_trial_is_not_asked_for_twice(monkeypatch):
    op = op_of(lambda x: x + x, one=lambda x: 2 * x, other=lambda x: 2 * x)
    trial = Trial("large", Case(plane(), "float32"))
    needed, oracle = room_needed(op, trial), 32 * 16 * 8
    free = iter([needed, needed - oracle, needed // 8])
    monkeypatch.setattr(examine, "_WORTH_ASKING", 0)
    monkeypatch.setattr(examine, "free_bytes", lambda device: next(free))
    examiner = Examiner(op, seed=0, device=CPU)
    told = [examiner.examine(op[name], trial)["status"] for name in ("one", "other", "one")]
    assert told == ["ok", "ok", "outside"]
