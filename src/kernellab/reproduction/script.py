"""A failed trial as a script that needs only torch.

The implementation and the reference are copied from the op's file, with what they need and without kernellab's
decorators; a few lines repeat the trial. Where the functions themselves use kernellab, the script loads the op's file
with kernellab and says so.
"""

from __future__ import annotations

from dataclasses import dataclass

from kernellab.base.user_code import PACKAGE
from kernellab.checking.outcome import Outcome
from kernellab.declaration.op import Impl, Op
from kernellab.reproduction.call import ScriptNames
from kernellab.reproduction.inputs import write_trial
from kernellab.reproduction.names import FreeNames, global_names
from kernellab.reproduction.op_source import CopiedFunctions, NeedsKernellab, OpSource
from kernellab.reproduction.source_values import SourceValue, literal, source_of
from kernellab.trials.trial import Trial


@dataclass(frozen=True)
class Script:
    """`lines` are the part about the trial, to be shown; `text` is the whole file."""

    lines: list[str]
    text: str


def write_script(op: Op, impl: Impl, trial: Trial, outcome: Outcome, *, seed: int, interpreted: bool) -> Script:
    """The script that reproduces the failure of a trial. `interpreted`: Triton kernels run in the interpreter."""
    title = (f"{op.name} {impl.name} at {trial.label}", f"{outcome.status}: {outcome.reason}")
    head = [f"# {' '.join(line.split())}" for line in title]
    if interpreted:
        head += ["import os", "", 'os.environ["TRITON_INTERPRET"] = "1"  # before triton is imported']
    try:
        functions, options = _copy(op, impl, trial)
    except NeedsKernellab as reason:
        functions, options = _load(op, impl, str(reason)), _options_of_loaded_op(op, trial)
    free = FreeNames(global_names("\n".join([*head, *functions.lines])))
    names = ScriptNames(free, options, free.new("impl"), free.new("reference"))
    lines = write_trial(op, trial, outcome, seed, names)
    bound = f"{names.impl}, {names.reference} = {functions.impl}, {functions.reference}"
    return Script(lines, "\n".join([*head, *functions.lines, "", bound, "", "", *lines, ""]))


def _copy(op: Op, impl: Impl, trial: Trial) -> tuple[CopiedFunctions, dict[str, str]]:
    """The functions from the op's file, and the options of the call as source."""
    source = OpSource(op)
    file_globals = getattr(op.reference, "__globals__", {})
    options: dict[str, SourceValue] = {}
    for name, value in op.call_options(trial.case).items():
        value_source = source_of(value, file_globals)
        if value_source is None:
            raise NeedsKernellab(f"the value of {name} has no name in the op's file")
        options[name] = value_source
    uses = {used for value in options.values() for used in value.uses}
    modules = sorted({module for value in options.values() for module in value.modules})
    return source.copy(impl, uses, modules), {name: value.text for name, value in options.items()}


def _load(op: Op, impl: Impl, reason: str) -> CopiedFunctions:
    """The functions of the op, loaded with kernellab."""
    shipped = PACKAGE in op.file.resolve().parents
    target = (
        f"Target({op.name!r}, module='kernellab.ops.{op.name}', op={op.name!r})"
        if shipped
        else f"Target({op.file.name!r}, file={str(op.file.resolve())!r})"
    )
    lines = [
        f"# kernellab is needed: {reason}",
        "import torch",
        "",
        "from kernellab.declaration.targets import Target, load",
        "",
        f"op = load({target})[{op.name!r}]",
    ]
    return CopiedFunctions(lines, f"op[{impl.name!r}]", "op.reference")


def _options_of_loaded_op(op: Op, trial: Trial) -> dict[str, str]:
    """The options as source where the op itself is loaded: values without a literal come from its declaration."""
    options = {}
    for name, value in op.call_options(trial.case).items():
        positions = (at for at, declared in enumerate(op.options[name]) if declared is value)
        options[name] = literal(value) or f"op.options[{name!r}][{next(positions, 0)}]"
    return options
