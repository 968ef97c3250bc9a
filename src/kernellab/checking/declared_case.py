"""Checking an implementation at a declared case: the case itself, then every other option value on a smaller case."""

from __future__ import annotations

import functools
from contextlib import nullcontext
from dataclasses import replace

import torch

from kernellab.accuracy.prepared_trial import PreparedTrial, Running
from kernellab.accuracy.vault import Vault
from kernellab.checking.confirmation import examine_and_confirm
from kernellab.checking.examiner import GUARDS, Examiner
from kernellab.checking.outcome import CaseOutcome, OutsideVariant
from kernellab.declaration.case import Case
from kernellab.declaration.op import Impl, Op
from kernellab.declaration.passes import FORWARD, Pass
from kernellab.record.statuses import RIGHT, worst
from kernellab.trials.choosing.small_cases import shrink_to
from kernellab.trials.domain import Domain
from kernellab.trials.selection import RANDOM_ELEMENTS
from kernellab.trials.sizes import shrink_inside
from kernellab.trials.trial import Trial

INTERPRETER_LIMIT = 65_536  # elements of an input in Triton's interpreter
_VARIANT_LIMIT = 1 << 20  # elements of an input, where option values other than the timed ones are checked
_GUARDS = GUARDS - {"bands", "compiled"}  # a case that is timed must fit in memory beside its copies


class CaseChecker:
    """Checks one pass of an op's implementations at one case."""

    def __init__(
        self,
        op: Op,
        case: Case,
        *,
        seed: int,
        device: torch.device,
        interpreted: bool = False,
        max_elements: int | None = None,
        running: Running = lambda impl, phase: nullcontext(),
        distrusted: frozenset[str] = frozenset(),
        pass_: Pass = FORWARD,
        vault: Vault | None = None,
    ) -> None:
        """`max_elements`: of an input; a smaller case stands in for a larger one. `running`, `distrusted` and `vault`
        as in `Examiner`."""
        self.op, self.interpreted, self._pass_name = op, interpreted, pass_.name
        self._limit = INTERPRETER_LIMIT if interpreted else max_elements
        self.case = shrink_to(op, case, self._limit) if self._limit else case
        self._declared = case
        self._examiner = Examiner(
            op, seed=seed, device=device, running=running, distrusted=distrusted, guards=_GUARDS, vault=vault
        )

    def prepare(self) -> PreparedTrial:
        """The inputs of the checked case and what must come of them."""
        return self._examiner.prepare(self._trial(self.case))

    def check(self, impl: Impl) -> CaseOutcome:
        """Stops at the first option values that fail. A smaller case is one that the implementation accepts."""
        domain = Domain(self.op, impl)
        case = self._declared
        limit = min(self._limit or RANDOM_ELEMENTS, RANDOM_ELEMENTS) if impl.random else self._limit
        if limit and domain.accepts(case):
            case = shrink_inside(domain, case, limit)
        checked = CaseOutcome("ok", None, case, self.interpreted, flaw=impl.flaw)
        for number, variant in enumerate(self.op.option_variants(case)):
            if impl.random and variant.options[self.op.seed or ""] != case.options[self.op.seed or ""]:
                continue  # it does not use the seed
            if number and domain.accepts(variant):
                variant = shrink_inside(domain, variant, _VARIANT_LIMIT)
            outcome = examine_and_confirm(functools.partial(self._examiner.examine, impl), self._trial(variant))
            assert outcome is not None, "a plain call applies to every implementation"
            if outcome.status == "outside":
                if number == 0:
                    return replace(checked, status="skipped", reason=outcome.reason)
                checked = replace(checked, outside=(*checked.outside, OutsideVariant(variant, outcome.reason or "")))
                continue
            checked = replace(checked, trials=checked.trials + 1)
            if number == 0 or worst((checked.status, outcome.status)) != checked.status:
                reason = f"{outcome.reason} (with {_options(variant)})" if number else outcome.reason
                outcomes = (*checked.outcomes, outcome)
                checked = replace(checked, status=outcome.status, reason=reason, outcomes=outcomes)
            if checked.status not in RIGHT:
                break
        return checked

    def _trial(self, case: Case) -> Trial:
        return Trial("declared", case, pass_name=self._pass_name)


def _options(case: Case) -> str:
    return ", ".join(f"{name}={value}" for name, value in case.options.items())
