"""The oracle, whole and in slices."""

import torch

import kernellab as kl
from kernellab.accuracy.oracle import Oracle
from kernellab.checking.declared_case import CaseChecker
from kernellab.declaration import inputs
from kernellab.declaration.case import Case
from kernellab.trials.trial import Trial
from support.trying import CPU

LARGE = Case({"...": (1025, 1024)}, "float32")  # beyond one slice of the oracle


def test_an_op_that_does_not_repeat_over_leading_dims_is_not_sliced():
    @kl.op
    def unit(x):
        return x / x.norm()

    unit.impl("good")(lambda x: x * (1 / x.norm()))
    unit.impl("zeros")(torch.zeros_like)
    checker = CaseChecker(unit, LARGE, seed=0, device=CPU)
    assert checker.check(unit["good"]).status == "ok"
    assert checker.check(unit["zeros"]).status == "wrong"


def test_a_sliced_oracle_equals_the_whole_one():
    oracle = Oracle(kl.ops.softmax, seed=0, device=CPU)
    trial = Trial("declared", Case({"...": (2048,), "N": 1024}, "float32"))
    made = inputs.make_inputs(kl.ops.softmax, trial.case, 0)
    assert torch.allclose(oracle.compute(trial, made)[0], oracle.reference64(trial, made)[0], rtol=1e-12)
