"""Checking one way of an op at one case: call it, then ask what can be wrong with what came back.

This module observes and judges by `compare`'s rule; it does not time, and it does not know about
processes: the caller announces who is running, and keeps going when an implementation kills it.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

import torch

from kernellab import inputs as make_inputs
from kernellab.blame import PACKAGE, explain, first_line, user_frames
from kernellab.case import Case
from kernellab.checking.standin import standin
from kernellab.compare import FACTOR, SLACK, Errors, chunk, measure, passes, special, torch_passes
from kernellab.declare import Impl, Op

INTERPRETER_LIMIT = 65_536
VARIANT_LIMIT = 1 << 20  # option values other than the timed ones are tried on at most this many elements

Outputs = tuple[torch.Tensor, ...]
Running = Callable[[str], AbstractContextManager[None]]


class CannotCheck(Exception):
    """The oracle itself could not be computed; never the implementation's fault."""


class Wrong(Exception):
    """The result is not what it must be; the message says how."""


@dataclass
class Truth:
    """What a case's result must be: the oracle, and PyTorch's own result with its errors."""

    inputs: make_inputs.Inputs
    pristine: make_inputs.Inputs
    oracle: Outputs
    peer: Outputs
    peer_name: str
    peer_errors: list[Errors]
    manual_errors: list[Errors]


