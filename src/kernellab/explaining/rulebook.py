"""Every rule over one way, ranked by what would be gained and how sure that is.

A rule is a file in `rules/`; adding one is adding a file. A way that cannot launch is told of nothing else. One at the
limit is told so first, and of nothing that would gain more than is left.
"""

from __future__ import annotations

import functools
import importlib
import pkgutil
from collections.abc import Callable

from kernellab.explaining import rules
from kernellab.explaining.configurations import judged
from kernellab.findings.finding import Finding
from kernellab.gpumodel.subject import Subject

_LEAST = 1.05  # a gain below this is not worth a line

Rule = Callable[[Subject], Finding | None]


@functools.cache
def all_rules() -> dict[str, Rule]:
    """By the name of their file."""
    names = sorted(module.name for module in pkgutil.iter_modules(rules.__path__))
    return {name: importlib.import_module(f"{rules.__name__}.{name}").look for name in names}


def findings(subject: Subject) -> list[Finding]:
    """What was found, the most promising first; findings without a gain come last."""
    subject = judged(subject)
    found = [one for look in all_rules().values() if (one := look(subject)) is not None]
    refused = [one for one in found if one.rule == "cannot-launch"]
    if refused:
        return refused
    limit = [one for one in found if one.rule == "at-the-limit"]
    others = [one for one in found if one not in limit and (one.gain is None or one.gain >= _LEAST)]
    if limit:
        others = [one for one in others if one.gain is None]
    return [*limit, *sorted(others, key=lambda one: -one.weight)]
