"""Examining one way of an op at one trial: call it, then ask what can be wrong with what came back.

This module observes and judges by `compare`'s rule; it does not time, and it does not know about
processes: the caller announces who is running, and keeps going when an implementation kills it.
"""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import torch

from kernellab.base.user_code import PACKAGE, explain, user_frames
from kernellab.checking import call_variants as calls
from kernellab.checking import compiled_impls as compiled
from kernellab.checking.judge import HELD_TO_MANUAL, judge_values
from kernellab.checking.oracle import (
    CannotCheck,
    Outputs,
    Running,
    Truth,
    TruthFinder,
    Wrong,
    same_bits,
    same_shape,
    shared_inputs,
    synchronise,
)
from kernellab.checking.refusals import refuses_gradients
from kernellab.declaration.inputs import Inputs
from kernellab.declaration.op import Impl, Op
from kernellab.declaration.passes import NotDifferentiable
from kernellab.machine.memory import free_bytes, is_memory_error, out_of_memory
from kernellab.trials.guard_bands import Fence, Fenced
from kernellab.trials.layouts import far_elements
from kernellab.trials.tensors import Pointless
from kernellab.trials.trial import Trial

# What is watched beyond the values themselves. Each can be left out, to see what it is good for.
GUARDS = frozenset({"form", "special", "unchanged", "alias", "poison", "bands", "compiled"})
_PYTORCHS = ("manual", "compile")  # the strides of their results are PyTorch's doing
_WORTH_ASKING = 1 << 30  # bytes
_SPOILED, _SPOILED_BYTES = 64, 1 << 26  # blocks per output at most, and together

Observed = dict[str, Any]


