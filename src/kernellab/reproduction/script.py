"""A failed trial as a script that needs only torch.

The implementation and the reference are copied from the op's file, with what they need and without kernellab's
decorators; a few lines repeat the trial. Where the functions themselves use kernellab, the script loads the op's file
with kernellab and says so.
"""

from __future__ import annotations

from dataclasses import dataclass

from kernellab.activity.untuned import UntunedRun
from kernellab.base.errors import UserError
from kernellab.base.user_code import PACKAGE
from kernellab.checking.outcome import Outcome
from kernellab.declaration.arguments import ValueFunction
from kernellab.declaration.op import Impl, Op
from kernellab.reproduction.call import ScriptNames
from kernellab.reproduction.inputs import write_trial
from kernellab.reproduction.names import FreeNames, global_names
from kernellab.reproduction.op_source import CopiedFunctions, NeedsKernellab, OpSource
from kernellab.reproduction.source_values import SourceValue, literal, source_of
from kernellab.trials.trial import Trial
from kernellab.vocabulary.value_kinds import ValueKind


@dataclass(frozen=True)
class Script:
    """`lines` are the part about the trial, to be shown; `text` is the whole file."""

    lines: list[str]
    text: str


def write_script(op: Op, impl: Impl, trial: Trial, outcome: Outcome, *, seed: int, interpreted: bool) -> Script:
    """The script that reproduces the failure of a trial. `interpreted`: Triton kernels run in the interpreter."""
    if impl.random:
        raise UserError("the distribution of its results is wrong, which no single call shows")
    title = (f"{op.name} {impl.name} at {trial.label}", f"{outcome.status}: {outcome.reason}")
    head = [f"# {' '.join(line.split())}" for line in title]
    if interpreted:
        head += ["import os", "", 'os.environ["TRITON_INTERPRET"] = "1"  # before triton is imported']
    try:
        functions, options, values = _copy(op, impl, trial)
    except NeedsKernellab as reason:
        functions, options = _load(op, impl, str(reason)), _options_of_loaded_op(op, trial)
        values = {name: f"op.args[{name!r}].values" for name in _own_value_functions(op)}
    defined = global_names("\n".join([*head, *functions.lines]))
    free = FreeNames(defined)
    names = ScriptNames(free, options, free.new("impl"), free.new("reference"), values)
    lines = write_trial(op, trial, outcome, seed, names)
    bound = [f"{names.impl}, {names.reference} = {functions.impl}, {functions.reference}"]
    if impl.mutates:
        bound = [*_call_with_copies(op, impl, functions.impl, names.impl), f"{names.reference} = {functions.reference}"]
    own = [run for run in outcome.untuned if run.kernel in defined]
    chosen = [line for run in own for line in _choose_configuration(run, free.new("settings"))]
    return Script(lines, "\n".join([*head, *functions.lines, "", *chosen, *bound, "", "", *lines, ""]))


def _choose_configuration(run: UntunedRun, name: str) -> list[str]:
    """Tuning might choose another configuration than the one that failed."""
    settings = literal(run.settings)  # pairs
    if settings is None:
        return []
    return [
        f"# One of {run.configs} configurations, without tuning",
        f"{name} = dict({settings})",
        f"{run.kernel}.configs = [config for config in {run.kernel}.configs if config.all_kwargs() == {name}]",
        "",
    ]


def _call_with_copies(op: Op, impl: Impl, function: str, name: str) -> list[str]:
    """A function that gives copies to an implementation that changes its inputs."""
    changed = tuple(at for at, arg in enumerate(op.args) if arg in impl.mutates)
    return [
        "",
        f"def {name}(*inputs, **options):  # it changes its inputs, so it gets copies",
        "    inputs = list(inputs)",
        f"    for n in {changed}:",
        "        t = inputs[n]",
        "        inputs[n] = t.new_empty_strided(t.shape, t.stride()).copy_(t)",
        f"    return {function}(*inputs, **options)",
        "",
        "",
    ]


def _copy(op: Op, impl: Impl, trial: Trial) -> tuple[CopiedFunctions, dict[str, str], dict[str, str]]:
    """The functions from the op's file; as source, the options of the call and the functions that make values."""
    source = OpSource(op)
    file_globals = getattr(op.reference, "__globals__", {})

    def as_source(label: str, value: object) -> SourceValue:
        written = source_of(value, file_globals)
        if written is None:
            raise NeedsKernellab(f"{label} has no name in the op's file")
        return written

    options = {name: as_source(f"the value of {name}", v) for name, v in op.call_options(trial.case).items()}
    values = {name: as_source(f"values= of {name}", v) for name, v in _own_value_functions(op).items()}
    written = [*options.values(), *values.values()]
    uses = {used for value in written for used in value.uses}
    modules = sorted({module for value in written for module in value.modules})
    copied = source.copy(impl, uses, modules)
    return copied, {name: v.text for name, v in options.items()}, {name: v.text for name, v in values.items()}


def _own_value_functions(op: Op) -> dict[str, ValueFunction]:
    """The author's functions that make the values of inputs, by input."""
    functions = {name: arg.values for name, arg in op.args.items() if arg.values is not None}
    return {name: function for name, function in functions.items() if not isinstance(function, ValueKind)}


def _load(op: Op, impl: Impl, reason: str) -> CopiedFunctions:
    """The functions of the op, loaded with kernellab."""
    file = op.extension or op.file
    shipped = PACKAGE in file.resolve().parents
    peers = f", peers=({impl.name!r},)" if impl.name in op.peers else ""
    target = (
        f"Target({op.name!r}, module='kernellab.ops.{op.name}', op={op.name!r}{peers})"
        if shipped
        else f"Target({file.name!r}, file={str(file.resolve())!r}{peers})"
    )
    lines = [
        f"# kernellab is needed: {reason}",
        "import torch",
        "",
        "from kernellab.declaration.targets import Target",
        "from kernellab.peers import load",
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
