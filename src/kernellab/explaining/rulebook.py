"""Collects the rules, applies them to a subject, and ranks what they find. A rule is a file in `rules/`.

`python -m kernellab.explaining.rulebook docs/explain.md` writes the table of rules into the page, between
`<!-- rules -->` and `<!-- end -->`.
"""

from __future__ import annotations

import functools
import importlib
import pkgutil
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from kernellab.explaining import rules
from kernellab.explaining.configurations import choose_configurations
from kernellab.findings.finding import Finding, Precedence
from kernellab.findings.ranking import rank
from kernellab.gpumodel.subject import Subject

_TABLE = re.compile(r"(<!-- rules -->\n).*?(<!-- end -->)", re.DOTALL)
_MIN_GAIN = 1.05  # a smaller gain is not worth a line


@dataclass(frozen=True)
class Rule:
    """One file of `rules/`. `summary` is the first line of its docstring, the others are its attributes."""

    name: str
    summary: str
    needs: str
    gain: str
    precedence: Precedence
    examine: Callable[[Subject], Finding | None]

    def find(self, subject: Subject) -> Finding | None:
        finding = self.examine(subject)
        return replace(finding, name=self.name, precedence=self.precedence) if finding else None

    @property
    def table_row(self) -> str:
        """A row of the table in docs/explain.md."""
        return f"| `{self.name}` | {self.summary} | {self.needs} | {self.gain} |"


@functools.cache
def all_rules() -> dict[str, Rule]:
    """By name, in the order of their files."""
    files = sorted(module.name for module in pkgutil.iter_modules(rules.__path__))
    return {rule.name: rule for rule in map(_load, files)}


def _load(file: str) -> Rule:
    module = importlib.import_module(f"{rules.__name__}.{file}")
    missing = [name for name in ("__doc__", "NEEDS", "GAIN", "examine") if not getattr(module, name, None)]
    if missing:
        lacking = ", ".join(missing).replace("__doc__", "a docstring")
        raise TypeError(f"{module.__name__} is not a rule: it lacks {lacking} (see explaining/rules/__init__.py)")
    summary = str(module.__doc__).strip().partition("\n")[0]
    return Rule(
        name=file.replace("_", "-"),
        summary=summary.removesuffix("."),
        needs=module.NEEDS,
        gain=module.GAIN,
        precedence=getattr(module, "PRECEDENCE", Precedence.BY_GAIN),
        examine=module.examine,
    )


def find(subject: Subject) -> list[Finding]:
    """What the rules find, ranked by gain."""
    subject = choose_configurations(subject)
    findings = [finding for rule in all_rules().values() if (finding := rule.find(subject)) is not None]
    return rank([finding for finding in findings if finding.gain is None or finding.gain >= _MIN_GAIN])


def write_table(page: str) -> str:
    """The page with the table of rules as their files have it today."""
    head = ["| rule | finds | from | gain |", "|---|---|---|---|"]
    table = "\n".join([*head, *(rule.table_row for rule in all_rules().values())])
    return _TABLE.sub(lambda block: f"{block[1]}{table}\n{block[2]}", page)


if __name__ == "__main__":
    page = Path(sys.argv[1])
    page.write_text(write_table(page.read_text()))
