"""Checking one way at one case, without processes."""

import dataclasses
import json
import subprocess
import sys

import pytest
import torch

import kernellab as kl
from kernellab.checking.declared_case import Checker
from kernellab.checking.examiner import Examiner
from kernellab.declaration import inputs
from kernellab.declaration.case import Case
from kernellab.declaration.case_request import CaseRequest
from kernellab.declaration.targets import Target, load
from kernellab.interpreter.emulation import to_bfloat16_bits
from kernellab.trials.small_cases import largest, standin
from kernellab.trials.trial import Trial
from support.klab import OPFILES, klab_env

CPU = torch.device("cpu")


def check(op, name, case=None, **more):
    case = case or Case({d: (6,) if d == "..." else 8 for d in op.dims}, "float32", dict.fromkeys(op.all_options()))
    first = {k: v[0] for k, v in op.all_options().items()}
    return Checker(op, case.with_(options={**first}), seed=0, device=CPU, **more).check(op[name])


@pytest.fixture
def op():
    @kl.op
    def double(x):
        return x + x

    return double


def test_a_right_way_is_right_and_its_error_is_beside_pytorchs(op):
    op.impl("torch")(lambda x: torch.add(x, x))
    op.impl("good")(lambda x: x * 2)
    seen = check(op, "good")
    assert seen["status"] == "ok"
    assert seen["peer"]["impl"] == "torch"
    assert seen["errors"]["max"] == 0.0


@pytest.mark.parametrize(
    ("fn", "status", "reason"),
    [
        (lambda x: (2 * x)[:-1], "wrong", "shape 5, should be 6"),
        (lambda x: (2 * x).double(), "wrong", "dtype float64, should be float32"),
        (lambda x: (2 * x).to("meta"), "wrong", "device meta, should be cpu"),
        (lambda x: x * 2.001, "wrong", "values: error"),
        (torch.zeros_like, "wrong", "values: error"),
        (lambda x: x * float("nan"), "wrong", "NaN or inf"),
        (lambda x: x.mul_(2).clone(), "wrong", "changed its input x without declaring"),
        (lambda x: None, "wrong", "returned None"),
        (lambda x: "tensor", "wrong", "returned a str"),
        (lambda x: (x * 2, x), "wrong", "returned 2 tensors, should be 1"),
        (lambda x: torch.empty(1 << 50), "oom", "needs at least 4.19e+06 GiB, cpu has"),
        (lambda x: x, "wrong", "returned the memory of its input x"),
        (lambda x: 1 / 0, "error", "ZeroDivisionError: division by zero (test_check.py:"),
        (lambda x, y: x, "error", "missing 1 required positional argument"),
    ],
)
def test_what_can_be_wrong_is_named(op, fn, status, reason):
    op.impl("suspect")(fn)
    seen = check(op, "suspect")
    assert seen["status"] == status
    assert reason in seen["reason"]


def test_a_declared_mutation_is_no_fault_and_the_next_way_gets_clean_inputs(op):
    op.impl("in-place", mutates=["x"])(lambda x: x.mul_(2))
    op.impl("good")(lambda x: x * 2)
    checker = Checker(op, Case({"...": (8,)}, "float32"), seed=0, device=CPU)
    assert checker.check(op["in-place"])["status"] == "ok"
    assert checker.check(op["good"])["status"] == "ok"


def test_a_wrong_pytorch_way_is_wrong_and_no_yardstick(op):
    op.impl("torch")(torch.zeros_like)
    op.impl("zeros-too")(torch.zeros_like)
    op.impl("good")(lambda x: x * 2)
    assert check(op, "torch")["status"] == "wrong"
    assert check(op, "zeros-too")["status"] == "wrong"
    assert check(op, "good")["peer"]["impl"] == "manual"


def test_strides_are_reported_in_others_ops_and_required_in_shipped_ones(op):
    case = Case({"...": (4, 6)}, "float32")
    op.impl("transposed")(lambda x: (x.t() * 2).contiguous().t())
    seen = Checker(op, case, seed=0, device=CPU).check(op["transposed"])
    assert seen["status"] == "ok"
    assert "strides (1, 4), manual's are (6, 1)" in seen["notes"][0]
    op.file = kl.ops.gelu.file
    seen = Checker(op, case, seed=0, device=CPU).check(op["transposed"])
    assert (seen["status"], "strides (" in seen["reason"]) == ("wrong", True)


