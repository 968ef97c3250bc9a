"""Examining one implementation of an op at one trial: call it, then look for everything that can be wrong.

The caller provides the process: it announces which implementation is running, and goes on when one kills it.
"""

from __future__ import annotations

import contextlib
import functools
import math
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace

import torch

from kernellab.accuracy.judge import Judgement, judge_values, peer_of
from kernellab.accuracy.outputs import Outputs, Wrong, bitwise_equal
from kernellab.accuracy.prepared_trial import CannotCheck, PreparedTrial, Running, TrialPreparer
from kernellab.accuracy.vault import LockedTrial, OracleDisturbed, Vault
from kernellab.activity.untuned import UntunedRun, begin_trial, take_untuned, without_tuning
from kernellab.base.failed_imports import NotLoaded
from kernellab.base.user_code import explain, user_frames
from kernellab.checking import reasons
from kernellab.checking.call_variants import NEEDS_BANDS, VARIANTS, Call, Refused, applies, other_inputs
from kernellab.checking.compiled_impls import compiled_graphs, reset_compiled
from kernellab.checking.distribution import CALLS
from kernellab.checking.form import inputs_unchanged, judge_form, overlaps_itself, wrote_outside
from kernellab.checking.outcome import Outcome, PeerErrors
from kernellab.checking.random_results import judge_random
from kernellab.checking.reference_memory import ReferenceMemoryEstimator
from kernellab.checking.refusals import refuses_gradients
from kernellab.checking.trial_memory import (
    bytes_held,
    may_need_much,
    memory_needed,
    poison_free_memory,
    poisoned_allocations,
    total_bytes,
)
from kernellab.declaration.inputs import InputsFailed
from kernellab.declaration.op import Impl, Op
from kernellab.declaration.passes import NotDifferentiable
from kernellab.interpreter.fault import missing_gpu
from kernellab.interpreter.pretended_gpu import pretended_gpu
from kernellab.machine.gpu_state import raise_pending_error
from kernellab.machine.memory import free_bytes, is_memory_error, out_of_memory
from kernellab.trials import calls
from kernellab.trials.domain import refusal
from kernellab.trials.guard_bands import GuardedAllocations, GuardedMemory
from kernellab.trials.selection import random_obstacle
from kernellab.trials.trial import Trial
from kernellab.trials.trial_inputs import NotApplicable

# What is checked besides the values. Each can be left out; the tests show what each one finds.
GUARDS = frozenset({"form", "special", "unchanged", "alias", "poison", "bands", "compiled"})
_NO_MEMORY_QUESTION = 1 << 30  # bytes: a trial that needs no more is begun without asking
_LONG_TRIAL_BYTES = 1 << 31  # a long dim is tried where that is cheap: attention to 65664 positions is not
_LIBRARY_KINDS = ("manual", "torch")  # PyTorch's operators allocate their outputs, and write them
_KEPT_TRIALS, _KEPT_BYTES = 2, 1 << 31  # prepared trials that are kept for the next implementation


NOT_BECAUSE_THE_SAME = "beyond the limit, but equal to the result for copies: not because it is the same tensor"


class _WrongValues(Wrong):
    """The values of a result are wrong, and nothing else was found."""


@dataclass(frozen=True)
class _Returned:
    """What a call returned; `further`: what further calls did, of an implementation that draws random numbers."""

    outputs: Outputs
    further: list[Outputs]
    seconds: float
    notes: list[str]
    untuned: list[UntunedRun]  # which configurations of autotuned kernels ran


