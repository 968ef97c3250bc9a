"""Monte Carlo arithmetic: what rounding every step does, and what it does not excuse."""

import math

import pytest
import torch
import torch.nn.functional as F

import kernellab as kl
from kernellab.accuracy.errors import measure
from kernellab.accuracy.monte_carlo import PlainSoftmax, RandomRounding, RoundedReferences, most_roundings
from kernellab.checking.confirmation import examine_and_confirm
from kernellab.checking.examiner import Examiner
from kernellab.declaration.case import Case
from kernellab.trials.trial import Trial

SEEDS = range(20)


def softmax(x):
    e = (x - x.amax(-1, keepdim=True)).exp()
    return e / e.sum(-1, keepdim=True)


def gelu_chain(x):
    return 0.5 * x * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x * x * x)))


def rounded(fn, x, seed=0):
    with RandomRounding(torch.Generator().manual_seed(seed)):
        return fn(x.clone())


def errors(fn, x, rowwise=True):
    return measure(fn(x), fn(x.double()), rowwise=rowwise).max


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize(
    "fn", [softmax, gelu_chain, lambda x: F.softmax(x, -1), lambda x: F.layer_norm(x, x.shape[-1:])]
)
def test_a_rounded_evaluation_is_off_by_a_few_roundings(fn, dtype):
    x = torch.randn(32, 256).to(dtype)
    oracle = fn(x.double())
    draws = [rounded(fn, x, seed) for seed in range(2)]
    assert not torch.equal(*draws)
    assert all(1 < measure(draw, oracle, rowwise=True).max < 20 for draw in draws)


def test_steps_of_a_fused_operator_are_rounded_to_the_dtype_of_its_inputs():
    x = torch.randn(64, 256).to(torch.bfloat16)
    assert errors(lambda x: F.softmax(x, -1), x) < 0.6  # computed in float32, rounded once
    oracle = F.softmax(x.double(), -1)
    assert measure(rounded(lambda x: F.softmax(x, -1), x), oracle, rowwise=True).max > 1.5


@pytest.mark.parametrize(
    "fn",
    [lambda x: x.t().contiguous(), torch.relu, lambda x: x.amax(-1), lambda x: torch.cat([x, -x]), lambda x: x > 0],
)
def test_operators_that_move_or_choose_values_are_exact(fn):
    x = torch.randn(16, 16)
    assert torch.equal(rounded(fn, x), fn(x))


@pytest.mark.parametrize(
    ("call", "replaced"),
    [
        (lambda x: torch.softmax(x, -1), True),
        (lambda x: F.softmax(x, dim=-1), True),
        (lambda x: x.log_softmax(-1), True),
        (lambda x: F.log_softmax(x, 0), True),
        (lambda x: torch.softmax(x, -1, dtype=torch.float64), False),
        (torch.sigmoid, False),
    ],
)
def test_softmax_as_a_chain_has_the_same_values(call, replaced):
    x = torch.randn(4, 8, dtype=torch.float64)
    with PlainSoftmax() as mode:
        result = call(x)
    assert mode.replaced == replaced
    torch.testing.assert_close(result, call(x))


@pytest.mark.parametrize("terms", [4096, 65536])
def test_a_sum_is_off_by_what_adding_its_terms_one_by_one_does(terms):
    x = torch.ones(terms)
    draws = {float(rounded(lambda x: x.sum(), x, seed)) for seed in range(6)}
    off = [abs(draw - terms) / (torch.finfo(torch.float32).eps * terms) for draw in draws]
    assert math.sqrt(terms / 3) * 0.9 < min(off) <= max(off) < math.sqrt(terms / 3) * 1.1


def test_writing_in_place_is_rounded():
    x = torch.randn(64, 64)
    assert not torch.equal(rounded(lambda x: x.clone().mul_(3), x), x * 3)


def test_an_unstable_reference_excuses_at_most_half_of_the_digits():
    def variance(x):
        return (x * x).mean(-1) - x.mean(-1) ** 2

    x = torch.randn(8, 512) + 3000.0
    inputs = {"x": x}
    oracle = (variance(x.double()),)
    references = RoundedReferences(lambda i: (variance(i["x"]),), inputs, oracle, rowwise=False, seed=0)
    assert errors(variance, x, rowwise=False) > 1e5
    assert (
        references.errors(0, torch.float32, 0.0).max == most_roundings(torch.float32) == pytest.approx(2896, rel=0.01)
    )


# The three verdicts ------------------------------------------------------------------------------------


def examine(op, impl, shape, dtype, *, seed=0, **trial):
    case = Case({"...": shape}, dtype, device="cpu")
    examiner = Examiner(op, seed=seed, device=torch.device("cpu"))
    return examine_and_confirm(lambda t: examiner.examine(op[impl], t), Trial("declared", case, **trial))


@pytest.fixture
def gelu():
    @kl.op
    def gelu(x):
        return gelu_chain(x)

    gelu.impl("torch")(lambda x: F.gelu(x, approximate="tanh"))
    return gelu