def test_every_option_is_tried_and_the_bad_one_named():
    @kl.op(options={"power": [2, 3]})
    def f(x, *, power=2):
        return x**power

    f.impl("square-only", supports=lambda c: c.power == 2 or "squares only")(lambda x, *, power: x * x)
    f.impl("always-square")(lambda x, *, power: x * x)
    seen = check(f, "square-only")
    assert (seen["status"], seen["trials"]) == ("ok", 1)
    assert seen["outside"][0]["reason"] == "squares only"
    seen = check(f, "always-square")
    assert seen["status"] == "wrong"
    assert "(with power=3)" in seen["reason"]


def test_a_case_outside_a_ways_domain_is_skipped_with_its_reason(op):
    op.impl("narrow", supports=lambda c: "never")(lambda x: x)
    seen = check(op, "narrow")
    assert (seen["status"], seen["reason"]) == ("skipped", "never")


def test_a_reference_that_fails_is_nobodys_fault():
    @kl.op
    def f(x):
        raise RuntimeError("not today")

    f.impl("good")(lambda x: x)
    seen = check(f, "good")
    assert seen["status"] == "unknown"
    assert "cannot check: the reference failed: RuntimeError: not today" in seen["reason"]


@pytest.mark.parametrize("name", ["cross_entropy", "attention"])
@pytest.mark.parametrize("impl", ["manual", "torch"])
def test_the_sketched_ops_check_with_every_option(name, impl):
    op = load(Target("sketches", file=str(OPFILES / "sketches.py")))[name]
    (case,) = op.expand(CaseRequest(), "cpu")
    seen = Checker(op, case, seed=0, device=CPU).check(op[impl])
    assert seen["status"] == "ok", seen["reason"]
    assert seen["trials"] + len(seen["outside"]) == len(op.option_variants(case))


def test_stand_ins_shrink_what_repeats_before_what_matters():
    softmax = kl.ops.softmax
    case = Case({"...": (4096,), "N": 16384}, "float32")
    small = standin(softmax, case, 65_536)
    assert dict(small.dims) == {"...": (4,), "N": 16384}
    assert largest(softmax, standin(softmax, case.with_(dims={"...": (9,), "N": 1 << 20}), 65_536)) <= 65_536
    matmul = kl.ops.matmul
    square = Case({"M": 1024, "K": 1024, "N": 1024}, "float32")
    assert dict(standin(matmul, square, 65_536).dims) == {"M": 256, "K": 256, "N": 256}


def test_bfloat16_is_rounded_to_nearest_even():
    x = torch.cat([torch.randn(10_000), torch.tensor([0.0, -0.0, float("inf"), -float("inf"), 3.4e38, 1e-40])])
    bits = torch.from_numpy(to_bfloat16_bits(x.numpy()).view("int16"))
    assert torch.equal(bits.view(torch.bfloat16), x.bfloat16())
    assert torch.isnan(
        torch.from_numpy(to_bfloat16_bits(torch.tensor([float("nan")]).numpy()).view("int16")).view(torch.bfloat16)
    ).all()


def test_the_interpreter_computes_with_bfloat16_as_a_gpu_does(tmp_path):
    program = tmp_path / "bfloat16.py"
    program.write_text(IN_BFLOAT16)
    done = subprocess.run([sys.executable, program], capture_output=True, text=True, env=klab_env())
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.split() == ["0.0"] * 12 + ["searched", "0"]


