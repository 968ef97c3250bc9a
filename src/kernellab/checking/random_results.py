"""Judging an implementation that draws its own random numbers: many calls against evaluations of the reference."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch

from kernellab.accuracy.errors import TORCH_ALLOWANCE, limit, row_rms
from kernellab.accuracy.oracle import compute
from kernellab.accuracy.outputs import Outputs, require_same_shapes
from kernellab.accuracy.prepared_trial import PreparedTrial
from kernellab.checking.distribution import CALLS, SCALING, Draws, judge_distribution
from kernellab.declaration.inputs import upcast
from kernellab.declaration.op import Impl, Op
from kernellab.trials.trial import Trial


def judge_random(op: Op, impl: Impl, trial: Trial, calls: Sequence[Outputs], prepared: PreparedTrial) -> None:
    """Raises Wrong where the results of many calls do not have the distribution of the reference's over seeds."""
    for outputs in calls:
        require_same_shapes(outputs, prepared.oracle)
    evaluations = [_evaluate(op, trial, prepared, seed) for seed in range(1, 1 + CALLS + SCALING)]
    results = []
    for number, exact in enumerate(prepared.oracle):
        if not exact.numel():
            continue
        samples = torch.stack([outputs[number].flatten() for outputs in evaluations]).double()
        mine = torch.stack([outputs[number].flatten() for outputs in calls])
        rounding = _rounding(op, impl, number, mine.dtype, samples, prepared)
        results.append(
            Draws(
                prepared.label(number), exact.shape, mine.double(), samples[:CALLS], samples[CALLS:], rounding.flatten()
            )
        )
    judge_distribution(results)


def _evaluate(op: Op, trial: Trial, prepared: PreparedTrial, seed: int) -> Outputs:
    assert op.seed is not None, "a random implementation needs an op with a seed"
    case = trial.case.with_(options={**trial.case.options, op.seed: seed})
    return compute(op, op.reference, upcast(prepared.pristine), replace(trial, case=case))


def _rounding(
    op: Op, impl: Impl, number: int, dtype: torch.dtype, samples: torch.Tensor, prepared: PreparedTrial
) -> torch.Tensor:
    """How far each element may be from the exact value by the rule for values, at its largest scale."""
    exact = prepared.oracle[number]
    if not dtype.is_floating_point:
        return torch.zeros(exact.numel(), dtype=torch.float64, device=exact.device)
    relative = limit(prepared.manual_errors[number].max) * torch.finfo(dtype).eps
    if impl.name == "torch":
        relative = max(relative, TORCH_ALLOWANCE)
    typical = row_rms(torch.where(exact.isfinite(), exact, 0.0), rowwise=bool(op.reduces)).expand(exact.shape)
    largest = torch.where(samples.isfinite(), samples.abs(), 0.0).amax(0)
    least = max(prepared.least_scales[number], torch.finfo(dtype).tiny)
    return relative * torch.maximum(typical.flatten(), largest).clamp_min(least)
