"""What a case's result must be: the float64 oracle, and PyTorch's own result as the yardstick for errors."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

import torch

from kernellab.accuracy import sensitivity
from kernellab.accuracy.errors import NO_ERROR, Errors, chunk, measure, torch_passes
from kernellab.accuracy.perturbation import Nearby, roundings
from kernellab.base.user_code import explain
from kernellab.declaration import inputs as make_inputs
from kernellab.declaration.op import Op
from kernellab.declaration.passes import BOTH, NotDifferentiable, Pass, is_upstream, pass_of
from kernellab.machine.memory import is_memory_error, out_of_memory
from kernellab.trials import trial_inputs as material
from kernellab.trials.guard_bands import Fence
from kernellab.trials.small_cases import standin
from kernellab.trials.trial import Trial

_SLICE_TRIAL = 4096
WORST_YARDSTICK = 0.25  # a yardstick that is off by a quarter of the scale measures nothing

Outputs = tuple[torch.Tensor, ...]
Running = Callable[[str | None, str], AbstractContextManager[None]]


class CannotCheck(Exception):
    """The oracle itself could not be computed; never the implementation's fault."""


class YardstickDied(Exception):
    """PyTorch's own way took the GPU down while it was called as the yardstick."""


class Wrong(Exception):
    """The result is not what it must be; the message says how. `excess`: errors by how many times the limit."""

    def __init__(self, message: str, excess: float = math.inf) -> None:
        super().__init__(message)
        self.excess = excess


@dataclass
class Truth:
    """What a trial's result must be: the oracle, and PyTorch's own result with its errors."""

    inputs: make_inputs.Inputs
    fence: Fence  # around the inputs
    pristine: make_inputs.Inputs
    oracle: Outputs
    peer: Outputs
    peer_name: str
    peer_errors: list[Errors]
    manual_errors: list[Errors]
    floors: list[float]  # the least scale of each result's errors
    aliases: frozenset[str]  # inputs whose memory the reference itself returns, as a view does
    exact: list[Outputs]  # of each result that is no float: the oracle's, PyTorch's own and the manual way's values
    nearby: Nearby
    leaves: list[str]  # inputs whose gradients come last; the results they were made with come before

    @property
    def results(self) -> int:
        """So many come first that are no gradients."""
        return len(self.oracle) - len(self.leaves)


