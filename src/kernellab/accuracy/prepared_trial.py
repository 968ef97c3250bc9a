"""What an implementation is given at a trial and what its results are compared with: inputs, oracle, peer.

The peer is the implementation whose own error sets the tolerance: PyTorch's own op, once it has passed against the
reference, otherwise the reference itself (`manual`).
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace

import torch

from kernellab.accuracy.errors import NO_ERROR, Errors, measure, torch_passes
from kernellab.accuracy.errors import scales as scales_of
from kernellab.accuracy.flushed import FlushedDenormals
from kernellab.accuracy.monte_carlo import RoundedReferences
from kernellab.accuracy.oracle import Oracle, compute, gradient_inputs
from kernellab.accuracy.outputs import Outputs, Wrong, bitwise_equal, inputs_sharing_memory, require_same_shapes
from kernellab.accuracy.perturbation import PerturbedOracles, gradient_scales, input_roundings, reduced_terms
from kernellab.accuracy.typical_scales import TypicalScales
from kernellab.accuracy.undefined_integers import UndefinedIntegers
from kernellab.accuracy.unsettled import UnsettledValues
from kernellab.base.user_code import explain
from kernellab.declaration.case import Case, Size
from kernellab.declaration.inputs import Inputs, InputsFailed, clone
from kernellab.declaration.op import Op
from kernellab.declaration.passes import NotDifferentiable, is_upstream
from kernellab.machine.gpu_state import gpu_is_dead, raise_pending_error
from kernellab.machine.memory import is_memory_error, out_of_memory
from kernellab.trials.domain import is_defined
from kernellab.trials.guard_bands import GuardedMemory
from kernellab.trials.layouts import FAR
from kernellab.trials.trial import RANDOM_UPSTREAM, Trial
from kernellab.trials.trial_inputs import NotApplicable, copy_input, make_inputs, with_random_upstream

_USUAL_SIZE = 8  # in place of sizes 0 and 1
MAX_PEER_ERROR = 0.25  # of the scale: a peer that is off by more sets no useful tolerance

# Entered around code that is not the examined implementation's, with the implementation's name (None: the oracle) and
# the phase, so that a crash there is not attributed to the implementation.
Running = Callable[[str | None, str], AbstractContextManager[None]]


class CannotCheck(Exception):
    """The oracle or the peer could not be computed. Never the implementation's fault."""


class PeerDied(Exception):
    """PyTorch's own op made the GPU unusable while it was called as the peer."""


@dataclass(frozen=True)
class PreparedTrial:
    """The inputs of a trial and what must come of them."""

    inputs: Inputs
    memory: GuardedMemory  # that the inputs lie in
    pristine: Inputs  # copies of the inputs
    oracle: Outputs
    peer: Outputs
    peer_name: str
    peer_errors: list[Errors]
    manual_errors: list[Errors]
    least_scales: list[float]  # the least scale of each result's errors
    aliases: frozenset[str]  # inputs whose memory the reference itself returns, as a view does
    integers: list[Outputs]  # per integer result: the oracle's, the peer's and manual's values; empty for float results
    overflowed: list[
        torch.Tensor | None
    ]  # elements that are finite in the oracle alone: not judged; None: there is none
    perturbed: PerturbedOracles
    rounded: RoundedReferences
    typical: TypicalScales
    undefined: UndefinedIntegers
    unsettled: UnsettledValues
    flushed: FlushedDenormals
    gradient_inputs: list[str]  # their gradients come last, after the results

    def with_oracle(self, number: int, oracle: torch.Tensor) -> PreparedTrial:
        """With another exact value of one result."""
        return replace(self, oracle=(*self.oracle[:number], oracle, *self.oracle[number + 1 :]))

    @property
    def result_count(self) -> int:
        """How many of the tensors are results; the gradients follow them."""
        return len(self.oracle) - len(self.gradient_inputs)

    def label(self, number: int) -> str:
        """Names one of several tensors at the start of a message; empty where there is only one."""
        results = self.result_count
        if number >= results:
            return f"the gradient of {self.gradient_inputs[number - results]}: "
        if results > 1:
            return f"result {number}: "
        return "the result: " if self.gradient_inputs else ""