def tensors_of(result: Any) -> Outputs:
    """A result as a tuple of tensors, or Wrong."""
    if isinstance(result, torch.Tensor):
        return (result,)
    if isinstance(result, (tuple, list)) and result and all(isinstance(t, torch.Tensor) for t in result):
        return tuple(result)
    kind = "None" if result is None else f"a {type(result).__name__}"
    raise Wrong(f"returned {kind}, not a tensor")


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
        running: Running = lambda impl: contextlib.nullcontext(),
        distrusted: frozenset[str] = frozenset(),
    ) -> None:
        """`running(name)` is entered around code of a way other than the one being checked; a way in
        `distrusted` has killed a process before and is not called as the yardstick."""
        self.op, self.device, self.seed, self.interpreted = op, device, seed, interpreted
        self._running, self._distrusted = running, distrusted
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
        refusal = impl.refusal(self.case)
        if refusal is not None:
            return observed | {"status": "skipped", "reason": refusal}
        for trial, variant in enumerate(self.op.variants(self.case)):
            if trial:
                variant = standin(self.op, variant, VARIANT_LIMIT)
            refusal = impl.refusal(variant)
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
            truth = self._truth(case)
        except CannotCheck as cannot:
            return {"status": "unknown", "reason": f"cannot check: {cannot}"}
        started = time.perf_counter()
        try:
            outputs = self._call(impl, case, truth)
            first_call = time.perf_counter() - started
            notes = self._same_form(outputs, truth, strict_strides=_is_shipped(self.op))
            self._unchanged(impl, truth)
            errors, peer = self._same_values(impl, outputs, truth)
        except Wrong as wrong:
            return {"status": "wrong", "reason": str(wrong)}
        except torch.OutOfMemoryError as error:
            return {"status": "oom", "reason": first_line(error)}
        except Exception as error:
            if is_memory_error(error):
                return {"status": "oom", "reason": first_line(error)}
            return {"status": "error", "reason": explain(error), "traceback": user_frames(error)}
        finally:
            self._restore(truth)
        return {
            "status": "ok",
            "reason": None,
            "errors": errors.to_json(),
            "peer": {"impl": truth.peer_name, **peer.to_json()},
            "first_call_s": first_call,
            "notes": notes,
        }

    # The truth -----------------------------------------------------------------------------------------

    def _truth(self, case: Case) -> Truth:
        if case.key not in self._truths:
            if len(self._truths) >= 2 or sum(_nbytes(t.oracle) for t in self._truths.values()) > 1 << 31:
                self._truths.clear()
            self._truths[case.key] = self._find_truth(case)
        return self._truths[case.key]

    def _find_truth(self, case: Case) -> Truth:
        op = self.op
        try:
            inputs = make_inputs.make(op, case, self.seed, self.device)
            oracle = self._oracle(case, inputs)
            manual = tensors_of(make_inputs.call(op, op.reference, inputs, case))
            peer, name = manual, "manual"
            manual_errors = self._errors(manual, oracle)
            peer_errors = manual_errors
            own = op.impls.get("torch")
            if own is not None and "torch" not in self._distrusted and own.refusal(case) is None:
                # PyTorch's own op is the yardstick only once it has itself been held to the reference.
                try:
                    with self._running("torch"):
                        theirs = tensors_of(make_inputs.call(op, own, make_inputs.clone(inputs), case))
                        self._synchronise()
                    self._same_shape(theirs, manual)
                    theirs_errors = self._errors(theirs, oracle)
                    if all(map(torch_passes, theirs_errors, manual_errors, (t.dtype for t in theirs))):
                        peer, name, peer_errors = theirs, "torch", theirs_errors
                except Exception:  # its own check will say what is wrong with it
                    pass
            self._synchronise()
        except Exception as error:
            if is_memory_error(error) or isinstance(error, torch.OutOfMemoryError):
                raise CannotCheck(f"the oracle does not fit in memory at {case.size_label}") from None
            raise CannotCheck(f"the reference failed: {explain(error)}") from None
        return Truth(inputs, make_inputs.clone(inputs), oracle, peer, name, peer_errors, manual_errors)

    def _oracle(self, case: Case, inputs: make_inputs.Inputs) -> Outputs:
        """The reference in float64. Leading dims repeat the op, so a large case goes through in slices."""
        op = self.op
        lead = [t for t, arg in zip(inputs.values(), op.args.values(), strict=True) if arg.dims[:1] == ("...",)]
        first = lead[0] if lead else None
        sliceable = (
            first is not None
            and len(lead) == len(inputs)
            and all(
                t is not None and t.dim() > len(arg.dims) - 1 for t, arg in zip(lead, op.args.values(), strict=True)
            )
            and first.numel() > chunk(self.device)
        )
        if not sliceable or first is None:
            result = make_inputs.call(op, op.reference, make_inputs.upcast(inputs), case)
            return tensors_of(result)
        step = max(1, chunk(self.device) // max(1, first[0].numel()))
        pieces = []
        for start in range(0, first.shape[0], step):
            part = {k: t[start : start + step] for k, t in inputs.items() if t is not None}
            pieces.append(tensors_of(make_inputs.call(op, op.reference, make_inputs.upcast(part), case)))
        return tuple(torch.cat(piece) for piece in zip(*pieces, strict=True))

    # The questions -------------------------------------------------------------------------------------

    def _call(self, impl: Impl, case: Case, truth: Truth) -> Outputs:
        with torch.no_grad():
            result = make_inputs.call(self.op, impl, truth.inputs, case)
        # A fault shows up here, and is this way's, not its neighbour's.
        self._synchronise()
        return tensors_of(result)

    def _same_shape(self, outputs: Outputs, expected: Outputs) -> None:
        if len(outputs) != len(expected):
            raise Wrong(f"returned {len(outputs)} tensors, should be {len(expected)}")
        for got, want in zip(outputs, expected, strict=True):
            if got.shape != want.shape:
                raise Wrong(f"shape {_x(got.shape)}, should be {_x(want.shape)}")

    def _same_form(self, outputs: Outputs, truth: Truth, *, strict_strides: bool) -> list[str]:
        self._same_shape(outputs, truth.peer)
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
            after = truth.inputs[name]
            if name not in impl.mutates and before is not None and after is not None and not _same_bits(before, after):
                raise Wrong(f"changed its input {name} without declaring mutates=[{name!r}]")

    def _same_values(self, impl: Impl, outputs: Outputs, truth: Truth) -> tuple[Errors, Errors]:
        own = impl.name == "manual"
        # PyTorch's own op is held to the manual way; the manual way, being the definition, to itself.
        references = truth.manual_errors if impl.name in ("torch", "manual") else truth.peer_errors
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
        nothing = Errors(0.0, 0.0, 0.0, 0.0, ())
        return worst or (nothing, nothing)

    def _errors(self, outputs: Outputs, oracle: Outputs) -> list[Errors]:
        nothing = Errors(0.0, 0.0, 0.0, 0.0, ())
        rowwise = bool(self.op.reduces)
        return [
            measure(y, o, rowwise=rowwise) if y.is_floating_point() else nothing
            for y, o in zip(outputs, oracle, strict=True)
        ]

    def _restore(self, truth: Truth) -> None:
        for name, before in truth.pristine.items():
            after = truth.inputs[name]
            if before is not None and after is not None:
                try:
                    if not _same_bits(before, after):
                        after.copy_(before)
                except Exception:  # a dead GPU context: the worker is about to be replaced
                    return

    def _synchronise(self) -> None:
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)


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


def is_memory_error(error: BaseException) -> bool:
    text = str(error)
    return isinstance(error, (MemoryError, torch.OutOfMemoryError)) or "can't allocate memory" in text


def _is_shipped(op: Op) -> bool:
    return PACKAGE in op.file.resolve().parents


def _options(case: Case) -> str:
    return ", ".join(f"{k}={v}" for k, v in case.options.items())


def _x(shape: torch.Size) -> str:
    return "×".join(map(str, shape)) or "scalar"


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def _strides(t: torch.Tensor) -> tuple[int, ...]:
    """Strides that matter: those of dims with more than one element, of tensors that have any."""
    return tuple(t.stride(d) for d in range(t.dim()) if t.size(d) > 1) if t.numel() else ()


def _same_bits(a: torch.Tensor, b: torch.Tensor) -> bool:
    width = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}[a.element_size()]
    return a.shape == b.shape and torch.equal(a.view(width), b.view(width))


def _nbytes(tensors: Outputs) -> int:
    return sum(t.numel() * t.element_size() for t in tensors)
