"""Trials as data: JSON, keys, and trials that no longer fit an op's declaration."""

import dataclasses
import json

import pytest

import kernellab as kl
from kernellab.declaration.case import Case
from kernellab.declaration.targets import Target, load, shipped_names
from kernellab.trials.battery import battery
from kernellab.trials.trial import Trial
from support.klab import OPFILES
from support.trying import op_of, plane


@pytest.fixture(scope="module")
def blend():
    return load(Target("searched", file=str(OPFILES / "searched.py")))["blend"]


@pytest.mark.parametrize("name", shipped_names())
def test_every_trial_of_a_battery_survives_json(name):
    op = getattr(kl.ops, name)
    for trial in battery(op, "cpu", quick=True):
        assert Trial.from_json(json.loads(json.dumps(trial.to_labelled_json())), op).key == trial.key


def test_a_trial_stored_by_an_earlier_version_is_still_read(blend):
    case = Case({"...": (2,), "N": 65}, "float32", {"mode": "add"})
    trial = Trial("gradients", case, pass_name="backward", wrt=("y",), loss_on=-1)
    assert Trial.from_json(trial.to_json(), blend) == trial
    earlier = {k: v for k, v in trial.to_json().items() if k not in ("wrt", "loss_on")}
    assert (Trial.from_json(earlier, blend).wrt, Trial.from_json(earlier, blend).loss_on) == ((), None)
    assert Trial.from_json({**trial.to_json(), "wrt": ["gone"]}, blend) is None


def test_the_draw_is_stored_only_where_it_is_not_0():
    op = op_of(lambda x: x * 2)
    trial = Trial("search", Case(plane(), "float32"), draw=3)
    assert Trial.from_json(trial.to_json(), op) == trial
    assert "draw" not in dataclasses.replace(trial, draw=0).to_json()


def test_one_tensor_for_two_inputs_is_stored(blend):
    case = Case({"...": (2,), "N": 65}, "float32", {"mode": "add"})
    trial = Trial("calls", case, same=("x", "y"))
    assert Trial.from_json(trial.to_json(), blend) == trial
    assert "x and y the same tensor" in trial.label
    assert "same" not in dataclasses.replace(trial, same=()).to_json()
    assert Trial.from_json({**trial.to_json(), "same": ["x", "gone"]}, blend) is None


def test_a_stored_trial_does_not_fit_another_op_or_a_changed_option(blend):
    case = Case({"...": (2,), "N": 65}, "float32", {"mode": "subtract"})
    trial = Trial("search", case, layouts={"y": "transposed"}, pass_name="backward", upstream="zero")
    assert Trial.from_json(trial.to_json(), blend) == trial
    assert Trial.from_json(trial.to_json(), kl.ops.gelu) is None
    changed = {**trial.to_json(), "case": {**case.to_json(), "options": {"mode": "divide"}}}
    assert Trial.from_json(changed, blend) is None