@dataclass(frozen=True)
class _Results:
    """The results of one implementation with their errors."""

    name: str
    outputs: Outputs
    errors: list[Errors]


class TrialPreparer:
    """Prepares the trials of one op."""

    def __init__(
        self,
        op: Op,
        *,
        seed: int,
        device: torch.device,
        running: Running,
        distrusted: frozenset[str],
        guarded: bool = False,
    ) -> None:
        """`distrusted`: implementations that have killed a process and are not used as the peer. `guarded`: the
        inputs lie between guard bands."""
        self.op, self.seed, self.device = op, seed, device
        self._running, self._distrusted, self._guarded = running, distrusted, guarded
        self._oracle = Oracle(op, seed=seed, device=device)

    def share_of_a_slice(self, trial: Trial) -> float:
        """How much of a trial's oracle is computed at a time."""
        return self._oracle.share_of_a_slice(trial)

    def prepare(self, trial: Trial) -> PreparedTrial:
        """Raises CannotCheck, NotDifferentiable, NotApplicable or PeerDied."""
        op, case = self.op, trial.case
        try:
            trial_inputs = make_inputs(op, trial, self.seed, self.device, guarded=self._guarded)
            inputs = trial_inputs.tensors
            pristine = clone(inputs)
            oracle = self._oracle.compute(trial, inputs)
            manual_outputs = compute(op, op.reference, inputs, trial)
            self._require_finite_values(trial, oracle)
            if any(t.is_complex() for t in oracle):
                raise CannotCheck("complex results are not compared yet")
            scales = [
                max(scale, _denormal_scale(op, trial, inputs, y))
                for scale, y in zip(self._least_scales(trial, inputs, oracle), manual_outputs, strict=True)
            ]
            manual = _Results("manual", manual_outputs, self._errors(manual_outputs, oracle, scales))
            raise_pending_error(self.device)
            if not all(map(bitwise_equal, inputs.values(), pristine.values())):
                raise CannotCheck("the reference changes its input")
        except (CannotCheck, NotDifferentiable, NotApplicable):
            raise
        except InputsFailed as error:
            raise CannotCheck(str(error)) from None
        except Wrong as error:
            raise CannotCheck(f"the reference {error}") from None
        except BaseException as error:
            if is_memory_error(error):
                reason = out_of_memory(error, self.device)["reason"]
                raise CannotCheck(f"the oracle does not fit in memory at {case.size_label}: {reason}") from None
            raise CannotCheck(f"the reference failed: {explain(error)}") from None
        peer = self._pytorchs_own(trial, inputs, oracle, manual, scales) or manual
        reference64 = functools.partial(self._oracle.reference64, trial)
        overflowed = [_overflowed(*three) for three in zip(oracle, peer.outputs, manual.outputs, strict=True)]
        if all(mask is not None and bool(mask.all()) for mask in overflowed):
            raise CannotCheck(
                f"{peer.name} has no finite result in {case.dtype}, though the float64 oracle has: it overflows"
            )

        def evaluate(inputs: Inputs) -> Outputs:
            return compute(op, op.reference, inputs, trial)

        roundings = functools.partial(input_roundings, op, case, trial.pass_name, functools.partial(evaluate, pristine))
        perturbed = PerturbedOracles(reference64, pristine, oracle, roundings)
        rowwise = bool(op.reduces)
        rounded = RoundedReferences(evaluate, pristine, oracle, rowwise=rowwise, seed=self.seed)
        gradients = gradient_inputs(op, trial, inputs)
        peer_errors = self._errors_beyond_rounding(peer, oracle, scales, perturbed)
        manual_errors = (
            peer_errors if peer is manual else self._errors_beyond_rounding(manual, oracle, scales, perturbed)
        )
        for errors, output in zip(peer_errors, peer.outputs, strict=True):
            if _is_useless(output, errors):
                off = f"{errors.max:.2g} roundings off the float64 oracle"
                raise CannotCheck(f"the peer, {peer.name}, is itself {off} in {case.dtype}")
        return PreparedTrial(
            inputs,
            trial_inputs.memory,
            pristine,
            oracle,
            peer.outputs,
            peer.name,
            peer_errors,
            manual_errors,
            scales,
            aliases=frozenset(inputs_sharing_memory(manual.outputs, inputs)),
            integers=[
                () if mine.is_floating_point() else (exact.to(mine.dtype), theirs, mine)
                for exact, theirs, mine in zip(oracle, peer.outputs, manual.outputs, strict=True)
            ],
            perturbed=perturbed,
            overflowed=overflowed,
            rounded=rounded,
            typical=TypicalScales(
                reference64,
                pristine,
                oracle,
                rounded,
                results=len(oracle) - len(gradients),
                rowwise=rowwise,
                seed=self.seed,
            ),
            undefined=UndefinedIntegers(evaluate, pristine),
            unsettled=UnsettledValues(reference64, pristine, oracle),
            flushed=FlushedDenormals(reference64, pristine, oracle),
            gradient_inputs=gradients,
        )

    def _require_finite_values(self, trial: Trial, oracle: Outputs) -> None:
        """Raises CannotCheck where a result has no finite value at any trial like this one: it proves nothing.

        Special values and sizes of 0 or 1 may lead to such a result by themselves (the variance of one number), and
        then it is what an implementation has to compute.
        """
        if all(map(_has_finite_value, oracle)):
            return
        ordinary = replace(trial, case=_without_small_sizes(self.op, trial.case), values={}, layouts={})
        inputs = make_inputs(self.op, ordinary, self.seed, self.device, guarded=False).tensors
        for result, usual in zip(oracle, self._oracle.compute(ordinary, inputs), strict=True):
            if not (_has_finite_value(result) or _has_finite_value(usual)):
                example = f"values=dict({next(iter(self.op.args))}=kl.positive)"
                raise CannotCheck(
                    "the reference has no finite value at such inputs, so that nothing can be compared: declare what "
                    f"the inputs look like, for example {example}"
                )

    def _pytorchs_own(
        self, trial: Trial, inputs: Inputs, oracle: Outputs, manual: _Results, scales: list[float]
    ) -> _Results | None:
        """PyTorch's own op as the peer, if it passes against the reference itself."""
        own = self.op.impls.get("torch")
        if own is None or own.random or "torch" in self._distrusted:
            return None
        try:
            with self._running("torch", "check"):
                if own.refusal(trial.case_for_supports) is not None:
                    return None
                outputs = compute(self.op, own, _copy_inputs(inputs, trial), trial, mutates=own.mutates)
                raise_pending_error(self.device)
            require_same_shapes(outputs, manual.outputs)
            if [t.dtype for t in outputs] != [t.dtype for t in manual.outputs]:
                return None
            errors = self._errors(outputs, oracle, scales)
        except BaseException as error:
            if gpu_is_dead(self.device):
                raise PeerDied(explain(error)) from None
            return None  # its own check reports what is wrong with it
        passed = all(map(torch_passes, errors, manual.errors, (t.dtype for t in outputs)))
        return _Results("torch", outputs, errors) if passed else None

    def _least_scales(self, trial: Trial, inputs: Inputs, oracle: Outputs) -> list[float]:
        """The least scale of each result's errors: above 0 for gradients whose terms cancel.

        With a constant upstream gradient, a gradient may be 0 because its terms cancel, as in softmax. What is left is
        rounding at the scale of the terms, which a random upstream gradient shows. A single row may cancel too, that
        of a query of attention that gives one key all the weight. Where the op reduces several dims, so that rows
        depend on each other, the other rows show the scale of its terms.
        """
        results = len(oracle) - len(gradient_inputs(self.op, trial, inputs))
        least = self._gradient_scales(trial, inputs, oracle, results)
        if len(self.op.reduces) < 2:
            return least
        declared: torch.dtype = getattr(torch, trial.case.dtype)
        dtype = declared if declared.is_floating_point else torch.float32
        usual = [float(scales_of(t, dtype, rowwise=False)) if t.numel() else 0.0 for t in oracle[results:]]
        return list(map(max, least, [0.0] * results + usual))

    def _gradient_scales(self, trial: Trial, inputs: Inputs, oracle: Outputs, results: int) -> list[float]:
        if trial.upstream == "expanded":
            usual = self._oracle.reference64(trial, with_random_upstream(inputs, self.seed))
            return [0.0] * results + [float(t.square().mean().sqrt()) for t in usual[results:]]
        # The values of an expanded input are equal, which may be a kink.
        expanded = any("expanded" in layout for layout in trial.layouts.values())
        if trial.pass_name != "forward" and (trial.values or expanded):
            scales = gradient_scales(
                lambda nearby: self._oracle.reference64(trial, nearby)[results:],
                inputs,
                oracle[results:],
                rowwise=bool(self.op.reduces),
            )
            return [0.0] * results + scales
        return [0.0] * len(oracle)

    def _errors(self, outputs: Outputs, oracle: Outputs, scales: list[float]) -> list[Errors]:
        return [
            measure(y, o, rowwise=bool(self.op.reduces), least_scale=scale) if y.is_floating_point() else NO_ERROR
            for y, o, scale in zip(outputs, oracle, scales, strict=True)
        ]

    def _errors_beyond_rounding(
        self, results: _Results, oracle: Outputs, scales: list[float], perturbed: PerturbedOracles
    ) -> list[Errors]:
        """Where all terms cancel, what rounding leaves of them is no error, of the peer as of any implementation."""
        return [
            measure(y, o, rowwise=bool(self.op.reduces), least_scale=scale, allowance=perturbed.deviation(number))
            if _is_useless(y, results.errors[number])
            else results.errors[number]
            for number, (y, o, scale) in enumerate(zip(results.outputs, oracle, scales, strict=True))
        ]


