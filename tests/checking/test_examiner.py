"""Examining an implementation at a trial: what it raises, what it is given, what it leaves behind."""

import contextlib
import ctypes

import numpy as np
import pytest
import torch

import kernellab as kl
from kernellab.checking import examiner as examiner_module
from kernellab.checking.declared_case import CaseChecker
from kernellab.checking.examiner import Examiner
from kernellab.checking.trial_memory import memory_needed
from kernellab.declaration.case import Case
from kernellab.trials import calls
from kernellab.trials.battery import battery
from kernellab.trials.trial import Trial
from support.trying import CPU, check, differentiable, doubling, examine, op_of, plane


@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt(), RecursionError("deep"), ValueError("no")])
def test_whatever_an_implementation_raises_becomes_its_status(error):
    op = doubling()

    def raising(x):
        raise error

    op.impl("raises")(raising)
    assert check(op, "raises").status == "error"
    op.impl("supports-raises", supports=raising)(lambda x: x * 2)
    outcome = check(op, "supports-raises")
    assert (outcome.status, "supports= failed" in outcome.reason) == ("error", True)


class Hostile(Exception):
    def __str__(self):
        raise ValueError("not telling")


def test_an_exception_without_a_readable_message_is_the_implementations_error():
    op = doubling()

    def raising(x):
        raise Hostile

    op.impl("hostile")(raising)
    outcome = check(op, "hostile")
    assert (outcome.status, outcome.reason.startswith("Hostile: its message cannot be read (")) == ("error", True)


def test_long_messages_and_deep_tracebacks_are_cut():
    op = doubling()

    def deep(x, n=400):
        if n:
            return deep(x, n - 1) if n % 2 else deep(x, n - 1) + 0
        raise RuntimeError("long " * 100_000 + "\n" + "more\n" * 1000)

    op.impl("long")(deep)
    outcome = check(op, "long")
    assert len(outcome.reason) < 400
    assert len(outcome.outcomes[0].traceback.splitlines()) < 60


@pytest.mark.parametrize("elements", [1000, 16_384, 65_536, 1 << 20])
def test_an_output_that_is_not_written_is_wrong_whatever_is_in_its_memory(elements):
    """A right implementation has used that memory before."""
    op = doubling()
    op.impl("good")(lambda x: x * 2)
    op.impl("lazy")(torch.empty_like)
    checker = CaseChecker(op, Case({"...": (elements,)}, "float32"), seed=0, device=CPU)
    for _ in range(3):
        assert checker.check(op["good"]).status == "ok"
        assert checker.check(op["lazy"]).status == "wrong"


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda x: x.resize_(2), "changed its input x"),
        (lambda x: x.unsqueeze_(0), "changed its input x"),
        (lambda x: x.set_(), "changed its input x"),
    ],
)
def test_an_input_that_changed_its_form_is_made_anew_for_the_next_implementation(change, reason):
    op = doubling()

    def bad(x):
        y = x * 2
        change(x)
        return y

    op.impl("bad")(bad)
    op.impl("good")(lambda x: x * 2)
    checker = CaseChecker(op, Case({"...": (6,)}, "float32"), seed=0, device=CPU)
    outcome = checker.check(op["bad"])
    assert (outcome.status, reason in outcome.reason) == ("wrong", True)
    assert checker.check(op["good"]).status == "ok"


def test_a_declared_mutation_is_no_fault_and_the_next_implementation_gets_fresh_inputs():
    op = doubling()
    op.impl("in-place", mutates=["x"])(lambda x: x.mul_(2))
    op.impl("good")(lambda x: x * 2)
    checker = CaseChecker(op, Case({"...": (8,)}, "float32"), seed=0, device=CPU)
    assert checker.check(op["in-place"]).status == "ok"
    assert checker.check(op["good"]).status == "ok"


def test_an_implementation_that_works_in_place_is_not_given_elements_that_share_memory():
    op = op_of(lambda x: x * 2)
    op.impl("in-place", mutates=["x"])(lambda x: x.mul_(2))
    outcome = examine(op, "in-place", plane(), layouts={"x": "expanded rows"})
    assert (outcome.status, "share memory" in outcome.reason) == ("outside", True)
    assert examine(op, "in-place", plane(), layouts={"x": "transposed"}).status == "ok"


class InPlace(torch.autograd.Function):
    """x² in the memory of x; the gradient times `sign`."""

    @staticmethod
    def forward(ctx, x, sign, dirty):
        ctx.save_for_backward(x.clone())
        ctx.sign = sign
        with torch.no_grad():
            torch.square(x, out=x)
        if dirty:
            ctx.mark_dirty(x)
        return x

    @staticmethod
    def backward(ctx, upstream):
        (x,) = ctx.saved_tensors
        return ctx.sign * 2 * x * upstream, None, None


def memory_of(t, elements=None):
    """The memory behind a float tensor as an array, as a kernel sees it that takes the tensor for contiguous."""
    return np.ctypeslib.as_array((ctypes.c_float * (elements or t.numel())).from_address(t.data_ptr()))


