"""The part of a script about the trial: it makes the inputs as `kernellab.trials.trial_inputs` does, then calls."""

from __future__ import annotations

import re

import torch

from kernellab.base.functions import AnyFunction
from kernellab.checking.outcome import Outcome
from kernellab.declaration.inputs import generator_for, value_function, value_source
from kernellab.declaration.op import Op
from kernellab.declaration.passes import is_upstream
from kernellab.reproduction.call import FailedTrial, ScriptNames, write_call
from kernellab.reproduction.function_source import transcribe_call
from kernellab.trials.guard_bands import BAND_BYTES
from kernellab.trials.trial import RANDOM_UPSTREAM, Trial
from kernellab.trials.trial_inputs import fills, make_inputs, seed_of
from kernellab.trials.values import INDICES
from kernellab.vocabulary.value_kinds import ValueKind, random_mask

BAND = BAND_BYTES // 2  # elements: as wide as kernellab's guard bands for the narrowest dtype
_FAR = 1 << 30  # a stride in elements: memory that wide is left unwritten

_LAY_OUT = """\
def {name}(x, strides, offset=0{parameters}):  # surrounded by {filling}
    count = offset + 1 + sum((n - 1) * s for n, s in zip(x.shape, strides)) if x.numel() else offset
    buffer = torch.{allocation}
    {keep}inside = torch.from_dlpack(buffer[{band} : {band} + count])  # its memory ends with its last element
    return inside.as_strided(x.shape, strides, offset).copy_(x)"""
_ALLOCATIONS = {
    "NaN": "full((count + {around},), torch.nan, dtype=x.dtype, device=x.device)",
    "NaN, or integers that are no index": "full((count + {around},), torch.nan if x.is_floating_point() else "
    "1 << 40 if x.dtype is torch.int64 else 1, dtype=x.dtype, device=x.device)",
    "unwritten memory": "empty((count + {around},), dtype=x.dtype, device=x.device)",
}


def write_trial(op: Op, trial: Trial, outcome: Outcome, seed: int, names: ScriptNames) -> list[str]:
    """About ten lines. The implementation and the reference are bound above, under the names given."""
    return _TrialWriter(op, trial, outcome, seed, names).write()