def _denormal_scale(op: Op, trial: Trial, inputs: Inputs, result: torch.Tensor) -> float:
    """Terms that are denormal are rounded to the spacing of denormal numbers: a sum of n is off by √n spacings."""
    if result.dtype not in (torch.float32, torch.float64):  # narrower dtypes are added in float32
        return 0.0
    largest = max((t.numel() for t in inputs.values() if t is not None), default=1)
    terms = max(reduced_terms(op, trial.case), largest // max(1, result.numel()), 1)
    return float(torch.finfo(result.dtype).tiny * math.sqrt(terms))


def _overflowed(oracle: torch.Tensor, peer: torch.Tensor, manual: torch.Tensor) -> torch.Tensor | None:
    """The elements at which neither the peer nor `manual` is finite, though the oracle is; None where there is none."""
    if not peer.is_floating_point():
        return None
    mask = ~peer.isfinite() & ~manual.isfinite() & oracle.to(peer.dtype).isfinite()
    return mask if bool(mask.any()) else None


def _has_finite_value(result: torch.Tensor) -> bool:
    if not result.numel() or not result.is_floating_point():
        return True
    first = result[(0,) * result.dim()]  # asked first: torch takes long to look at all of a float64 tensor
    return math.isfinite(first.item()) or bool(result.isfinite().any())


def _without_small_sizes(op: Op, case: Case) -> Case:
    """The case with larger sizes in place of 0 and 1, where the op is defined for them."""
    larger: dict[str, Size] = {
        dim: tuple(n if n > 1 else _USUAL_SIZE for n in size) if isinstance(size, tuple) else max(size, _USUAL_SIZE)
        for dim, size in case.dims.items()
        if (min(size, default=2) if isinstance(size, tuple) else size) < 2
    }
    changed = op.resize(case, larger)
    return changed if is_defined(op, changed) else case


def _copy_inputs(inputs: Inputs, trial: Trial) -> Inputs:
    """Copies in the same layouts, for PyTorch's own op, which may change its inputs. What spans gigabytes, and an
    upstream gradient that is not contiguous, is not copied."""
    memory = GuardedMemory(bands=False, poison=False)
    copies = dict(inputs)
    for name, t in inputs.items():
        keeps_layout = trial.upstream == RANDOM_UPSTREAM if is_upstream(name) else trial.layouts.get(name) not in FAR
        if t is not None and keeps_layout:
            copies[name] = copy_input(t, name, trial, memory, guarded=False)
    return copies


def _is_useless(output: torch.Tensor, errors: Errors) -> bool:
    """Whether a peer's result is so far off that it sets no useful tolerance."""
    return output.is_floating_point() and errors.max * torch.finfo(output.dtype).eps > MAX_PEER_ERROR