class Examiner:
    """Examines the ways of one op. A truth is kept for the next way that is tried with the same."""

    def __init__(
        self,
        op: Op,
        *,
        seed: int,
        device: torch.device,
        running: Running = lambda impl, phase: contextlib.nullcontext(),
        distrusted: frozenset[str] = frozenset(),
        guards: frozenset[str] = GUARDS,
    ) -> None:
        """`running(impl, phase)` is entered around code that is not the examined way's: the oracle (nobody's),
        the yardstick. A way in `distrusted` has killed a process before and is no yardstick."""
        self.op, self.device, self.guards = op, device, guards
        self._running = running
        bands = "bands" in guards
        self._finder = TruthFinder(op, seed=seed, device=device, running=running, distrusted=distrusted, bands=bands)
        self._truths: dict[str, Truth] = {}

    def truth(self, trial: Trial) -> Truth:
        """What must come of a trial."""
        key = _plainly(trial)
        if key not in self._truths:
            if len(self._truths) >= 2 or sum(_nbytes(t.oracle) for t in self._truths.values()) > 1 << 31:
                self._truths.clear()
            self._truths[key] = self._finder.find(trial)
        return self._truths[key]

    def examine(self, impl: Impl, trial: Trial) -> Observed | None:
        """What was observed, or None where the trial means nothing for this way.

        Statuses: `ok`, `wrong`, `error`, `oom`; `outside` is what a way or its reference refuses; `unknown` is
        nobody's fault.
        """
        if not calls.applies(trial.call, impl, self.device):
            return None
        if trial.call in calls.ABOUT_BANDS and "bands" not in self.guards:
            return None
        try:
            refusal = impl.refusal(trial.asked)
        except BaseException as error:
            failed = {"status": "error", "reason": f"supports= failed: {explain(error)}"}
            return failed | {"traceback": user_frames(error)}
        if impl.mutates and trial.of != "forward":
            refusal = "not differentiable: it changes its inputs"
        refusal = refusal or self._no_room(trial)
        if refusal is not None:
            return {"status": "outside", "reason": refusal}
        try:
            with self._running(None, "oracle"):
                truth = self.truth(trial)
        except Pointless:
            return None
        except CannotCheck as cannot:
            return {"status": "unknown", "reason": f"cannot check: {cannot}"}
        except NotDifferentiable as no:
            return {"status": "outside", "reason": f"the reference is not differentiable: {no}"}
        if overlapping := [name for name in sorted(impl.mutates) if _overlaps_itself(truth.inputs[name])]:
            reason = f"changes its input {overlapping[0]}, whose elements here share memory: torch does not write there"
            return {"status": "outside", "reason": reason}
        try:
            return self._examined(impl, trial, truth)
        finally:
            if not _intact(truth):
                self._truths.clear()

    def _no_room(self, trial: Trial) -> str | None:
        """A trial that would not fit is not begun: running out of memory may take the machine along."""
        needed = room_needed(self.op, trial)
        if needed <= _WORTH_ASKING:
            return None
        # What is kept of other trials can go, and what is kept of this one is there already.
        self._truths = {key: truth for key, truth in self._truths.items() if key == _plainly(trial)}
        needed -= sum(_kept_bytes(truth) for truth in self._truths.values())
        free = free_bytes(self.device)
        return f"needs about {needed / 2**30:.0f} GiB of memory, {free / 2**30:.0f} are free" if needed > free else None

    def _examined(self, impl: Impl, trial: Trial, truth: Truth) -> Observed | None:
        fence = Fence(bands="bands" in self.guards, poison="poison" in self.guards)
        proven = impl.kind.name == "compile" and "compiled" in self.guards
        if proven:
            compiled.forget(self.op)
        graphs = compiled.graphs()
        called = self._call(impl, trial, truth, fence)
        if called is None or "status" in called:
            return called
        try:
            notes = self.judge_form(impl, called["outputs"], truth)
            self._within_bounds(impl, truth, fence)
            if proven and compiled.graphs() == graphs:
                raise Wrong("torch.compile compiled nothing: it ran as plain PyTorch")
            specials = "special" in self.guards
            judged = judge_values(self.op, impl, called["outputs"], truth, of=trial.of, specials=specials)
        except Wrong as wrong:
            return {"status": "wrong", "reason": str(wrong), "excess": wrong.excess}
        except Exception as error:  # comparing failed, not the way
            return {"status": "unknown", "reason": f"cannot check: comparing failed: {explain(error)}"}
        return {
            "status": "ok",
            "reason": None,
            "errors": judged.errors.to_json(),
            "peer": {"impl": "manual" if impl.name in HELD_TO_MANUAL else truth.peer_name, **judged.held_to.to_json()},
            "first_call_s": called["first_call_s"],
            "notes": [*notes, *called["notes"], *judged.notes],
        }

    def _call(self, impl: Impl, trial: Trial, truth: Truth, fence: Fence) -> Observed | None:
        """The way's outputs and how long the call took, or the status it ended with; None where it means nothing."""
        call = calls.Call(self.op, impl, truth.inputs, trial.case, trial.of, self.device, trial.wrt)
        if "poison" in self.guards:
            _spoil_free_memory(truth.peer)
        began = time.perf_counter()
        try:
            with self._watched(impl, trial, fence):
                outputs = calls.CALLS[trial.call](call)
            # A fault shows up here, and is this way's, not its neighbour's.
            synchronise(self.device)
        except Wrong as wrong:
            return {"status": "wrong", "reason": str(wrong)}
        except calls.MeansNothing:
            return None
        except calls.Refused as no:
            return {"status": "outside", "reason": str(no)}
        except NotDifferentiable as no:
            return {"status": "outside", "reason": f"not differentiable: {no}"}
        except BaseException as error:  # SystemExit too: nothing a way raises may end the worker
            if is_memory_error(error):
                return dict(out_of_memory(error, self.device))
            if trial.of != "forward" and refuses_gradients(error):
                what = "refuses double backward" if trial.of == "double backward" else "not differentiable"
                return {"status": "outside", "reason": f"{what}: {explain(error)}"}
            return {"status": "error", "reason": explain(error), "traceback": user_frames(error)}
        return {"outputs": outputs, "first_call_s": time.perf_counter() - began, "notes": call.notes}

    @contextlib.contextmanager
    def _watched(self, impl: Impl, trial: Trial, fence: Fence) -> Iterator[None]:
        """With what the way allocates between bands of poison. That turns torch.compile off: it is not for those."""
        if "bands" not in self.guards or impl.kind.name == "compile" or trial.call == "as a registered op":
            yield
            return
        with Fenced(fence):
            yield

    # The questions -------------------------------------------------------------------------------------

    def judge_form(self, impl: Impl, outputs: Outputs, truth: Truth) -> list[str]:
        """Whether these look like results at all, and leave the inputs alone."""
        same_shape(outputs, truth.peer)
        notes = self._same_form(impl, outputs, truth) if "form" in self.guards else []
        if "unchanged" in self.guards:
            for name, before in truth.pristine.items():
                if name not in impl.mutates and not same_bits(before, truth.inputs[name]):
                    raise Wrong(f"changed its input {name} without declaring mutates=[{name!r}]")
        if "alias" in self.guards:
            not_an_input(impl, outputs, truth.inputs, truth.aliases)
        return notes

    def _same_form(self, impl: Impl, outputs: Outputs, truth: Truth) -> list[str]:
        notes = []
        for got, want in zip(outputs, truth.peer, strict=True):
            if got.dtype != want.dtype:
                raise Wrong(f"dtype {_name(got.dtype)}, should be {_name(want.dtype)}")
            if got.device != want.device:
                raise Wrong(f"device {got.device}, should be {want.device}")
            if _strides(got) != _strides(want):
                text = f"strides {tuple(got.stride())}, {truth.peer_name}'s are {tuple(want.stride())}"
                if _is_shipped(self.op) and impl.name not in _PYTORCHS:
                    raise Wrong(text)
                notes.append(text)
        return notes

    def _within_bounds(self, impl: Impl, truth: Truth, fence: Fence) -> None:
        if fence.broken():
            raise Wrong("wrote outside the memory it had allocated")
        if truth.fence.broken():
            raise Wrong("wrote outside one of its inputs")


