"""A trial in plain torch: the lines that make its inputs as `material` makes them; `shown` writes the call below."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import torch

from kernellab.declaration.inputs import generator_for
from kernellab.declaration.op import Op
from kernellab.declaration.passes import is_upstream
from kernellab.reproduction import functions as transcript
from kernellab.reproduction.call import Scene, Words, shown
from kernellab.trials import trial_inputs as material
from kernellab.trials.trial import Trial
from kernellab.trials.values import INDICES, VALUES

BAND = 8192  # elements: as wide as kernellab's bands are for the narrowest dtype
_VAST = 1 << 30  # elements from one to the next: memory so wide is left as it is

_LAY = """\
def {lay}(x, strides, offset=0{more}):  # in the midst of {nothing}
    reach = offset + 1 + sum((n - 1) * s for n, s in zip(x.shape, strides)) if x.numel() else offset
    room = torch.{fill}
    {keep}inside = torch.from_dlpack(room[{band} : {band} + reach])  # whose memory ends where it does
    return inside.as_strided(x.shape, strides, offset).copy_(x)"""
_FILLS = {
    "NaN": "full((reach + {around},), torch.nan, dtype=x.dtype, device=x.device)",
    "NaN, or of integers that are no index": "full((reach + {around},), torch.nan if x.is_floating_point() else "
    "1 << 40, dtype=x.dtype, device=x.device)",
    "memory that is not touched": "empty((reach + {around},), dtype=x.dtype, device=x.device)",
}


def lines(op: Op, trial: Trial, observed: Mapping[str, Any], seed: int, words: Words) -> list[str]:
    """About ten. The way and the reference are there already, under the names that `words` has for them."""
    return _Lines(op, trial, observed, seed, words).write()


class _Lines:
    def __init__(self, op: Op, trial: Trial, observed: Mapping[str, Any], seed: int, words: Words) -> None:
        self.op, self.trial, self.seed = op, trial, material.drawn_from(seed, trial)
        self.device = torch.device(trial.case.device)
        self._where = "" if self.device.type == "cpu" else f', device="{self.device.type}"'
        self._made = material.make(op, trial, seed, self.device, bands=False).inputs
        self._new = words.names.new
        self._called = {name: self._new(name.replace("upstream gradient ", "above_")) for name in self._made}
        self._lay_called, rooms = self._new("lay"), self._new("rooms")
        status, reason = observed["status"], str(observed["reason"])
        self._scene = Scene(op, trial, status, reason, self._made, self._called, words, self._lay_called, rooms)
        self._laid = False

    def write(self) -> list[str]:
        made = [line for name in self._made for line in self._input(name)]
        called = shown(self._scene)
        head = self._helper() if self._laid else []
        if self._scene.poisoned:
            made.append("torch.use_deterministic_algorithms(True, warn_only=True)  # torch.empty is filled with NaN")
        return [*head, *made, *called]

    def _helper(self) -> list[str]:
        given = [t for t in self._made.values() if t is not None]
        nothing = "NaN" if all(t.is_floating_point() for t in given) else "NaN, or of integers that are no index"
        if any(step > _VAST for t in given for step in t.stride()):
            nothing = "memory that is not touched"
        rooms, kept = self._scene.rooms, self._scene.keeps_rooms
        head, keep = ([f"{rooms} = []"], f"{rooms}.append(room)\n    ") if kept else ([], "")
        fill, more = _FILLS[nothing].format(around=2 * BAND), ""
        if self._scene.surrounded:
            fill, more = fill.replace("torch.nan", "around"), ", around=torch.nan"
        text = _LAY.format(lay=self._lay_called, nothing=nothing, fill=fill, keep=keep, band=BAND, more=more)
        return [*head, *text.splitlines()]

    def _generator(self, *words: str) -> str:
        seed = generator_for(self.device, self.seed, *words).initial_seed()
        device = "" if self.device.type == "cpu" else f'"{self.device.type}"'
        return f"torch.Generator({device}).manual_seed({seed})"

    def _input(self, name: str) -> list[str]:
        x, called = self._made[name], self._called[name]
        if x is None:
            return [f"{called} = None"]
        shape, arg = tuple(x.shape), self.op.args.get(name)
        if is_upstream(name) and self.trial.upstream in ("expanded", "zero"):
            kind = f"dtype={x.dtype}{self._where}"
            ones, zeros = f"torch.ones((), {kind}).expand({shape})", f"torch.zeros({shape}, {kind})"
            return [f"{called} = {ones if self.trial.upstream == 'expanded' else zeros}"]
        if arg is not None and arg.is_index:
            found = self._index(called, name, shape)
        else:
            drawn = f"{shape}, generator={self._generator(self.op.name, name)}, dtype={x.dtype}{self._where}"
            found = [f"{called} = torch.randn({drawn})"]
            if name in self.trial.values:
                generator = self._generator(self.op.name, name, self.trial.values[name])
                found += self._filled(called, name, VALUES, f", {generator}")
        return [*found, *self._lay(called, name, x)]

    def _index(self, called: str, name: str, shape: tuple[int, ...]) -> list[str]:
        arg, case = self.op.args[name], self.trial.case
        below = case.dims[arg.below] if isinstance(arg.below, str) else arg.below
        sentinel = case.options.get(arg.sentinel) if isinstance(arg.sentinel, str) else arg.sentinel
        assert isinstance(below, int)
        drawn = f"torch.randint(0, {max(below, 1)}, {shape}, generator="
        if sentinel is None:
            found = [f"{called} = {drawn}{self._generator(self.op.name, name)}{self._where})"]
        else:
            g = self._new("g")
            marks = f"torch.rand({shape}, generator={g}{self._where}) < 0.1"
            found = [f"{g} = {self._generator(self.op.name, name)}", f"{called} = {drawn}{g}{self._where})"]
            found.append(f"{called}[{marks}] = {sentinel}")
        if name in self.trial.values:
            found += self._filled(called, name, INDICES, f", {below}, {sentinel}")
        return found

    def _filled(self, called: str, name: str, kinds: Mapping[str, Any], others: str) -> list[str]:
        kind = self.trial.values[name]
        wanted = "_".join(re.findall("[a-z]+", kind))
        above, expression = transcript.call(kinds[kind], wanted, called, others, self._new)
        return [*above, f"{called} = {expression}"]

    def _lay(self, called: str, name: str, x: torch.Tensor) -> list[str]:
        layout = self.trial.layouts.get(name)
        if is_upstream(name) and self.trial.upstream == "non-contiguous":
            layout = "non-contiguous"
        if layout is None and not self._scene.poisoned:
            return []
        self._laid = True
        offset = f", {x.storage_offset()}" if x.storage_offset() else ""
        strides, said = tuple(x.stride()), f"  # {layout}" if layout else ""
        if layout in ("expanded rows", "expanded columns") and x.numel():
            one = f"{called}[:1]" if layout == "expanded rows" else f"{called}[..., :1]"
            return [f"{called} = {self._lay_called}({one}, {strides}{offset}).expand({tuple(x.shape)}){said}"]
        return [f"{called} = {self._lay_called}({called}, {strides}{offset}){said}"]