class _TrialWriter:
    def __init__(self, op: Op, trial: Trial, outcome: Outcome, seed: int, names: ScriptNames) -> None:
        self.op, self.trial, self.seed = op, trial, seed_of(seed, trial)
        self.device = torch.device(trial.case.device)
        self._on_device = "" if self.device.type == "cpu" else f', device="{self.device.type}"'
        self._tensors = make_inputs(op, trial, seed, self.device, guarded=False).tensors
        self._new_name = names.free.new
        self._variables = {
            name: self._new_name(name.replace("upstream gradient ", "upstream_")) for name in self._tensors
        }
        self._lay_out, buffers = self._new_name("lay_out"), self._new_name("buffers")
        reason = str(outcome.reason)
        self._failed = FailedTrial(
            op, trial, outcome.status, reason, self._tensors, self._variables, names, self._lay_out, buffers
        )
        self._uses_lay_out = False

    def write(self) -> list[str]:
        inputs = [line for name in self._tensors for line in self._input(name)]
        call = write_call(self._failed)
        definition = self._define_lay_out() if self._uses_lay_out else []
        if self._failed.concerns_memory:
            inputs.append("torch.use_deterministic_algorithms(True, warn_only=True)  # torch.empty is filled with NaN")
        return [*definition, *inputs, *call]

    def _define_lay_out(self) -> list[str]:
        """The function that copies a tensor into memory of its own, with other strides."""
        tensors = [t for t in self._tensors.values() if t is not None]
        filling = "NaN" if all(t.is_floating_point() for t in tensors) else "NaN, or integers that are no index"
        if any(stride > _FAR for t in tensors for stride in t.stride()):
            filling = "unwritten memory"
        head, keep = [], ""
        if self._failed.keeps_buffers:
            head, keep = [f"{self._failed.buffers} = []"], f"{self._failed.buffers}.append(buffer)\n    "
        allocation, parameters = _ALLOCATIONS[filling].format(around=2 * BAND), ""
        if self._failed.depends_on_surroundings:
            allocation, parameters = allocation.replace("torch.nan", "around"), ", around=torch.nan"
        text = _LAY_OUT.format(
            name=self._lay_out, parameters=parameters, filling=filling, allocation=allocation, keep=keep, band=BAND
        )
        return [*head, *text.splitlines()]

    def _generator(self, *words: str) -> str:
        seed = generator_for(self.device, self.seed, *words).initial_seed()
        device = "" if self.device.type == "cpu" else f'"{self.device.type}"'
        return f"torch.Generator({device}).manual_seed({seed})"

    def _input(self, name: str) -> list[str]:
        x, variable = self._tensors[name], self._variables[name]
        if x is None:
            return [f"{variable} = None"]
        if name in self.trial.same[1:]:
            return [f"{variable} = {self._variables[self.trial.same[0]]}  # the same tensor"]
        shape, arg = tuple(x.shape), self.op.args.get(name)
        if is_upstream(name) and self.trial.upstream in ("expanded", "zero"):
            kind = f"dtype={x.dtype}{self._on_device}"
            ones, zeros = f"torch.ones((), {kind}).expand({shape})", f"torch.zeros({shape}, {kind})"
            return [f"{variable} = {ones if self.trial.upstream == 'expanded' else zeros}"]
        if arg is not None and arg.is_index:
            lines = self._index(variable, name, shape)
        elif arg is not None and value_function(arg) is not None:
            lines = [*self._declared_values(variable, name, shape, x.dtype), *self._special_values(variable, name)]
        else:
            lines = [f"{variable} = {self._normal(name, shape, x.dtype)}", *self._special_values(variable, name)]
        return [*lines, *self._apply_layout(variable, name, x)]

    def _normal(self, name: str, shape: tuple[int, ...], dtype: torch.dtype) -> str:
        return f"torch.randn({shape}, generator={self._generator(self.op.name, name)}, dtype={dtype}{self._on_device})"

    def _declared_values(self, variable: str, name: str, shape: tuple[int, ...], dtype: torch.dtype) -> list[str]:
        """By kernellab's own function, or by the author's."""
        function = value_function(self.op.args[name])
        generator = self._generator(self.op.name, value_source(self.op, name))
        if isinstance(function, ValueKind) and function.source:
            drawn = f"{variable} = torch.zeros({shape}, dtype={dtype}{self._on_device})"
            return [drawn, *self._fill(variable, function.source, function.ordinary, f", {generator}")]
        if isinstance(function, ValueKind):
            g = self._new_name("g")
            drawn = f"torch.randn({shape}, generator={g}, dtype={dtype}{self._on_device})"
            fill = self._fill(variable, f"{name} values", function.ordinary, f", {g}")
            return [f"{g} = {generator}", f"{variable} = {drawn}", *fill]
        arguments = f'{dtype}, torch.device("{self.device.type}"), {generator}'
        if function is random_mask:
            above, expression = transcribe_call(
                random_mask, "random_mask", str(shape), f", {arguments}", self._new_name
            )
            return [*above, f"{variable} = {expression}"]
        return [f"{variable} = {self._failed.names.values[name]}({shape}, {arguments}).contiguous()"]

    def _special_values(self, variable: str, name: str) -> list[str]:
        if name not in self.trial.values:
            return []
        kind = self.trial.values[name]
        generator = f", {self._generator(self.op.name, name, kind)}"
        return [
            line
            for function in fills(self.op, self.trial, name)
            for line in self._fill(variable, kind, function, generator)
        ]

    def _index(self, variable: str, name: str, shape: tuple[int, ...]) -> list[str]:
        arg, case = self.op.args[name], self.trial.case
        bound, sentinel = self.op.index_bound(arg, case), self.op.sentinel(arg, case)
        drawn = f"torch.randint(0, {max(bound, 1)}, {shape}, generator="
        if sentinel is None:
            lines = [f"{variable} = {drawn}{self._generator(self.op.name, name)}{self._on_device})"]
        else:
            g = self._new_name("g")
            marked = f"torch.rand({shape}, generator={g}{self._on_device}) < 0.1"
            lines = [f"{g} = {self._generator(self.op.name, name)}", f"{variable} = {drawn}{g}{self._on_device})"]
            lines.append(f"{variable}[{marked}] = {sentinel}")
        if name in self.trial.values:
            kind = self.trial.values[name]
            lines += self._fill(variable, kind, INDICES[kind], f", {bound}, {sentinel}")
        return lines

    def _fill(self, variable: str, kind: str, function: AnyFunction, arguments: str) -> list[str]:
        """Special values, by kernellab's own function."""
        preferred = "_".join(re.findall("[a-z]+", kind))
        above, expression = transcribe_call(function, preferred, variable, arguments, self._new_name)
        return [*above, f"{variable} = {expression}"]

    def _apply_layout(self, variable: str, name: str, x: torch.Tensor) -> list[str]:
        layout = self.trial.layouts.get(name)
        if is_upstream(name) and self.trial.upstream != RANDOM_UPSTREAM:
            layout = self.trial.upstream
        if layout is None and not self._failed.concerns_memory:
            return []
        self._uses_lay_out = True
        offset = f", {x.storage_offset()}" if x.storage_offset() else ""
        strides, comment = tuple(x.stride()), f"  # {layout}" if layout else ""
        if layout in ("expanded rows", "expanded columns") and x.numel():
            part = f"{variable}[:1]" if layout == "expanded rows" else f"{variable}[..., :1]"
            return [f"{variable} = {self._lay_out}({part}, {strides}{offset}).expand({tuple(x.shape)}){comment}"]
        return [f"{variable} = {self._lay_out}({variable}, {strides}{offset}){comment}"]
