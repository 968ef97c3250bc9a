"""Checking one way of an op at one case: call it, then ask what can be wrong with what came back.

This module observes and judges by `compare`'s rule; it does not time, and it does not know about
processes: the caller announces who is running, and keeps going when an implementation kills it.
"""

from __future__ import annotations

import contextlib
import time
from typing import Any

import torch

from kernellab.blame import PACKAGE, explain, user_frames
from kernellab.case import Case
from kernellab.checking.standin import standin
from kernellab.checking.truth import (
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
    tensors_of,
)
from kernellab.compare import FACTOR, NO_ERROR, SLACK, Errors, measure, passes, special, torch_passes
from kernellab.declare import Impl, Op
from kernellab.inputs import Inputs
from kernellab.memory import is_memory_error, out_of_memory
from kernellab.passes import FORWARD, NotDifferentiable, Pass

INTERPRETER_LIMIT = 65_536
# PyTorch's own op is held to the manual way; the manual way, being the definition, to itself.
_HELD_TO_MANUAL = ("torch", "manual")
_SPOILED, _SPOILED_BYTES = 64, 1 << 26  # blocks per output at most, and together
VARIANT_LIMIT = 1 << 20  # option values other than the timed ones are tried on at most this many elements


class Checker:
    """Checks the ways of one op at one case. Truths are kept while they are small enough to be kept."""

    def __init__(
        self,
        op: Op,
        case: Case,
        *,
        seed: int,
        device: torch.device,
        interpreted: bool = False,
        running: Running = lambda impl, phase: contextlib.nullcontext(),
        distrusted: frozenset[str] = frozenset(),
        of: Pass = FORWARD,
    ) -> None:
        """`running(impl, phase)` is entered around code that is not the checked way's: the oracle (nobody's),
        the yardstick. A way in `distrusted` has killed a process before and is no yardstick."""
        self.op, self.device, self.seed, self.interpreted, self._pass = op, device, seed, interpreted, of
        self._running = running
        self._finder = TruthFinder(op, seed=seed, device=device, running=running, distrusted=distrusted, of=of)
        self.case = standin(op, case, INTERPRETER_LIMIT) if interpreted else case
        self._truths: dict[str, Truth] = {}

    def check(self, impl: Impl) -> dict[str, Any]:
        """The check observation of a way: the case itself, then every other option value on a stand-in."""
        observed: dict[str, Any] = {
            "status": "ok",
            "reason": None,
            "checked_at": {**self.case.to_json(), "interpreter": self.interpreted},
            "trials": 0,
            "outside": [],
            "notes": [],
        }
        for trial, variant in enumerate(self.op.variants(self.case)):
            if trial:
                variant = standin(self.op, variant, VARIANT_LIMIT)
            try:
                refusal = impl.refusal(variant)
            except BaseException as error:
                failed = {"status": "error", "reason": f"supports= failed: {explain(error)}"}
                return observed | failed | {"traceback": user_frames(error)}
            if impl.mutates and self._pass is not FORWARD:
                refusal = "not differentiable: it changes its inputs"
            if refusal is not None and trial == 0:
                return observed | {"status": "skipped", "reason": refusal}
            if refusal is not None:
                observed["outside"].append({"case": variant.to_json(), "reason": refusal})
                continue
            observed["trials"] += 1
            found = self._trial(impl, variant)
            if trial == 0:
                observed |= found
            elif found["status"] != "ok":
                observed |= found
                observed["reason"] = f"{found['reason']} (with {_options(variant)})"
            if observed["status"] != "ok":
                break
        return observed

    def _trial(self, impl: Impl, case: Case) -> dict[str, Any]:
        try:
            with self._running(None, "oracle"):
                truth = self._truth(case)
        except CannotCheck as cannot:
            return {"status": "unknown", "reason": f"cannot check: {cannot}"}
        except NotDifferentiable as no:
            return {"status": "skipped", "reason": f"the reference is not differentiable: {no}"}
        try:
            called = self._call(impl, case, truth)
            if "status" in called:
                return called
            outputs = called["outputs"]
            notes = self._same_form(outputs, truth, strict_strides=_is_shipped(self.op))
            self._unchanged(impl, truth)
            not_an_input(impl, outputs, truth.inputs, truth.aliases)
            errors, peer = self._same_values(impl, outputs, truth)
        except Wrong as wrong:
            return {"status": "wrong", "reason": str(wrong)}
        except Exception as error:  # comparing failed, not the way
            return {"status": "unknown", "reason": f"cannot check: comparing failed: {explain(error)}"}
        finally:
            self._restore(truth)
        return {
            "status": "ok",
            "reason": None,
            "errors": errors.to_json(),
            "peer": {"impl": "manual" if impl.name in _HELD_TO_MANUAL else truth.peer_name, **peer.to_json()},
            "first_call_s": called["first_call_s"],
            "notes": notes,
        }

    # The truth -----------------------------------------------------------------------------------------

    def truth(self) -> Truth:
        """Of the checked case itself."""
        return self._truth(self.case)

    def _truth(self, case: Case) -> Truth:
        if case.key not in self._truths:
            if len(self._truths) >= 2 or sum(_nbytes(t.oracle) for t in self._truths.values()) > 1 << 31:
                self._truths.clear()
            self._truths[case.key] = self._finder.find(case)
        return self._truths[case.key]

    # The questions -------------------------------------------------------------------------------------

    def _call(self, impl: Impl, case: Case, truth: Truth) -> dict[str, Any]:
        """The way's outputs and how long the call took, or the status it ended with."""
        _spoil_free_memory(truth.peer)
        began = time.perf_counter()
        try:
            result = self._pass.compute(self.op, impl, truth.inputs, case)
            # A fault shows up here, and is this way's, not its neighbour's.
            synchronise(self.device)
        except NotDifferentiable as no:
            return {"status": "skipped", "reason": f"not differentiable: {no}"}
        except BaseException as error:  # SystemExit too: nothing a way raises may end the worker
            if is_memory_error(error):
                return out_of_memory(error, self.device)
            return {"status": "error", "reason": explain(error), "traceback": user_frames(error)}
        return {"outputs": tensors_of(result), "first_call_s": time.perf_counter() - began}

    def _same_form(self, outputs: Outputs, truth: Truth, *, strict_strides: bool) -> list[str]:
        same_shape(outputs, truth.peer)
        notes = []
        for got, want in zip(outputs, truth.peer, strict=True):
            if got.dtype != want.dtype:
                raise Wrong(f"dtype {_name(got.dtype)}, should be {_name(want.dtype)}")
            if got.device != want.device:
                raise Wrong(f"device {got.device}, should be {want.device}")
            if _strides(got) != _strides(want):
                text = f"strides {tuple(got.stride())}, {truth.peer_name}'s are {tuple(want.stride())}"
                if strict_strides:
                    raise Wrong(text)
                notes.append(text)
        return notes

    def _unchanged(self, impl: Impl, truth: Truth) -> None:
        for name, before in truth.pristine.items():
            if name not in impl.mutates and not same_bits(before, truth.inputs[name]):
                raise Wrong(f"changed its input {name} without declaring mutates=[{name!r}]")

    def _same_values(self, impl: Impl, outputs: Outputs, truth: Truth) -> tuple[Errors, Errors]:
        own = impl.name == "manual"
        references = self._references(impl, truth)
        worst: tuple[Errors, Errors] | None = None
        for got, oracle, peer, reference in zip(outputs, truth.oracle, truth.peer, references, strict=True):
            if not got.is_floating_point():
                if not torch.equal(got, oracle.to(got.dtype)):
                    raise Wrong("values: integers differ from the reference")
                continue
            strange = special(got, oracle, peer)
            if strange is not None and not own:
                raise Wrong(strange)
            errors = measure(got, oracle, rowwise=bool(self.op.reduces))
            fine = torch_passes(errors, reference, got.dtype) if impl.name == "torch" else passes(errors, reference)
            if not own and not fine:
                raise Wrong(_wrong_values(errors, reference, got, oracle))
            if worst is None or errors.max > worst[0].max:
                worst = (errors, reference)
        return worst or (NO_ERROR, NO_ERROR)

    def _references(self, impl: Impl, truth: Truth) -> list[Errors]:
        """Whose errors a way is held to. Gradients of the compiled reference round as the reference's own do."""
        if impl.name in _HELD_TO_MANUAL:
            return truth.manual_errors
        if impl.kind.name == "compile" and self._pass is not FORWARD:
            return [max(pair, key=lambda e: e.max) for pair in zip(truth.peer_errors, truth.manual_errors, strict=True)]
        return truth.peer_errors

    def _restore(self, truth: Truth) -> None:
        for name, before in truth.pristine.items():
            after = truth.inputs[name]
            if before is not None and after is not None:
                try:
                    if (after.shape, after.stride()) != (before.shape, before.stride()):
                        truth.inputs[name] = before.clone()  # resized or turned: there is no way back
                    elif not same_bits(before, after):
                        after.copy_(before)
                except Exception:  # a dead GPU context: the worker is about to be replaced
                    return


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


# Saying what happened ----------------------------------------------------------------------------------


def _wrong_values(errors: Errors, peer: Errors, got: torch.Tensor, oracle: torch.Tensor) -> str:
    at = errors.at
    value, want = (t[at].item() if at else t.item() for t in (got, oracle))
    limit = FACTOR * peer.max + SLACK
    if errors.max > limit:
        how = f"error {errors.max:.3g}, limit {limit:.3g}"
    else:
        how = f"99.9 % error {errors.q999:.3g}, limit {FACTOR * peer.q999 + SLACK:.3g}"
    return f"values: {how}; at [{', '.join(map(str, at))}] {value:.6g}, should be {want:.6g}"


def _is_shipped(op: Op) -> bool:
    return PACKAGE in op.file.resolve().parents


def _options(case: Case) -> str:
    return ", ".join(f"{k}={v}" for k, v in case.options.items())


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def _strides(t: torch.Tensor) -> tuple[int, ...]:
    """Strides that matter: those of dims with more than one element, of tensors that have any."""
    return tuple(t.stride(d) for d in range(t.dim()) if t.size(d) > 1) if t.numel() else ()


def _nbytes(tensors: Outputs) -> int:
    return sum(t.numel() * t.element_size() for t in tensors)
