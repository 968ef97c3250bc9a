"""What a script prints shows what is wrong."""

import re

import pytest
import torch

import kernellab as kl
from kernellab.checking import reasons
from kernellab.checking.examiner import Examiner
from kernellab.checking.outcome import Outcome
from kernellab.declaration.case import Case
from kernellab.declaration.targets import Target, load
from kernellab.reproduction.call import ScriptNames
from kernellab.reproduction.inputs import write_trial
from kernellab.reproduction.names import FreeNames
from kernellab.reproduction.script import write_script
from kernellab.trials import calls
from kernellab.trials.trial import Trial
from support.klab import HERE
from support.trying import CPU


@pytest.mark.parametrize(
    ("exhibit", "changes", "printed"),
    [
        ("falsy_zero", {"options": {"scale": 0.0}}, r"worst difference: [0-9.]+"),
        ("nothing_to_do_returns_input", {"options": {"factor": 1.0}}, r"in the memory of x: True"),
        ("float32_comes_out", {"dtype": "bfloat16"}, r"(?s)got .* torch.float32 .*should be .* torch.bfloat16"),
        ("workspace_never_zeroed", {}, r"worst difference: inf"),
        ("one_buffer_for_all", {"call": "twice"}, r"the first result is unchanged: False"),
        ("other_result_in_training", {"pass_name": "backward", "options": {"shift": 1.0}}, r"worst difference: 1\.0"),
    ],
)
def test_the_script_of_an_exhibit_prints_what_is_wrong(exhibit, changes, printed, capsys):
    (op,) = load(Target(exhibit, file=str(HERE / "museum" / f"{exhibit}.py"))).values()
    impl = next(impl for name, impl in op.impls.items() if name.endswith("wrong"))
    options = {name: values[0] for name, values in op.all_options().items()}
    sizes = {dim: (3,) if dim == "..." else 40 for dim in op.dims}
    sizes = sizes if len(sizes) > 1 else {"...": (3, 40)}
    case = Case(sizes, changes.get("dtype", "float32"), {**options, **changes.get("options", {})})
    trial = Trial("search", case, pass_name=changes.get("pass_name", "forward"), call=changes.get("call", calls.PLAIN))
    outcome = Examiner(op, seed=0, device=CPU).examine(impl, trial)
    assert outcome.status == "wrong"
    try:
        script = write_script(op, impl, trial, outcome, seed=0, interpreted=False)
        exec(compile(script.text, "script", "exec"), {})
    finally:
        torch.use_deterministic_algorithms(False)
    assert re.search(printed, capsys.readouterr().out)


@pytest.mark.parametrize(
    ("m", "pass_name", "reason", "printed"),
    [
        (3, "forward", "values: ", r"(worst difference: [0-9e.-]+\n){2}"),
        (0, "backward", "values: ", r"(worst difference: 0.0\n){3}"),
        (3, "backward", f"{reasons.CHANGED_UPSTREAM}, …", r"each upstream gradient is unchanged: \[True, True\]\n"),
        (3, "forward", f"{reasons.LATER_CALL}", r"(.*: 3\nthe first result is unchanged: True\n){2}"),
        (3, "forward", f"{reasons.READS_OUTSIDE}: …", r"(.*: 0\nthe first result is unchanged: True\n){2}"),
        (
            3,
            "forward",
            f"{reasons.NOT_REPEATABLE}: ",
            r"(values that differ .*: 0\nthe first result is unchanged: True\n){2}",
        ),
    ],
)
def test_several_and_empty_results_have_scripts_too(m, pass_name, reason, printed, capsys):
    @kl.op(args=dict(x=kl.tensor("M N")))
    def both(x):
        return x.sum(-1), x.square().sum(-1)

    trial = Trial("search", Case({"M": m, "N": 2}, "float32"), pass_name=pass_name)
    lines = write_trial(both, trial, Outcome("wrong", reason), 0, ScriptNames(FreeNames(()), {}))
    exec("\n".join(lines), {"torch": torch, "impl": both.reference, "reference": both.reference})
    assert re.fullmatch(printed, capsys.readouterr().out)


def test_scripts_show_what_happens_in_inference_mode_and_between_two_forwards(capsys):
    @kl.op(args=dict(x=kl.tensor("M N")))
    def square(x):
        return x * x

    saved, returned = {}, {}

    class Square(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, keep_saved):
            ctx.save_for_backward(x)
            ctx.keep_saved, saved["x"] = keep_saved, x.detach().clone()
            return x * x

        @staticmethod
        def backward(ctx, g):
            dx = 2 * g * (saved["x"] if ctx.keep_saved else ctx.saved_tensors[0])
            return (dx if ctx.keep_saved else returned.setdefault("g", torch.empty_like(dx)).copy_(dx)), None

    def mode(x):
        return x * (0 if torch.is_inference_mode_enabled() else x)

    square.impl("mode")(mode)
    square.impl("saved")(lambda x: Square.apply(x, True))
    square.impl("returned")(lambda x: Square.apply(x, False))
    for name, pass_name, call, printed in (
        ("mode", "forward", calls.INFERENCE_MODE, r"worst difference: [1-9]"),
        ("saved", "backward", calls.INTERLEAVED, r"worst difference: [1-9]"),
        ("returned", "backward", calls.INTERLEAVED, r"the first result is unchanged: False"),
    ):
        trial = Trial("search", Case({"M": 3, "N": 40}, "float32"), pass_name=pass_name, call=call)
        outcome = Examiner(square, seed=0, device=CPU).examine(square[name], trial)
        assert outcome.status == "wrong"
        lines = write_trial(square, trial, outcome, 0, ScriptNames(FreeNames(()), {}))
        exec("\n".join(lines), {"torch": torch, "impl": square[name].fn, "reference": square.reference})
        assert re.search(printed, capsys.readouterr().out), name
