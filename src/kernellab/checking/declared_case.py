"""Checking a way at a declared case: the case itself, then every other option value on a stand-in."""

from __future__ import annotations

import functools
from contextlib import nullcontext
from typing import Any

import torch

from kernellab.checking.examiner import GUARDS, Examiner
from kernellab.checking.oracle import Running, Truth
from kernellab.declaration.case import Case
from kernellab.declaration.op import Impl, Op
from kernellab.declaration.passes import FORWARD, Pass
from kernellab.trials.confirmation import surely
from kernellab.trials.small_cases import standin
from kernellab.trials.trial import Trial

INTERPRETER_LIMIT = 65_536
VARIANT_LIMIT = 1 << 20  # option values other than the timed ones are tried on at most this many elements
_GUARDS = GUARDS - {"bands", "compiled"}  # what is timed must fit beside its copies; a case is no battery


class Checker:
    """Checks a pass of the ways of one op at one case."""

    def __init__(
        self,
        op: Op,
        case: Case,
        *,
        seed: int,
        device: torch.device,
        interpreted: bool = False,
        most: int | None = None,
        running: Running = lambda impl, phase: nullcontext(),
        distrusted: frozenset[str] = frozenset(),
        of: Pass = FORWARD,
    ) -> None:
        """`most`: elements of an input, at most; a smaller case stands in for a larger one."""
        self.op, self.interpreted, self._of = op, interpreted, of.name
        limit = INTERPRETER_LIMIT if interpreted else most
        self.case = standin(op, case, limit) if limit else case
        self._examiner = Examiner(op, seed=seed, device=device, running=running, distrusted=distrusted, guards=_GUARDS)

    def truth(self) -> Truth:
        """Of the checked case itself."""
        return self._examiner.truth(self._trial(self.case))

    def check(self, impl: Impl) -> dict[str, Any]:
        """The check observation of a way."""
        observed: dict[str, Any] = {
            "status": "ok",
            "reason": None,
            "checked_at": {**self.case.to_json(), "interpreter": self.interpreted},
            "trials": 0,
            "outside": [],
            "notes": [],
        }
        for number, variant in enumerate(self.op.option_variants(self.case)):
            if number:
                variant = standin(self.op, variant, VARIANT_LIMIT)
            found = surely(functools.partial(self._examiner.examine, impl), self._trial(variant))
            assert found is not None
            found.pop("excess", None)  # not always a finite number
            if found["status"] == "outside":
                if number == 0:
                    return observed | {"status": "skipped", "reason": found["reason"]}
                observed["outside"].append({"case": variant.to_json(), "reason": found["reason"]})
                continue
            observed["trials"] += 1
            if number == 0:
                observed |= found
            elif found["status"] != "ok":
                observed |= found
                observed["reason"] = f"{found['reason']} (with {_options(variant)})"
            if observed["status"] != "ok":
                break
        return observed

    def _trial(self, case: Case) -> Trial:
        return Trial("declared", case, of=self._of)


def _options(case: Case) -> str:
    return ", ".join(f"{k}={v}" for k, v in case.options.items())