def behind_autograds_back(x):
    """In place, as a kernel does that is given a pointer."""
    np.square(x.detach().numpy(), out=x.detach().numpy())
    return x


@pytest.fixture
def squares_in_place():
    op = op_of(lambda x: x * x, dims="... N")
    op.impl("autograd", mutates=["x"])(lambda x: x.pow_(2))
    op.impl("own-backward", mutates=["x"])(lambda x: InPlace.apply(x, 1.0, True))
    op.impl("own-backward, unmarked", mutates=["x"])(lambda x: InPlace.apply(x, 1.0, False))
    op.impl("flipped", mutates=["x"])(lambda x: InPlace.apply(x, -1.0, True))
    op.impl("flipped, unmarked", mutates=["x"])(lambda x: InPlace.apply(x, -1.0, False))
    op.impl("unrecorded", mutates=["x"])(behind_autograds_back)
    op.impl("unrecorded view", mutates=["x"])(lambda x: behind_autograds_back(x).view_as(x))
    op.impl("refused by autograd", mutates=["x"])(lambda x: x.mul_(x))
    return op


GRADIENTS = (
    {"pass_name": "backward"},
    {"pass_name": "backward", "upstream": "expanded"},
    {"pass_name": "backward", "layouts": {"x": "transposed"}},
    {"pass_name": "backward", "layouts": {"x": "sliced columns"}},
    {"pass_name": "backward", "call": "backward twice"},
)


@pytest.mark.parametrize("fields", GRADIENTS, ids=lambda fields: " ".join(map(str, fields.values())))
def test_gradients_of_an_implementation_that_works_in_place_are_tried_on_copies(squares_in_place, fields):
    op = squares_in_place
    outcomes = {name: examine(op, name, plane(), **fields) for name in op.impls if name not in ("manual", "compile")}
    statuses = {name: outcome.status for name, outcome in outcomes.items()}
    right = ["own-backward", "own-backward, unmarked", "autograd"]
    assert {statuses[name] for name in right} == {"ok"}
    assert {statuses[name] for name in ("flipped", "flipped, unmarked")} == {"wrong"}
    for name in ("unrecorded", "unrecorded view", "refused by autograd"):
        assert (statuses[name], "not differentiable" in outcomes[name].reason) == ("outside", True)


@pytest.mark.parametrize(
    "fields", [{"call": "twice"}, {"call": "beside large numbers"}, {"layouts": {"x": "misaligned"}}]
)
def test_every_call_of_an_implementation_that_works_in_place_finds_its_inputs(squares_in_place, fields):
    for name in ("autograd", "own-backward", "unrecorded"):
        assert examine(squares_in_place, name, plane(), **fields).status == "ok"


@pytest.mark.parametrize(("call", "factor"), [("plainly", 0), ("beside large numbers", 2)])  # 2 · NaN is the same NaN
def test_an_implementation_that_works_in_place_is_caught_when_it_writes_outside(call, factor):
    def careless(x):
        memory = memory_of(x, x.numel() + 1)
        memory[:-1] *= 2
        memory[-1] = factor and factor * memory[-1]
        return x

    op = op_of(lambda x: x * 2)
    op.impl("careless", mutates=["x"])(careless)
    outcome = examine(op, "careless", plane(8, 4), call=call)
    assert (outcome.status, outcome.reason) == ("wrong", "wrote outside one of its inputs: x")


def test_supports_can_require_contiguous_inputs():
    def picky(x):
        if not x.is_contiguous():
            raise ValueError("x must be contiguous")
        return x * 2

    op = op_of(lambda x: x + x)
    op.impl("picky", supports=lambda case: case.contiguous or "contiguous inputs only")(picky)
    for layout in ("transposed", "sliced columns", "every second element", "expanded rows", "first half of a chunk"):
        for pass_name in ("forward", "backward"):
            outcome = examine(op, "picky", plane(), pass_name=pass_name, layouts={"x": layout})
            assert (outcome.status, outcome.reason) == ("outside", "contiguous inputs only")
    for layout in ("sliced rows", "misaligned"):
        assert examine(op, "picky", plane(), layouts={"x": layout}).status == "ok"


@pytest.mark.parametrize("upstream", ["random", "expanded", "non-contiguous", "zero"])
@pytest.mark.parametrize("first", [0, 1])
def test_a_backward_that_overwrites_its_upstream_gradient_is_named_and_destroys_nothing(upstream, first):
    def backward(ctx, saved, g):
        result = 2 * g
        memory_of(g)[first:] = 3.0  # as a kernel does that takes it for contiguous
        return result

    op = op_of(lambda x: 2 * x)
    op.impl("in-place")(differentiable(lambda x: 2 * x, backward))
    outcome = examine(op, "in-place", plane(64, 512), pass_name="backward", upstream=upstream)
    assert (outcome.status, outcome.reason.startswith("changed its upstream gradient")) == ("wrong", True)