def room_needed(op: Op, trial: Trial) -> int:
    """Bytes a trial takes at its height, roughly: inputs and results several times over, and float64 beside them."""
    item = {"float64": 8, "float32": 4}.get(trial.case.dtype, 2)
    total = 0
    for name, arg in op.args.items():
        sizes = op.sizes(arg, trial.case)
        total += math.prod(sizes) * (4 * item + 24)
        total += far_elements([trial.layouts[name]], sizes) * item if name in trial.layouts else 0
    return total


def _intact(truth: Truth) -> bool:
    """Whether the inputs still hold what they held."""
    try:
        return all(same_bits(before, truth.inputs[name]) for name, before in truth.pristine.items())
    except Exception:  # a dead GPU context: the worker is about to be replaced
        return False


def not_an_input(impl: Impl, outputs: Outputs, inputs: Inputs, allowed: frozenset[str]) -> None:
    """A result in an input's own memory changes when that input does; whoever keeps it is surprised."""
    shared = [name for name in shared_inputs(outputs, inputs) if name not in impl.mutates | allowed]
    if shared:
        raise Wrong(f"returned the memory of its input {shared[0]} as its result")


def _spoil_free_memory(outputs: Outputs) -> None:
    """Fill the memory the next outputs are likely to get with NaN.

    It was just given back by a way that was right: one that forgets to write would find the answer there.
    Allocators hand out the same blocks for the same sizes; a way may take a few before its output.
    """
    blocks: list[torch.Tensor] = []
    with contextlib.suppress(RuntimeError):  # memory is short: then little of it is free
        for out in outputs:
            if out.is_floating_point():
                copies = max(1, min(_SPOILED, _SPOILED_BYTES // max(1, out.numel() * out.element_size())))
                blocks += [torch.full_like(out, float("nan")) for _ in range(copies)]


def _overlaps_itself(t: torch.Tensor | None) -> bool:
    return t is not None and any(n > 1 and s == 0 for n, s in zip(t.shape, t.stride(), strict=True))


def _is_shipped(op: Op) -> bool:
    return PACKAGE in op.file.resolve().parents


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def _strides(t: torch.Tensor) -> tuple[int, ...]:
    """Strides that matter: those of dims with more than one element, of tensors that have any."""
    return tuple(t.stride(d) for d in range(t.dim()) if t.size(d) > 1) if t.numel() else ()


def _plainly(trial: Trial) -> str:
    """A trial's truth does not depend on how the call is made."""
    return replace(trial, call="plainly").key


def _kept_bytes(truth: Truth) -> int:
    given = [t for t in (*truth.inputs.values(), *truth.pristine.values()) if t is not None]
    return _nbytes((*given, *truth.oracle, *truth.peer))


def _nbytes(tensors: Outputs) -> int:
    return sum(t.numel() * t.element_size() for t in tensors)
