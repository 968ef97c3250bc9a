"""Which mistakes at ordinary, paired and long sizes are found; each beside a correct implementation."""

import math

import pytest
import torch

import kernellab as kl
from kernellab.checking.examiner import Examiner
from kernellab.trials.bases import Bases
from kernellab.trials.battery import battery
from kernellab.trials.domain import Domain
from kernellab.trials.further_sizes import long_trials, ordinary_size_trials
from support.trying import CPU, differentiable


def rows(**more):
    @kl.op(
        args=dict(x=kl.tensor("M N"), w=kl.tensor("N")),
        reduces="N",
        cases=kl.cases(M=[16], N=[64], dtype=["float32"]),
        **more,
    )
    def rows(x, w):
        return (x * w).sum(-1)

    return rows


def first_failures(op, trials):
    """By implementation: the first trial that it fails."""
    examiner, failed = Examiner(op, seed=0, device=CPU), {}
    for trial in trials:
        for impl in op.impls.values():
            if impl.name in ("manual", "compile") or impl.name in failed:
                continue
            outcome = examiner.examine(impl, trial)
            if outcome is not None and outcome.failed:
                failed[impl.name] = trial
    return failed


SIZES = {
    "multiples of 4": lambda m, n: n % 8 == 4 and n > 4,
    "multiples of 16": lambda m, n: n % 32 == 16 and n > 16,
    "multiples of 32": lambda m, n: n % 64 == 32 and n > 32,
    "multiples of 32 rows": lambda m, n: m % 64 == 32 and m > 32,
    "multiples of 3": lambda m, n: n % 6 == 0,
    "600 to 1000": lambda m, n: 600 < n < 1000,
    "2100 to 4000": lambda m, n: 2100 < n < 4000,
    "5000 to 8000": lambda m, n: 5000 < n < 8000,
    "both aligned": lambda m, n: m % 128 == 0 and n % 128 == 0,
    "twice": lambda m, n: m == 2 * n,
    "both beyond a block": lambda m, n: m > 1025 and n > 1025,
}


def test_sizes_that_are_neither_primes_nor_powers_of_two_are_tried():
    op = rows()
    for name, wrong in SIZES.items():
        op.impl(name)(lambda x, w, wrong=wrong: (x * w).sum(-1) * (0 if x.numel() and wrong(*x.shape) else 1))
    op.impl("right")(lambda x, w: x @ w)
    trials = [t for t in ordinary_size_trials(Bases(Domain(op), "cpu")) if t.pass_name == "forward"]
    assert set(first_failures(op, trials)) == set(SIZES)


def test_gradients_are_tried_at_ordinary_and_long_sizes():
    op = rows()

    def backward(wrong, ctx, saved, g):
        x, w = saved
        dx = g[:, None] * w
        if wrong == "48" and x.shape[1] % 32 == 16:
            dx = dx * (torch.arange(x.shape[1]) < x.shape[1] - 1)
        return dx, (g[:, None] * x)[: 8192 if wrong == "first 8192 rows" else None].sum(0)

    for wrong in ("48", "first 8192 rows", "nothing"):
        op.impl(wrong)(differentiable(op.reference, lambda *a, wrong=wrong: backward(wrong, *a)))
    bases = Bases(Domain(op), "cpu")
    trials = [t for t in (*ordinary_size_trials(bases), *long_trials(bases)) if t.pass_name == "backward"]
    failed = first_failures(op, trials)
    assert set(failed) == {"48", "first 8192 rows"}
    assert failed["first 8192 rows"].kind == "long"


def test_each_dim_that_is_not_reduced_is_long_once_and_one_trial_has_more_than_2_to_the_24_elements():
    trials = [t for t in battery(kl.ops.matmul, "cpu") if t.kind == "long"]
    for dim, pass_name in (("M", "forward"), ("N", "forward"), ("M", "backward"), ("N", "backward")):
        sizes = {t.case.dims[dim] for t in trials if t.pass_name == pass_name}
        assert max(sizes) > 65536, (dim, pass_name)
        assert any(8192 < n < 65536 for n in sizes), (dim, pass_name)
    most = [math.prod(t.case.shape) for t in battery(rows(), "cpu") if t.kind == "long"]
    assert sum(n > 2**24 for n in most) == 1
    assert not any(t.kind == "long" for t in battery(kl.ops.matmul, "cpu", quick=True))


def test_sizes_are_inside_the_domain():
    op = rows()
    op.impl("aligned", supports=lambda c: c.M % 128 == 0 and c.N % 128 == 0)(op.reference)
    bases = Bases(Domain(op, op["aligned"]), "cpu")
    for generate in (ordinary_size_trials, long_trials):
        trials = list(generate(bases))
        assert len(trials) >= 5
        assert all(n % 128 == 0 for t in trials for n in t.case.shape)


def test_a_long_dim_is_not_tried_where_the_reference_needs_much_memory():
    @kl.op(args=dict(q=kl.tensor("S D")), cases=kl.cases(S=[16], D=[8], dtype=["float32"]))
    def attention(q):
        return torch.softmax(q @ q.T, -1) @ q

    examiner = Examiner(attention, seed=0, device=CPU)
    (longest,) = [t for t in long_trials(Bases(Domain(attention), "cpu")) if t.case.S > 65536 and "for" in t.pass_name]
    outcome = examiner.examine(attention["manual"], longest)
    assert (outcome.status, "long dims are tried up to 2" in outcome.reason) == ("outside", True)


@pytest.mark.parametrize("quick", [False, True])
def test_ops_without_named_dims_get_ordinary_rows_and_columns(quick):
    @kl.op(cases=kl.cases(shape=[(16, 32)], dtype=["float32"]))
    def double(x):
        return x + x

    shapes = {t.case.shape for t in ordinary_size_trials(Bases(Domain(double), "cpu", quick=quick))}
    assert {48, 96, 1000} <= {shape[-1] for shape in shapes}
    assert {12, 48} <= {shape[0] for shape in shapes}
