"""Mistakes that show only where two things come together; each beside a correct implementation."""

import itertools

import pytest
import torch

import kernellab as kl
from kernellab.checking.examiner import Examiner
from kernellab.trials.bases import Bases
from kernellab.trials.combinations import combination_trials
from kernellab.trials.domain import Domain
from support.trying import CPU


def centred(**more):
    @kl.op(
        args=dict(x=kl.tensor("... N"), b=kl.optional(kl.tensor("N"))),
        options=dict(mode=["mean", "max"]),
        reduces="N",
        cases=kl.cases(shape=[(8, 32)], dtype=["float32"]),
        dtypes=["float32", "bfloat16"],
        **more,
    )
    def centred(x, b=None, *, mode="mean"):
        y = x - (x.mean(-1, keepdim=True) if mode == "mean" else x.amax(-1, keepdim=True))
        return y if b is None else y + b

    return centred


def trials_of(op, impl=None, **more):
    return list(combination_trials(Bases(Domain(op, impl), "cpu", **more)))


def features(trial):
    """What is unusual about a trial of `centred`."""
    case = trial.case
    return {
        "bfloat16": case.dtype == "bfloat16",
        "max": case.options["mode"] == "max",
        "no b": not case.options["b"],
        "wide": case.dims["N"] > 1024,
        "1-D": case.dims["..."] == (),
        "3-D": len(case.dims["..."]) == 2,
        "strided x": "x" in trial.strided_inputs,
        "strided b": "b" in trial.strided_inputs,
        "upstream": trial.upstream != "random",
    }


IMPOSSIBLE = [{"1-D", "3-D"}, {"no b", "strided b"}]


@pytest.mark.parametrize("pass_name", ["forward", "backward"])
@pytest.mark.parametrize("more", [{}, {"quick": True}, {"max_elements": 1 << 14}], ids=["full", "quick", "slow"])
def test_every_two_unusual_things_come_together_in_each_pass(pass_name, more):
    trials = [features(t) for t in trials_of(centred(), **more) if t.pass_name == pass_name]
    names = [name for name in trials[0] if pass_name == "backward" or name != "upstream"]
    for pair in itertools.combinations(names, 2):
        if set(pair) not in IMPOSSIBLE:
            assert any(trial[pair[0]] and trial[pair[1]] for trial in trials), pair
    assert len(trials) <= 25


def test_mistakes_of_two_factors_are_found_and_a_right_implementation_passes():
    op = centred()
    right = op.reference

    class Own(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, mode, wrong):
            ctx.save_for_backward(x)
            ctx.mode, ctx.wrong = mode, wrong
            return right(x, mode=mode)

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            with torch.enable_grad():
                leaf = x.detach().requires_grad_()
                (dx,) = torch.autograd.grad(right(leaf, mode=ctx.mode), leaf, g)
            return dx * (1.5 if ctx.wrong(x, ctx.mode, g) else 1), None, None

    mistakes = {
        "forward bfloat16 max": lambda x, b, mode: x.dtype == torch.bfloat16 and mode == "max",
        "forward 3-D strided": lambda x, b, mode: x.dim() == 3 and not x.is_contiguous(),
        "forward 1-D no b": lambda x, b, mode: x.dim() == 1 and b is None,
        "backward max strided x": lambda x, mode, g: mode == "max" and not x.is_contiguous(),
        "backward 3-D strided g": lambda x, mode, g: x.dim() == 3 and not g.is_contiguous(),
        "backward wide bfloat16": lambda x, mode, g: x.dtype == torch.bfloat16 and x.shape[-1] > 1024,
        "backward never": lambda x, mode, g: False,
    }
    for name, wrong in mistakes.items():

        @op.impl(name)
        def _(x, b=None, *, mode="mean", wrong=wrong, name=name):
            if name.startswith("forward"):
                return right(x, b, mode=mode) * (1.5 if wrong(x, b, mode) else 1)
            y = Own.apply(x, mode, wrong)
            return y if b is None else y + b

    examiner, failed = Examiner(op, seed=0, device=CPU), set()
    for trial in trials_of(op):
        for name in mistakes.keys() - failed:
            outcome = examiner.examine(op[name], trial)
            if outcome is not None and outcome.failed:
                failed.add(name)
    assert failed == mistakes.keys() - {"backward never"}


def test_combinations_stay_inside_the_domain():
    op = centred(where=lambda c: c.N > 0 and (c.mode == "mean" or c.dtype == "float32"))

    @op.impl("limited", supports=lambda c: c.N % 64 == 0 and c.contiguous)
    def _(x, b=None, *, mode="mean"):
        return op.reference(x, b, mode=mode)

    for trials in (trials_of(op), trials_of(op, op["limited"])):
        assert len(trials) > 4
        assert not any(t.case.options["mode"] == "max" and t.case.dtype == "bfloat16" for t in trials)
    assert all(t.case.dims["N"] % 64 == 0 and not t.strided_inputs for t in trials)