IN_BFLOAT16 = """
import inspect

from kernellab.interpreter.emulation import prepare

prepare()
import torch
import triton
import triton.language as tl


@triton.jit
def compute(x, y, out, WHAT: tl.constexpr, N: tl.constexpr):
    i = tl.arange(0, N)
    a, b = tl.load(x + i), tl.load(y + i)
    if WHAT == 0: r = a + b
    if WHAT == 1: r = a * b
    if WHAT == 2: r = tl.where(a > b, a, b)
    if WHAT == 3: r = -a
    if WHAT == 4: r = a * 0.5
    if WHAT == 5: r = (a < 0.0).to(tl.bfloat16)
    if WHAT == 6: r = tl.fma(a, b, a)
    if WHAT == 7: r = a.to(tl.int32).to(tl.bfloat16)
    if WHAT == 8: r = tl.zeros((N,), tl.bfloat16) + tl.sum(a, axis=0)
    if WHAT == 9: r = tl.sort(a)
    if WHAT == 10: r = tl.cumsum(a, axis=0)
    if WHAT == 11: r = tl.sum(tl.dot(tl.broadcast_to(a[:, None], (N, N)), tl.broadcast_to(b[:, None], (N, N))), axis=1)
    tl.store(out + i, r)


torch.manual_seed(0)
N = 16
x, y = torch.randn(N).bfloat16(), torch.randn(N).bfloat16()
u, v = x.float(), y.float()
dot = N * u * v.sum()
want = [x + y, x * y, torch.where(x > y, x, y), -x, x * 0.5, (x < 0).bfloat16(), u * v + u, x.int(), u.sum().expand(N),
        x.sort().values, u.cumsum(0), dot]
for what, expected in enumerate(want):
    out = torch.zeros(N).bfloat16()
    compute[(1,)](x, y, out, what, N)
    worst = (out.float() - expected.bfloat16().float()).abs().max()
    print(float(worst) if what < 11 else float((worst > 0.02 * dot.abs().max())))

# The language is the same at every call: it is not searched for its builtins again.
searched, search = [], inspect.getmembers
inspect.getmembers = lambda *what: searched.append(what) or search(*what)
compute[(1,)](x, y, out, 8, N)
print("searched", len(searched))
"""

LARGE = Case({"...": (1025, 1024)}, "float32")  # beyond one slice of the oracle


def test_an_op_that_leading_dims_do_not_repeat_has_a_whole_oracle():
    @kl.op
    def unit(x):
        return x / x.norm()

    unit.impl("good")(lambda x: x * (1 / x.norm()))
    unit.impl("zeros")(torch.zeros_like)
    checker = Checker(unit, LARGE, seed=0, device=CPU)
    assert checker.check(unit["good"])["status"] == "ok"
    assert checker.check(unit["zeros"])["status"] == "wrong"


@pytest.mark.parametrize("name", ["gelu", "softmax", "square", "add"])
def test_zeros_the_mean_and_a_permutation_are_wrong_through_the_checker_at_size(name):
    op = getattr(kl.ops, name)
    fakes = {
        "zeros": torch.zeros_like,
        "mean": lambda y: torch.full_like(y, y.mean().item()),
        "permuted": lambda y: y.flatten()[torch.randperm(y.numel())].view_as(y),
    }
    (case,) = op.expand(CaseRequest(shapes=[(1025, 1024)], dtypes=["float32"]), "cpu")
    checker = Checker(op, case, seed=0, device=CPU)
    assert checker.check(op["torch"])["status"] == "ok"
    for label, fake in fakes.items():
        impl = dataclasses.replace(op["torch"], name=label, fn=lambda *x, fake=fake, **o: fake(op["torch"](*x, **o)))
        assert checker.check(impl)["status"] == "wrong", label


def test_a_sliced_oracle_is_the_whole_oracle():
    finder = Examiner(kl.ops.softmax, seed=0, device=CPU)._finder
    trial = Trial("declared", Case({"...": (2048,), "N": 1024}, "float32"))
    made = inputs.make_inputs(kl.ops.softmax, trial.case, 0)
    assert torch.allclose(finder._oracle(trial, made)[0], finder._reference64(trial, made)[0], rtol=1e-12)


def test_a_yardstick_that_is_itself_far_off_measures_nothing():
    @kl.op
    def cancels(x):
        return (x + 1e8) - 1e8  # right in float64, nothing left of it in float32

    cancels.impl("zeros")(torch.zeros_like)
    seen = check(cancels, "zeros")
    assert seen["status"] == "unknown"
    assert "the yardstick, manual, is itself" in seen["reason"]


def test_a_reference_that_changes_its_input_cannot_judge():
    @kl.op
    def f(x):
        return x.mul_(2)

    f.impl("good")(lambda x: x * 2)
    assert "the reference changes its input" in check(f, "good")["reason"]


