"""Gradients at kinks and at large values, where correct implementations differ."""

import torch

import kernellab as kl
from kernellab.checking.examiner import Examiner
from kernellab.trials.battery import battery
from support.trying import CPU, differentiable, failures


def test_at_a_kink_every_finite_gradient_passes():
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
    failed = failures(highest, "gradients")
    assert set(failed) == {"nan-among-equals"}, "a gradient that is not finite is wrong at a kink too"


def _share(x):
    top = x == x.amax(-1, keepdim=True)
    return torch.where(top & (top.sum(-1, keepdim=True) > 1), torch.nan, top.float())


def test_the_gradient_from_a_saved_logsumexp_passes():
    @kl.op(args=dict(x=kl.tensor("M N")), reduces="N", where=lambda c: c.N > 0, cases=kl.cases(M=[32], N=[64]))
    def lse(x):
        return (x - x.log_softmax(-1))[:, 0]

    def backward(ctx, saved, g):
        return g[:, None] * torch.exp(saved[0] - torch.logsumexp(saved[0], -1, keepdim=True))

    lse.impl("saved")(differentiable(lambda x: torch.logsumexp(x, -1), backward))
    trials = [t for t in battery(lse, "cpu") if t.pass_name == "backward" and t.values]
    examiner = Examiner(lse, seed=0, device=CPU)
    assert trials
    for trial in trials:
        assert examiner.examine(lse["saved"], trial).status == "ok", trial.label