def test_a_bfloat16_chain_is_imprecise_beside_float32_and_never_wrong():
    def wave(x):
        return torch.sin(8 * torch.tanh(x) + 4 * torch.sigmoid(x))

    @kl.op
    def waves(x):
        return wave(x)

    waves.impl("torch")(lambda x: wave(x.float()).to(x.dtype))  # rounded once
    waves.impl("chain")(lambda x: torch.sin(4 * (2 * torch.tanh(x) + torch.sigmoid(x))))
    outcomes = [examine(waves, "chain", (64, 256), "bfloat16", seed=seed) for seed in SEEDS]
    assert {outcome.status for outcome in outcomes} <= {"ok", "imprecise"}
    imprecise = [outcome for outcome in outcomes if outcome.status == "imprecise"]
    assert len(imprecise) > 10
    assert "limit" in imprecise[0].reason
    assert "rounding each step explains" in imprecise[0].reason


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize(
    "cheat",
    [
        torch.zeros_like,
        lambda x: F.gelu(x).mean().expand(x.shape).clone(),
        lambda x: F.gelu(x.flip(-1)),
        lambda x: F.gelu(x) * 1.3,
    ],
    ids=["zeros", "mean", "permuted", "scaled"],
)
def test_zeros_means_and_permutations_are_wrong(gelu, cheat, dtype):
    gelu.impl("cheat")(cheat)
    assert examine(gelu, "cheat", (32, 256), dtype).status == "wrong"


def test_the_gradient_of_a_softmax_that_cancels_is_never_wrong():
    @kl.op(args={"x": kl.tensor("M N")}, reduces="N")
    def soft(x):
        return F.softmax(x, -1)

    soft.impl("torch")(lambda x: F.softmax(x, -1))
    soft.impl("chain")(softmax)
    case = Case({"M": 33, "N": 257}, "float32", device="cpu")
    statuses = set()
    for seed in SEEDS:
        examiner = Examiner(soft, seed=seed, device=torch.device("cpu"))
        trial = Trial("gradients", case, pass_name="backward", upstream="expanded")
        statuses.add(examine_and_confirm(lambda t: examiner.examine(soft["chain"], t), trial).status)  # noqa: B023
    assert statuses <= {"ok", "imprecise"}


class Attention(torch.autograd.Function):
    """Causal attention whose backward recomputes the weights and takes their sum from the rounded result."""

    @staticmethod
    def forward(ctx, q, k, v, factor):
        scores = masked(q.float() @ k.float().T)
        lse = scores.logsumexp(-1, keepdim=True)
        result = ((scores - lse).exp() @ v.float()).to(q.dtype)
        ctx.save_for_backward(q, k, v, result, lse)
        ctx.factor = factor
        return result

    @staticmethod
    def backward(ctx, upstream):
        q, k, v, result, lse = (t.float() for t in ctx.saved_tensors)
        dtype, upstream = ctx.saved_tensors[0].dtype, upstream.float()
        weights = (masked(q @ k.T) - lse).exp()
        delta = (result * upstream).sum(-1, keepdim=True)
        scores = (weights * (upstream @ v.T - delta)).to(dtype).float()
        gradients = ctx.factor * scores @ k, scores.T @ q, weights.to(dtype).float().T @ upstream
        return *(t.to(dtype) for t in gradients), None


def masked(scores):
    return scores.masked_fill(~torch.ones_like(scores, dtype=torch.bool).tril(), -torch.inf)


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_a_gradient_that_cancels_in_some_rows_is_judged_beside_the_other_rows(dtype):
    """Where one key has all the weight, rounding leaves nothing of a query's gradient."""

    @kl.op(args={name: kl.tensor("S D") for name in "qkv"}, reduces="S D")
    def attention(q, k, v):
        scores = masked(q @ k.T).to(q.dtype if q.dtype == torch.float64 else torch.float32)
        return F.softmax(scores, -1).to(q.dtype) @ v

    attention.impl("flash")(lambda q, k, v: Attention.apply(q, k, v, 1.0))
    attention.impl("wrong")(lambda q, k, v: Attention.apply(q, k, v, 1.2))
    trial = Trial("gradients", Case({"S": 48, "D": 32}, dtype, device="cpu"), pass_name="backward")
    statuses = {"flash": set(), "wrong": set()}
    for seed in SEEDS:
        examiner = Examiner(attention, seed=seed, device=torch.device("cpu"))
        for impl, seen in statuses.items():
            seen.add(examine_and_confirm(lambda t: examiner.examine(attention[impl], t), trial).status)  # noqa: B023
    assert statuses == {"flash": {"ok"}, "wrong": {"wrong"}}


def test_a_half_accumulator_in_a_matmul_is_not_right():
    @kl.op(args={"a": kl.tensor("M K"), "b": kl.tensor("K N")}, reduces="K")
    def matmul(a, b):
        return a @ b

    def accumulates_in_half(a, b):
        total = torch.zeros(a.shape[0], b.shape[1], dtype=a.dtype)
        for k in range(a.shape[1]):
            total = total + a[:, k : k + 1] * b[k : k + 1]
        return total

    matmul.impl("torch")(torch.matmul)
    matmul.impl("half")(accumulates_in_half)
    case = Case({"M": 16, "K": 512, "N": 16}, "float16", device="cpu")
    examiner = Examiner(matmul, seed=0, device=torch.device("cpu"))
    assert examiner.examine(matmul["half"], Trial("declared", case)).status != "ok"


def test_all_wrong_gradients_are_named():
    @kl.op
    def scale(x, y):
        return x * y

    class Flipped(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, y):
            ctx.save_for_backward(x, y)
            return x * y

        @staticmethod
        def backward(ctx, grad):
            x, y = ctx.saved_tensors
            return -grad * y, -grad * x

    scale.impl("flipped")(Flipped.apply)
    outcome = examine(scale, "flipped", (8, 8), "float32", pass_name="backward")
    assert outcome.status == "wrong"
    assert "the gradient of x" in outcome.reason
    assert "the gradient of y" in outcome.reason
