"""The input tensors of a trial."""

import torch

import kernellab as kl
from kernellab.declaration.case import Case
from kernellab.trials.battery import battery
from kernellab.trials.trial import Trial
from kernellab.trials.trial_inputs import make_inputs
from support.trying import CPU, op_of, plane


def test_indices_are_valid_or_sentinels():
    @kl.op(
        args=dict(x=kl.tensor("M V"), at=kl.index("M", below="V", sentinel="skip")),
        options=dict(skip=[-100]),
        cases=kl.cases(M=[8], V=[16], dtype=["float32"]),
    )
    def pick(x, at, *, skip=-100):
        return x.gather(1, at.clamp_min(0)[:, None])[:, 0] * (at != skip)

    trials = [t for t in battery(pick, "cpu") if t.kind == "indices"]
    assert len(trials) == 8, "at both bases"
    for trial in trials:
        at = make_inputs(pick, trial, 0, CPU, guarded=True).tensors["at"]
        assert bool(((at >= 0) & (at < trial.case.V) | (at == -100)).all())
    only = next(t for t in trials if t.values["at"] == "only sentinels")
    assert bool((make_inputs(pick, only, 0, CPU, guarded=True).tensors["at"] == -100).all())


def test_another_draw_has_other_values_and_the_same_draw_the_same():
    op = op_of(lambda x: x * 2)

    def x(draw, guarded=True):
        trial = Trial("search", Case(plane(), "float32"), draw=draw)
        return make_inputs(op, trial, 0, CPU, guarded=guarded).tensors["x"]

    assert torch.equal(x(3), x(3, guarded=False))
    assert not torch.equal(x(0), x(3))
