"""Unresolved pairs are measured again until they are decided, the time is up, or somebody interrupts."""

import math
import random

import pytest

from kernellab.comparison.compare import Side, compare
from kernellab.remeasuring.code import Code
from kernellab.remeasuring.looks import estimate_from_blocks, plan_looks
from kernellab.remeasuring.process import MeasurementFailed
from kernellab.remeasuring.remeasure import Limits, Versions, remeasure
from support.comparisons import run
from support.records import result

STEADY = [100.0 + i / 100 for i in range(20)]
OLD, NEW = Code("old.py:f", "python"), Code("new.py:f", "python")
OPS = {"f": Versions(OLD, NEW)}


class Machine:
    """Measures without processes: the time of each implementation under new code, relative to old code."""

    def __init__(self, varies=0.002, seed=1, **factors):
        self.rng, self.varies, self.factors = random.Random(seed), varies, factors
        self.calls = []

    def __call__(self, codes, batch, folder):
        (code,) = codes
        self.calls.append((code, [key.result.impl for key in batch.keys]))
        drawn = {}
        for impl in dict.fromkeys(key.result.impl for key in batch.keys):
            factor = self.factors.get(impl, 1.0) if code == NEW else 1.0
            run_factor = factor * math.exp(self.rng.gauss(0, self.varies))
            drawn[impl] = result(impl, [us * run_factor for us in STEADY])
        return run(*drawn.values())


def unresolved(*impls):
    side = run(*(result(impl, STEADY) for impl in impls))
    return compare(Side("a", [side]), Side("b", [side]), load=lambda machine: None)


def again(comparison, machine, tmp_path, *, blocks=32, seconds=60.0, seed=1):
    said = []
    limits = Limits(blocks, seconds)
    done = remeasure(comparison, OPS, limits, seed=seed, seconds=0.1, folder=tmp_path, say=said.append, measure=machine)
    return done, said


def test_each_pair_is_decided_and_then_left_alone(tmp_path):
    machine = Machine(g=1.03, h=0.9)
    done, said = again(unresolved("f", "g", "h"), machine, tmp_path)
    assert {pair.key.result.impl: pair.verdict for pair in done.pairs} == {"f": "same", "g": "slower", "h": "faster"}
    assert done.exit_code == 1
    blocks = {pair.key.result.impl: pair.blocks for pair in done.pairs}
    assert blocks["h"] <= blocks["g"] <= blocks["f"] == done.rerun.blocks
    assert blocks["h"] < blocks["f"], "what is decided is not measured on"
    (slower,) = done.with_verdict("slower")
    assert slower.ratio == pytest.approx(1.03, abs=0.01)
    assert slower.low < slower.ratio < slower.high
    assert "block 1 of at most 32: 0 s, 3 times undecided" in said


def test_processes_alternate_in_an_order_that_the_seed_repeats(tmp_path):
    def order(seed):
        machine = Machine()
        again(unresolved("f"), machine, tmp_path, blocks=12, seed=seed)
        return ["new" if code == NEW else "old" for code, _ in machine.calls]

    blocks = [tuple(order(3)[at : at + 2]) for at in range(0, len(order(3)), 2)]
    assert set(blocks) == {("old", "new"), ("new", "old")}
    assert order(3) == order(3) != order(4)


def test_what_cannot_be_told_stays_unresolved(tmp_path):
    done, _ = again(unresolved("f"), Machine(varies=0.05, f=1.01), tmp_path, blocks=8)
    assert (done.pairs[0].verdict, done.pairs[0].blocks, done.exit_code) == ("not resolved", 8, 3)
    assert "are not resolved" in done.pairs[0].reason


def test_equal_code_is_hardly_ever_called_different(tmp_path):
    """Three looks at six pairs each would make a false alarm likely, if they did not share the error level."""
    comparison = unresolved(*(f"i{n}" for n in range(6)))
    wrong = 0
    for seed in range(25):
        done, _ = again(comparison, Machine(varies=0.01, seed=seed), tmp_path, blocks=16)
        wrong += any(pair.verdict in ("slower", "faster") for pair in done.pairs)
    assert wrong <= 1


def test_the_time_limit_and_ctrl_c_keep_what_was_measured(tmp_path):
    done, _ = again(unresolved("f"), Machine(f=3.0), tmp_path, seconds=1e-9)
    assert (done.pairs[0].blocks, done.rerun.blocks, done.exit_code) == (0, 0, 3)
    assert "the time was up" in done.pairs[0].reason

    class Interrupted(Machine):
        def __call__(self, codes, batch, folder):
            if len(self.calls) == 11:
                raise KeyboardInterrupt
            return super().__call__(codes, batch, folder)

    done, _ = again(unresolved("f"), Interrupted(f=3.0, g=1.0), tmp_path, blocks=64)
    assert done.rerun.interrupted or done.pairs[0].verdict == "slower"
    done, _ = again(unresolved("f"), Interrupted(varies=0.05), tmp_path, blocks=64)
    assert (done.rerun.interrupted, done.pairs[0].blocks) == (True, 5)


def test_a_version_that_fails_is_given_up_with_its_reason(tmp_path):
    def fails(codes, batch, folder):
        if codes == [NEW]:
            raise MeasurementFailed("no file new.py\x1b[2J")
        return run(result("f", STEADY))

    done, _ = again(unresolved("f"), fails, tmp_path)
    assert done.rerun.blocks == 2
    assert done.pairs[0].reason == "could not be measured again: after: no file new.py\ufffd[2J"
    assert done.exit_code == 3


def test_another_machine_is_said(tmp_path):
    from kernellab.reporting.comparisons import words

    done, _ = again(unresolved("f"), lambda *_: run(result("f", STEADY), machine="elsewhere"), tmp_path, blocks=2)
    assert done.rerun.devices == ["elsewhere"]
    assert "They were measured again on another machine: elsewhere, and the runs were on a machine." in words.notes(
        done
    )


@pytest.mark.parametrize(
    ("measured", "reason"),
    [
        (run(result("f", status="wrong", reason="values differ")), "before: wrong: values differ"),
        (run(result("f")), "before: it was not timed"),
        (run(result("g", STEADY)), "before: this version does not have it"),
    ],
)
def test_a_record_without_the_time_says_why(tmp_path, measured, reason):
    done, _ = again(unresolved("f"), lambda code, batch, folder: measured, tmp_path)
    assert reason in done.pairs[0].reason


def test_looks_are_planned():
    assert plan_looks(32) == [4, 8, 16, 32]
    assert plan_looks(10) == [4, 8, 10]
    assert plan_looks(2) == [2]
    assert estimate_from_blocks([0.1]) is None
    assert estimate_from_blocks([0.0, 0.0]).error > 0
