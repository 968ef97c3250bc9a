"""Searching beyond the battery: a failure is found and shrunk, in the time given."""

import dataclasses
import re
import time

import pytest
import torch

import kernellab as kl
from kernellab.checking.examiner import Examiner
from kernellab.checking.outcome import Outcome
from kernellab.checking.search import search
from kernellab.declaration.targets import Target, load
from kernellab.reproduction.script import write_script
from kernellab.trials.choosing.small_cases import largest_input
from support.klab import OPFILES
from support.trying import CPU, run_without_kernellab


@pytest.fixture(autouse=True)
def _one_thread():
    """Hundreds of small trials: two threads on two busy cores would mostly wait for each other."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


FILE = OPFILES / "searched.py"


@pytest.fixture(scope="module")
def blend():
    return load(Target("searched", file=str(FILE)))["blend"]


def search_impl(op, name, seconds=60.0):
    """Ends at the first failure; otherwise after so many seconds."""

    def examine(trial):
        return Examiner(op, seed=0, device=CPU).examine(op[name], trial)

    return search(op, examine, seconds=seconds, seed=0, device="cpu")


def test_a_mistake_is_found_shrunk_and_reproduced_without_kernellab(blend, tmp_path):
    result = search_impl(blend, "blocks")
    assert result.failure is not None
    trial = result.failure.trial
    assert (trial.kind, trial.case.N, trial.case.mode, trial.case.dtype) == ("search", 65, "subtract", "float32")
    assert (trial.pass_name, trial.call, dict(trial.values), list(trial.layouts)) == ("forward", "plainly", {}, ["y"])
    assert largest_input(blend, trial.case) <= 2 * 65
    script = write_script(blend, blend["blocks"], trial, result.failure.outcome, seed=0, interpreted=False)
    assert "kernellab" not in script.text
    assert len(script.lines) <= 12
    assert all(len(line) <= 120 for line in script.lines)
    done = run_without_kernellab(script.text, tmp_path)
    assert float(re.search(r"worst difference: (\S+)", done.stdout)[1]) > 1e-3, done.stderr


def test_the_same_seed_draws_the_same_trials(blend):
    def drawn(seed):
        keys = []

        def examine(trial):
            keys.append(trial.key)
            if len(keys) == 20:
                raise ConnectionError("enough")
            return Outcome("ok")

        with pytest.raises(ConnectionError):
            search(blend, examine, seconds=60.0, seed=seed, device="cpu")
        return keys

    assert drawn(1) == drawn(1) != drawn(2)


@pytest.mark.clocked
def test_nothing_is_found_in_a_right_implementation_and_time_is_kept(blend):
    began = time.monotonic()
    result = search_impl(blend, "honest", seconds=1.5)
    assert time.monotonic() - began < 2
    assert result.failure is None
    assert result.drawn > 20


@pytest.mark.clocked
def test_drawn_trials_are_defined_and_small_enough():
    @kl.op(
        args=dict(
            q=kl.tensor("H S"), k=kl.tensor("G S"), bias=kl.optional(kl.tensor("S")), at=kl.index("H", below="S")
        ),
        dims=dict(G="H"),
        where=lambda c: c.H % c.G == 0 and c.S > 0,
    )
    def mixed(q, k, bias, at):
        return q + k.repeat_interleave(q.shape[0] // k.shape[0], 0) + (0 if bias is None else bias) + at[:, None]

    mixed.impl("same")(mixed.reference)
    trials = []

    def examine(trial):
        trials.append(trial)
        return Outcome("ok")

    search(mixed, examine, seconds=1.0, seed=0, device="cpu", max_elements=500)
    assert all(t.case.H % t.case.G == 0 and t.case.S > 0 and largest_input(mixed, t.case) <= 500 for t in trials)
    assert {t.case.bias for t in trials} == {True, False}
    assert {t.case.G == t.case.H for t in trials} == {True, False}
    assert not any("bias" in t.layouts for t in trials if not t.case.bias)
    assert len({t.draw for t in trials}) > 3, "values vary too"


@pytest.mark.clocked
@pytest.mark.parametrize(("values", "fails"), [("all", True), ("its own", False)])
def test_a_small_excess_counts_only_if_other_values_fail_too(blend, values, fails):
    drawn = set()

    def examine(trial):
        plain = dataclasses.replace(trial, draw=0).key
        wrong = values == "all" or plain not in drawn
        drawn.add(plain)
        return Outcome("wrong", "values", excess=1.5) if wrong else Outcome("ok")

    assert (search(blend, examine, seconds=0.5, seed=0, device="cpu").failure is not None) is fails


def test_the_search_of_an_op_defined_nowhere_ends_in_time():
    @kl.op(where=lambda case: False)
    def nowhere(x):
        return x

    result = search(nowhere, lambda trial: None, seconds=0.5, seed=0, device="cpu")
    assert (result.drawn, result.failure) == (0, None)


def test_an_exception_while_examining_is_raised(blend):
    def examine(trial):
        raise ConnectionError("gone")

    with pytest.raises(ConnectionError):
        search(blend, examine, seconds=2.0, seed=0, device="cpu")


def test_a_search_draws_inside_a_limited_domain():
    @kl.op(
        args=dict(x=kl.tensor("M N")),
        options=dict(mode=["a", "b"]),
        dtypes=["float32", "bfloat16"],
        cases=kl.cases(M=[256], N=[512]),
    )
    def double(x, *, mode="a"):
        return 2 * x

    @double.impl("tiles", supports=lambda c: c.M % 64 == c.N % 128 == 0 and c.M > 0 and c.mode == "b" and c.contiguous)
    def _(x, *, mode):
        return 2 * x if x.shape[0] % 128 or x.dtype == torch.float32 else 3 * x

    drawn = []

    def examine(trial):
        drawn.append(trial)
        return Examiner(double, seed=0, device=CPU).examine(double["tiles"], trial)

    result = search(double, examine, seconds=60.0, seed=0, device="cpu", impl=double["tiles"])
    assert result.failure is not None
    assert result.failure.trial.case.dtype == "bfloat16"
    assert result.outside == 0
    assert len({trial.case.shape for trial in drawn}) > 1