@pytest.mark.parametrize("layout", ["expanded rows", "expanded columns"])
def test_writing_into_an_expanded_input_destroys_nothing(layout):
    def overwrite(x):
        result = 2 * x
        memory_of(x)[1:] = 3.0
        return result

    op = op_of(lambda x: 2 * x, overwrite=overwrite)
    outcome = examine(op, "overwrite", plane(64, 512), layouts={"x": layout})
    assert outcome.status == "wrong"
    assert outcome.reason.startswith(("changed its input x", "wrote outside one of its inputs: x"))


def test_memory_that_a_prepared_trial_holds_is_not_counted_twice(monkeypatch):
    op = op_of(lambda x: x + x, one=lambda x: 2 * x, other=lambda x: 2 * x)
    trial = Trial("large", Case(plane(), "float32"))
    needed, oracle = memory_needed(op, trial), 32 * 16 * 8
    monkeypatch.setattr(examiner_module, "_NO_MEMORY_QUESTION", 0)
    examiner = Examiner(op, seed=0, device=CPU)
    statuses = []
    for name, free in (("one", needed), ("other", needed - oracle), ("one", needed // 8)):
        monkeypatch.setattr(examiner_module, "free_bytes", lambda device, free=free: free)
        statuses.append(examiner.examine(op[name], trial).status)
    assert statuses == ["ok", "ok", "outside"]


def test_a_trial_that_does_not_fit_in_memory_is_not_begun():
    (large,) = [trial for trial in battery(kl.ops.gelu, "cpu") if trial.kind == "large"]
    outcome = Examiner(kl.ops.gelu, seed=0, device=CPU).examine(kl.ops.gelu["torch"], large)
    assert outcome.status == "ok" or (outcome.status == "outside" and "GiB of memory" in outcome.reason)


def test_an_implementation_with_clone_is_judged_on_copies_in_every_pass_layout_and_call():
    op = op_of(lambda x: x * 2)
    op.impl("in-place", clone=True)(lambda x: x.mul_(2))
    op.impl("wrong-in-place", clone=True)(lambda x: x.mul_(3))
    for fields in (
        {},
        {"pass_name": "backward"},
        {"layouts": {"x": "expanded rows"}},
        {"layouts": {"x": "transposed"}},
        {"call": calls.TWICE},
    ):
        assert examine(op, "in-place", plane(), **fields).status == "ok"
        assert examine(op, "wrong-in-place", plane(), **fields).status == "wrong"


def test_an_implementation_with_clone_still_sees_the_layout():
    op = op_of(lambda x: x * 2)
    op.impl("assumes-contiguous", clone=True)(lambda x: x.as_strided(x.shape, (x.shape[-1], 1)) * 2)
    assert examine(op, "assumes-contiguous", plane()).status == "ok"
    for layout in ("transposed", "sliced columns", "every second element"):
        assert examine(op, "assumes-contiguous", plane(), layouts={"x": layout}).status in ("wrong", "error"), layout


def test_an_implementation_takes_one_input_only_contiguous():
    @kl.op(args=dict(x=kl.tensor("M N"), w=kl.tensor("N N")))
    def f(x, w):
        return x @ w

    f.impl("picky", contiguous=["w"])(lambda x, w: x @ w.view(-1).view(w.shape))
    sizes = {"M": 3, "N": 8}
    assert examine(f, "picky", sizes, layouts={"x": "transposed"}).status == "ok"
    assert examine(f, "picky", sizes, layouts={"w": "misaligned"}).status == "ok"
    outcome = examine(f, "picky", sizes, layouts={"w": "transposed"})
    assert (outcome.status, outcome.reason) == ("outside", "takes w only contiguous")


def test_an_input_without_gradient_is_not_asked_for_one():
    class Rotated(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, table):
            ctx.save_for_backward(table)
            return x * table

        @staticmethod
        def backward(ctx, grad):
            return grad * ctx.saved_tensors[0], None

    def op_with(gradient):
        op = kl.op(args=dict(x=kl.tensor("S D"), table=kl.tensor("S D", gradient=gradient)))(lambda x, table: x * table)
        op.impl("mine")(Rotated.apply)
        return op

    sizes = {"S": 4, "D": 8}
    assert examine(op_with(gradient=False), "mine", sizes, pass_name="backward").status == "ok"
    assert examine(op_with(gradient=True), "mine", sizes, pass_name="backward").status == "wrong"
    wrt = [trial.wrt for trial in battery(op_with(gradient=False), "cpu") if trial.wrt]
    assert wrt == []


def test_further_runs_of_the_reference_that_judge_values_are_not_the_implementations_time():
    running, seen = [], []

    @contextlib.contextmanager
    def record(impl, phase):
        running.append(impl)
        yield
        running.pop()

    @kl.op
    def double(x):
        seen.append(tuple(running))
        return x + x

    double.impl("off")(lambda x: x * 2.001)
    examiner = Examiner(double, seed=0, device=CPU, running=record)
    assert examiner.examine(double["off"], Trial("sizes", Case({"...": (6,)}, "float32"))).status == "wrong"
    assert len(seen) > 2
    assert set(seen) == {(None,)}