class TruthFinder:
    """Finds the truths of one op. `running(impl, phase)` is entered around the yardstick's own code."""

    def __init__(
        self,
        op: Op,
        *,
        seed: int,
        device: torch.device,
        running: Running,
        distrusted: frozenset[str],
        bands: bool = False,
    ) -> None:
        """`bands`: the inputs lie between poison."""
        self.op, self.seed, self.device = op, seed, device
        self._running, self._distrusted, self._bands = running, distrusted, bands

    def find(self, trial: Trial) -> Truth:
        op, case = self.op, trial.case
        try:
            made = material.make(op, trial, self.seed, self.device, bands=self._bands)
            inputs = made.inputs
            pristine = make_inputs.clone(inputs)
            oracle = self._oracle(trial, inputs)
            manual = self._compute(op.reference, inputs, trial)
            if any(t.is_complex() for t in oracle):
                raise CannotCheck("complex results are not compared yet")
            floors = self._floors(trial, inputs, oracle)
            manual_errors = self._errors(manual, oracle, floors)
            synchronise(self.device)
            if not all(map(same_bits, inputs.values(), pristine.values())):
                raise CannotCheck("the reference changes its input")
        except (CannotCheck, NotDifferentiable, material.Pointless):
            raise
        except BaseException as error:
            if is_memory_error(error):
                more = out_of_memory(error, self.device)["reason"]
                raise CannotCheck(f"the oracle does not fit in memory at {case.size_label}: {more}") from None
            raise CannotCheck(f"the reference failed: {explain(error)}") from None
        theirs = self._pytorchs_own(trial, inputs, oracle, manual, manual_errors, floors)
        name, peer, peer_errors = theirs or ("manual", manual, manual_errors)
        nearby = Nearby(functools.partial(self._reference64, trial), pristine, oracle, roundings(op, case, trial.of))
        peer_errors = self._eased(peer, peer_errors, oracle, floors, nearby)
        manual_errors = self._eased(manual, manual_errors, oracle, floors, nearby) if theirs else peer_errors
        for errors, output in zip(peer_errors, peer, strict=True):
            if _measures_nothing(output, errors):
                off = f"{errors.max:.2g} roundings off the float64 oracle"
                raise CannotCheck(f"the yardstick, {name}, is itself {off} in {case.dtype}")
        exact: list[Outputs] = [
            () if mine.is_floating_point() else (best.to(mine.dtype), theirs, mine)
            for best, theirs, mine in zip(oracle, peer, manual, strict=True)
        ]
        return Truth(
            inputs,
            made.fence,
            pristine,
            oracle,
            peer,
            name,
            peer_errors,
            manual_errors,
            floors,
            aliases=frozenset(shared_inputs(manual, inputs)),
            exact=exact,
            nearby=nearby,
            leaves=self._leaves(trial, inputs),
        )

    def _pytorchs_own(
        self,
        trial: Trial,
        inputs: make_inputs.Inputs,
        oracle: Outputs,
        manual: Outputs,
        manual_errors: list[Errors],
        floors: list[float],
    ) -> tuple[str, Outputs, list[Errors]] | None:
        """PyTorch's own op as the yardstick, once it has itself been held to the reference."""
        own = self.op.impls.get("torch")
        if own is None or "torch" in self._distrusted:
            return None
        try:
            with self._running("torch", "check"):
                if own.refusal(trial.asked) is not None:
                    return None
                # A copy, in case it changes its inputs; but one of the same layout, which only plain ones have.
                plain = not trial.layouts and trial.upstream == "random"
                theirs = self._compute(own, make_inputs.clone(inputs) if plain else inputs, trial)
                synchronise(self.device)
            same_shape(theirs, manual)
            if [t.dtype for t in theirs] != [t.dtype for t in manual]:
                return None
            errors = self._errors(theirs, oracle, floors)
        except BaseException as error:
            if gpu_is_dead(self.device):
                raise YardstickDied(explain(error)) from None
            return None  # its own check will say what is wrong with it
        fine = all(map(torch_passes, errors, manual_errors, (t.dtype for t in theirs)))
        return ("torch", theirs, errors) if fine else None

    def _oracle(self, trial: Trial, inputs: make_inputs.Inputs) -> Outputs:
        """The reference in float64; in slices of the leading dim where the op is large and leading dims repeat it."""
        first = next(iter(inputs.values()))
        if first is None or first.numel() <= chunk(self.device) or not self._slices_agree(trial):
            return self._reference64(trial, inputs)
        return self._sliced(trial, inputs, max(1, chunk(self.device) // max(1, first[0].numel())))

    def _reference64(self, trial: Trial, inputs: make_inputs.Inputs) -> Outputs:
        return self._compute(self.op.reference, make_inputs.upcast(inputs), trial)

    def _compute(self, fn: Any, inputs: make_inputs.Inputs, trial: Trial) -> Outputs:
        return tensors_of(judged_in(trial.of, trial.wrt).compute(self.op, fn, inputs, trial.case))

    def _leaves(self, trial: Trial, inputs: make_inputs.Inputs) -> list[str]:
        """The inputs whose gradients are asked for."""
        if trial.of == "forward":
            return []
        floats = [n for n in self.op.args if (t := inputs[n]) is not None and t.is_floating_point()]
        return [n for n in floats if not trial.wrt or n in trial.wrt]

    def _sliced(self, trial: Trial, inputs: make_inputs.Inputs, step: int) -> Outputs:
        rows = next(t for t in inputs.values() if t is not None).shape[0]
        pieces = []
        for start in range(0, rows, step):
            part: make_inputs.Inputs = {k: t[start : start + step] for k, t in inputs.items() if t is not None}
            pieces.append(self._reference64(trial, part))
        return tuple(torch.cat(piece) for piece in zip(*pieces, strict=True))

    def _slices_agree(self, trial: Trial) -> bool:
        """Whether slices of a small case give what the whole gives. `...` promises it; an op may break the promise."""
        small = standin(self.op, trial.case, _SLICE_TRIAL)
        if not all(arg.dims[:1] == ("...",) for arg in self.op.args.values()) or not small.dims["..."]:
            return False
        inputs = pass_of(trial.of).inputs(self.op, small, self.seed, self.device)
        if any(t is None for t in inputs.values()):
            return False
        try:
            whole, sliced = self._reference64(trial, inputs), self._sliced(trial, inputs, 2)
        except Exception:  # a reference that cannot be sliced
            return False
        close = functools.partial(torch.allclose, rtol=1e-9, atol=1e-12, equal_nan=True)
        return [t.shape for t in whole] == [t.shape for t in sliced] and all(map(close, whole, sliced))

    def _floors(self, trial: Trial, inputs: make_inputs.Inputs, oracle: Outputs) -> list[float]:
        """The gradient of a constant from above may be 0 because its terms cancel, as softmax's do. What is left is
        rounding at the terms' scale, which a random gradient from above shows."""
        results = len(oracle) - len(self._leaves(trial, inputs))
        if trial.upstream == "expanded":
            usual = self._reference64(trial, material.random_upstream(inputs, self.seed))
            return [0.0] * results + [float(t.square().mean().sqrt()) for t in usual[results:]]
        # An expanded input holds equal values, too.
        if trial.of != "forward" and (trial.values or any("expanded" in one for one in trial.layouts.values())):
            found = sensitivity.floors(
                lambda near: self._reference64(trial, near)[results:],
                inputs,
                oracle[results:],
                rowwise=bool(self.op.reduces),
            )
            return [0.0] * results + found
        return [0.0] * len(oracle)

    def _errors(self, outputs: Outputs, oracle: Outputs, floors: list[float]) -> list[Errors]:
        rowwise = bool(self.op.reduces)
        return [
            measure(y, o, rowwise=rowwise, floor=floor) if y.is_floating_point() else NO_ERROR
            for y, o, floor in zip(outputs, oracle, floors, strict=True)
        ]

    def _eased(
        self, outputs: Outputs, errors: list[Errors], oracle: Outputs, floors: list[float], nearby: Nearby
    ) -> list[Errors]:
        """Where all terms cancel, what rounding leaves of them is no error: a yardstick is measured as a way is."""
        return [
            measure(y, o, rowwise=bool(self.op.reduces), floor=floor, allowed=nearby.apart(number))
            if _measures_nothing(y, errors[number])
            else errors[number]
            for number, (y, o, floor) in enumerate(zip(outputs, oracle, floors, strict=True))
        ]


def _measures_nothing(output: torch.Tensor, errors: Errors) -> bool:
    return output.is_floating_point() and errors.max * torch.finfo(output.dtype).eps > WORST_YARDSTICK


def judged_in(of: str, wrt: Sequence[str] = ()) -> Pass:
    """What is computed to judge a pass: gradients come with the results they were made with."""
    return pass_of(BOTH.name if of == "backward" else of, wrt)


def tensors_of(result: Any) -> Outputs:
    """A result as a tuple of tensors, or Wrong."""
    if isinstance(result, torch.Tensor):
        result = (result,)
    if isinstance(result, (tuple, list)) and result and all(isinstance(t, torch.Tensor) for t in result):
        for t in result:
            if type(t) not in (torch.Tensor, torch.nn.Parameter):  # a subclass may compute when it is looked at
                raise Wrong(f"returned a {type(t).__name__}, not a plain tensor")
            if t.layout is not torch.strided:
                raise Wrong(f"returned a {str(t.layout).removeprefix('torch.')} tensor, not a dense one")
            if t.numel() and not t.untyped_storage().nbytes():
                raise Wrong("returned a tensor whose memory is gone")
        return tuple(result)
    kind = "None" if result is None else f"a {type(result).__name__}"
    raise Wrong(f"returned {kind}, not a tensor")


def same_shape(outputs: Outputs, expected: Outputs) -> None:
    if len(outputs) != len(expected):
        raise Wrong(f"returned {len(outputs)} tensors, should be {len(expected)}")
    for got, want in zip(outputs, expected, strict=True):
        if got.shape != want.shape:
            raise Wrong(f"shape {_x(got.shape)}, should be {_x(want.shape)}")


def same_bits(a: torch.Tensor | None, b: torch.Tensor | None) -> bool:
    """Bit for bit, so that NaN equals NaN and −0 does not equal 0."""
    if a is None or b is None:
        return a is b
    width = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}[a.element_size()]
    return a.shape == b.shape and torch.equal(a.view(width), b.view(width))


def shared_inputs(outputs: Outputs, inputs: make_inputs.Inputs) -> list[str]:
    """The inputs whose memory a result lives in."""
    # A tensor known to be zero, as some gradients are, has no memory at all.
    theirs = {t.untyped_storage().data_ptr() for t in outputs if t.numel() and not t._is_zerotensor()}
    mine = {k: t for k, t in inputs.items() if t is not None and not is_upstream(k)}  # gradients may be passed on
    return [k for k, t in mine.items() if t.untyped_storage().data_ptr() in theirs]


def synchronise(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def gpu_is_dead(device: torch.device) -> bool:
    """Whether a fault has made the GPU unusable for this process."""
    if device.type != "cuda":
        return False
    try:
        torch.cuda.synchronize(device)
        torch.zeros(1, device=device).item()
    except Exception:
        return True
    return False


def _x(shape: torch.Size) -> str:
    return "×".join(map(str, shape)) or "scalar"