class Examiner:
    """Examines implementations of one op. Implementations examined at the same trial share its oracle."""

    def __init__(
        self,
        op: Op,
        *,
        seed: int,
        device: torch.device,
        running: Running = lambda impl, phase: contextlib.nullcontext(),
        distrusted: frozenset[str] = frozenset(),
        guards: frozenset[str] = GUARDS,
        vault: Vault | None = None,
    ) -> None:
        """`running(impl, phase)` is entered around the oracle's code (None) and the peer's. `distrusted`:
        implementations that have killed a process and are not used as the peer. `vault` locks the oracle while an
        implementation runs; by default it stays readable."""
        self.op, self.device, self.guards = op, device, guards
        self._running, self._vault = running, vault or Vault()
        self._preparer = TrialPreparer(
            op, seed=seed, device=device, running=running, distrusted=distrusted, guarded="bands" in guards
        )
        self._estimator = ReferenceMemoryEstimator(op, seed=seed, device=device)
        self._prepared: dict[str, LockedTrial] = {}

    def prepare(self, trial: Trial) -> PreparedTrial:
        """The inputs of a trial and what must come of them, locked; kept for the next implementation."""
        key = trial.preparation_key
        if key not in self._prepared:
            kept = sum(total_bytes(locked.prepared.oracle) for locked in self._prepared.values())
            if len(self._prepared) >= _KEPT_TRIALS or kept > _KEPT_BYTES:
                self._prepared.clear()
            self._prepared[key] = self._vault.lock(self._preparer.prepare(trial))
        return self._prepared[key].prepared

    @contextlib.contextmanager
    def _unlocked(self, trial: Trial) -> Iterator[PreparedTrial]:
        """A prepared trial, readable inside the body. Raises OracleDisturbed."""
        key = trial.preparation_key
        prepared = self._vault.unlock(self._prepared.pop(key))
        try:
            yield prepared
        finally:
            self._prepared[key] = self._vault.lock(prepared)

    def examine(self, impl: Impl, trial: Trial) -> Outcome | None:
        """The outcome, or None where the trial does not apply to this implementation."""
        if not applies(trial.call, impl, self.device):
            return None
        if trial.call in NEEDS_BANDS and "bands" not in self.guards:
            return None
        try:
            reason = refusal(impl, trial)
        except BaseException as error:
            return Outcome("error", f"supports= failed: {explain(error)}", traceback=user_frames(error))
        if reason is None and impl.random:
            reason = random_obstacle(self.op, trial)
        if reason is not None:
            return Outcome("outside", reason)
        try:
            with self._running(None, "oracle"):
                reason = self._too_large(trial)
                if reason is not None:
                    declared = trial.kind == "declared"
                    return Outcome("unknown", f"cannot check: {reason}") if declared else Outcome("outside", reason)
                prepared = self.prepare(trial)
        except NotApplicable:
            return None
        except CannotCheck as error:
            return Outcome("unknown", f"cannot check: {error}")
        except NotDifferentiable as error:
            return Outcome("outside", f"the reference is not differentiable: {error}")
        for name in sorted(impl.mutates):
            if overlaps_itself(prepared.inputs[name]):
                reason = f"changes its input {name}, whose elements share memory here: torch does not write there"
                return Outcome("outside", reason)
        try:
            return self._examine_prepared(impl, trial, prepared)
        finally:
            if not inputs_unchanged(prepared):
                self._prepared.clear()

    def _too_large(self, trial: Trial) -> str | None:
        """A trial that does not fit in memory is not begun: running out of memory may take the machine down."""
        share = self._preparer.share_of_a_slice(trial)
        needed_for = functools.partial(memory_needed, self.op, trial, share_of_a_slice=share)
        shortage = self._shortage(trial, needed_for())
        if shortage is not None:
            return shortage
        if trial.preparation_key in self._prepared or not may_need_much(self.op, trial, _NO_MEMORY_QUESTION):
            return None
        most = max(_NO_MEMORY_QUESTION, free_bytes(self.device))
        reference = self._estimator.estimate(trial, lambda memory: needed_for(memory) <= most)
        needed = needed_for(reference)
        if trial.kind == "long" and needed > _LONG_TRIAL_BYTES:
            return f"the reference needs about {needed / 2**30:.0f} GiB of memory, and long dims are tried up to 2"
        shortage = self._shortage(trial, needed)
        return f"the reference {shortage}" if shortage is not None else None

    def _shortage(self, trial: Trial, needed: int) -> str | None:
        """How much memory is missing; None where there is enough."""
        if needed <= _NO_MEMORY_QUESTION:
            return None
        # Other prepared trials can be dropped; this one's memory is allocated already.
        key = trial.preparation_key
        self._prepared = {kept: locked for kept, locked in self._prepared.items() if kept == key}
        needed -= sum(bytes_held(locked.prepared) for locked in self._prepared.values())
        free = free_bytes(self.device)
        return f"needs about {needed / 2**30:.0f} GiB of memory, {free / 2**30:.0f} are free" if needed > free else None

    def _examine_prepared(self, impl: Impl, trial: Trial, prepared: PreparedTrial) -> Outcome | None:
        memory, copies = (GuardedMemory(bands="bands" in self.guards, poison="poison" in self.guards) for _ in range(2))
        try:
            others = other_inputs(self.op, trial, self.device)
        except InputsFailed as error:
            return Outcome("unknown", f"cannot check: {error}")
        call = Call(impl, prepared.inputs, trial, self.device, copies, others, guarded="bands" in self.guards)
        must_compile = impl.kind.name == "compile" and "compiled" in self.guards
        if must_compile:
            reset_compiled(self.op)
        graphs = compiled_graphs()
        returned = self._call(call, prepared, memory)
        if not isinstance(returned, _Returned):
            return returned
        try:
            notes = judge_form(self.op, impl, returned.outputs, prepared, self.guards)
            if memory.overwritten():
                raise Wrong(reasons.WROTE_OUTSIDE_ALLOCATION)
            for name in (*prepared.memory.overwritten_parts(), *copies.overwritten_parts()):
                raise Wrong(wrote_outside(name))
            if must_compile and compiled_graphs() == graphs:
                raise Wrong(f"{reasons.NOTHING_COMPILED}: it ran as plain PyTorch")
            # Values that are off are compared with further runs of the reference.
            with self._running(None, "oracle"), self._unlocked(trial) as readable:
                judgement = self._judge_values(impl, trial, returned, readable)
        except _WrongValues as wrong:
            if trial.same and not impl.random and self._computes_the_same_with_copies(call, returned, prepared, memory):
                return Outcome("ok", notes=(NOT_BECAUSE_THE_SAME,))
            return Outcome("wrong", str(wrong), untuned=tuple(returned.untuned), excess=wrong.excess)
        except (Wrong, OracleDisturbed) as wrong:
            return Outcome("wrong", str(wrong), excess=getattr(wrong, "excess", math.inf))
        except CannotCheck as doubt:
            return Outcome("unknown", f"cannot check: {doubt}")
        except Exception as error:  # the comparison failed, not the implementation
            return Outcome("unknown", f"cannot check: comparing failed: {explain(error)}")
        notes = [*notes, *returned.notes, *(run.note for run in returned.untuned)]
        if judgement is None:
            return Outcome("ok", notes=tuple(notes), first_call_s=returned.seconds, draws=CALLS)
        return Outcome(
            "imprecise" if judgement.imprecision else "ok",
            judgement.imprecision,
            errors=judgement.errors,
            peer=PeerErrors(peer_of(impl, prepared), judgement.peer_errors),
            notes=(*notes, *judgement.notes),
            first_call_s=returned.seconds,
        )

    def _judge_values(self, impl: Impl, trial: Trial, returned: _Returned, prepared: PreparedTrial) -> Judgement | None:
        """None where no values can be compared, and the distribution of many results is right instead."""
        special = "special" in self.guards
        try:
            if impl.random:
                judge_random(self.op, impl, trial, [returned.outputs, *returned.further], prepared)
                return None
            return judge_values(
                self.op, impl, returned.outputs, prepared, pass_name=trial.pass_name, check_nonfinite=special
            )
        except Wrong as wrong:
            raise _WrongValues(f"{wrong}{_ran_with(returned.untuned)}", wrong.excess) from None

    def _computes_the_same_with_copies(
        self, call: Call, returned: _Returned, prepared: PreparedTrial, memory: GuardedMemory
    ) -> bool:
        """Whether values are off for another reason than that inputs are one and the same tensor.

        Equal inputs are a question about memory. As values they may be far from usual: attention to itself gives each
        position all its own weight, and gradients are 0 but for rounding.
        """
        apart = {name: t.clone() for name, t in call.inputs.items() if name in call.trial.same and t is not None}
        again = self._call(replace(call, inputs={**call.inputs, **apart}), prepared, memory)
        return isinstance(again, _Returned) and all(map(bitwise_equal, again.outputs, returned.outputs))

    def _call(self, call: Call, prepared: PreparedTrial, memory: GuardedMemory) -> _Returned | Outcome | None:
        """What the call returned, or the outcome where it did not return; None where the trial does not apply."""
        impl, trial = call.impl, call.trial
        if "poison" in self.guards:
            poison_free_memory(prepared.peer)
        begin_trial(replace(trial, draw=0).key)  # other draws confirm what one configuration computed
        began = time.perf_counter()
        try:
            with self._pretend_gpu(impl), self._without_tuning(trial), self._guard_allocations(impl, trial, memory):
                outputs = VARIANTS[trial.call](call)
                seconds = time.perf_counter() - began
                further = [VARIANTS[trial.call](call) for _ in range(CALLS - 1 if impl.random else 0)]
            # A GPU fault shows here, and so belongs to this implementation and not to the next.
            raise_pending_error(self.device)
        except Wrong as wrong:
            return Outcome("wrong", str(wrong))
        except NotApplicable:
            return None
        except Refused as error:
            return Outcome("outside", str(error))
        except NotDifferentiable as error:
            return Outcome("outside", f"not differentiable: {error}")
        except BaseException as error:  # SystemExit too: nothing an implementation raises may end the worker
            if is_memory_error(error):
                shortage = out_of_memory(error, self.device)
                return Outcome("oom", shortage["reason"], needed_bytes=shortage.get("needed_bytes"))
            limit = self._missing_here(error)
            if limit is not None:
                return Outcome("unknown", limit, traceback=user_frames(error))
            if trial.pass_name != "forward" and refuses_gradients(error, mutates=bool(impl.mutates)):
                double = trial.pass_name == "double backward"
                refused = "refuses double backward" if double else "not differentiable"
                return Outcome("outside", f"{refused}: {explain(error)}")
            return Outcome("error", explain(error), traceback=user_frames(error), untuned=tuple(take_untuned()))
        return _Returned(outputs, further, seconds, call.notes, take_untuned())

    def _missing_here(self, error: BaseException) -> str | None:
        """Why an error says nothing about the implementation: a module or a GPU is missing, or the interpreter is."""
        if isinstance(error, NotLoaded):
            return str(error)
        return missing_gpu(error) if self.device.type == "cpu" else None

    def _pretend_gpu(self, impl: Impl) -> contextlib.AbstractContextManager[None]:
        """In Triton's interpreter an implementation sees a GPU; PyTorch's own operators do not run on it."""
        return pretended_gpu() if impl.kind.name in ("triton", "python") else contextlib.nullcontext()

    def _without_tuning(self, trial: Trial) -> contextlib.AbstractContextManager[None]:
        """An autotuned kernel is tuned at the declared cases only, at which it is timed as well."""
        tune = self.device.type == "cpu" or trial.kind == "declared"
        return contextlib.nullcontext() if tune else without_tuning()

    @contextlib.contextmanager
    def _guard_allocations(self, impl: Impl, trial: Trial, memory: GuardedMemory) -> Iterator[None]:
        """Poison in what is allocated, and guard bands around it. The mode that sets bands turns torch.compile off, so
        compiled code runs without."""
        guard: contextlib.AbstractContextManager[object] = contextlib.nullcontext()
        if impl.kind.name == "compile" or trial.call == calls.REGISTERED_OP:
            pass
        elif "bands" in self.guards:
            guard = GuardedAllocations(memory)
        elif "poison" in self.guards and impl.kind.name not in _LIBRARY_KINDS:
            guard = poisoned_allocations()
        with guard:
            yield


def _ran_with(untuned: list[UntunedRun]) -> str:
    """Another configuration may be right."""
    return "".join(f"; {run.kernel} ran with {run.config}, one of {run.configs} configurations" for run in untuned)