@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt(), RecursionError("deep"), ValueError("no")])
def test_nothing_a_way_raises_goes_further_than_its_status(op, error):
    def raising(x):
        raise error

    op.impl("raises")(raising)
    assert check(op, "raises")["status"] == "error"
    op.impl("supports-raises", supports=raising)(lambda x: x * 2)
    seen = check(op, "supports-raises")
    assert (seen["status"], "supports= failed" in seen["reason"]) == ("error", True)


def test_option_values_arrive_as_they_were_declared():
    @kl.op(options={"dims": [(0, 1), None], "flag": [True, 1]})
    def f(x, *, dims, flag):
        return x

    (case,) = f.expand(CaseRequest(shapes=[(4,)]), "cpu")
    again = f.case(json.loads(json.dumps(case.to_json())))
    assert again == case
    assert again.options["dims"] == (0, 1)
    variants = f.option_variants(case)
    assert [f.case(v.to_json()).options for v in variants] == [v.options for v in variants]


@pytest.mark.parametrize("elements", [1000, 16_384, 65_536, 1 << 20])
def test_what_others_left_in_memory_makes_no_way_right(op, elements):
    """A way that never writes its output must not pass because a right one used that memory before it."""
    op.impl("good")(lambda x: x * 2)
    op.impl("lazy")(torch.empty_like)
    checker = Checker(op, Case({"...": (elements,)}, "float32"), seed=0, device=CPU)
    for _ in range(3):
        assert checker.check(op["good"])["status"] == "ok"
        assert checker.check(op["lazy"])["status"] == "wrong"


class Hostile(Exception):
    def __str__(self):
        raise ValueError("not telling")


def test_an_exception_that_cannot_be_read_is_still_the_ways_error(op):
    def raising(x):
        raise Hostile

    op.impl("hostile")(raising)
    seen = check(op, "hostile")
    assert (seen["status"], seen["reason"].startswith("Hostile: its message cannot be read (")) == ("error", True)


def test_long_messages_and_deep_tracebacks_are_cut(op):
    def deep(x, n=400):
        if n:
            return deep(x, n - 1) if n % 2 else deep(x, n - 1) + 0
        raise RuntimeError("long " * 100_000 + "\n" + "more\n" * 1000)

    op.impl("long")(deep)
    seen = check(op, "long")
    assert len(seen["reason"]) < 400
    assert len(seen["traceback"].splitlines()) < 60


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda x: x.resize_(2), "changed its input x"),
        (lambda x: x.unsqueeze_(0), "changed its input x"),
        (lambda x: x.set_(), "changed its input x"),
    ],
)
def test_an_input_of_another_form_is_made_anew_for_the_next_way(op, change, reason):
    def bad(x):
        y = x * 2
        change(x)
        return y

    op.impl("bad")(bad)
    op.impl("good")(lambda x: x * 2)
    checker = Checker(op, Case({"...": (6,)}, "float32"), seed=0, device=CPU)
    seen = checker.check(op["bad"])
    assert (seen["status"], reason in seen["reason"]) == ("wrong", True)
    assert checker.check(op["good"])["status"] == "ok"


def test_a_yardstick_of_another_dtype_is_itself_wrong_and_measures_nobody(op):
    op.impl("torch")(lambda x: (x * 2).long())
    op.impl("good")(lambda x: x * 2)
    assert check(op, "good")["status"] == "ok"
    seen = check(op, "torch")
    assert (seen["status"], seen["reason"]) == ("wrong", "dtype int64, should be float32")


def _gone(x):
    y = x * 2
    y.untyped_storage().resize_(0)
    return y


@pytest.mark.parametrize(
    ("fn", "reason"),
    [
        (lambda x: (2 * x).to_sparse(), "returned a sparse_coo tensor, not a dense one"),
        (_gone, "returned a tensor whose memory is gone"),
    ],
)
def test_what_cannot_be_compared_is_wrong_not_unknown(op, fn, reason):
    op.impl("bad")(fn)
    seen = check(op, "bad")
    assert (seen["status"], seen["reason"]) == ("wrong", reason)


def test_a_supports_that_forgets_to_answer_is_told(op):
    op.impl("forgets", supports=lambda c: None)(lambda x: x * 2)
    seen = check(op, "forgets")
    assert (seen["status"], seen["reason"]) == (
        "skipped",
        "its supports= returned a NoneType, neither True nor a reason",
    )
