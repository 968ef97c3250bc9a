"""Finds the verbs: the modules of `verbs/`."""

from __future__ import annotations

import argparse
import importlib
import pkgutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from kernellab.cli.parser import Parser

_LAST = 1000  # ORDER of a verb that names none


@dataclass(frozen=True)
class Verb:
    name: str
    summary: str
    order: int
    arguments: Callable[[Parser], None]
    run: Callable[[argparse.Namespace], int]


def verb_names() -> list[str]:
    """The names of the verbs, of which no module is imported."""
    return [info.name.replace("_", "-") for info in pkgutil.iter_modules([str(Path(__file__).parent / "verbs")])]


def find_verbs() -> dict[str, Verb]:
    """Every verb by name, in the order of `klab --help`."""
    verbs = map(find_verb, verb_names())
    return {verb.name: verb for verb in sorted(verbs, key=lambda verb: (verb.order, verb.name))}


def find_verb(name: str) -> Verb:
    """The verb of a name that `verb_names` lists."""
    module_name = name.replace("-", "_")
    module = importlib.import_module(f"kernellab.cli.verbs.{module_name}")
    missing = [name for name in ("SUMMARY", "arguments", "run") if not hasattr(module, name)]
    if missing:
        raise TypeError(f"{module.__name__} is not a verb: it lacks {', '.join(missing)} (see cli/verbs/__init__.py)")
    return Verb(name, module.SUMMARY, getattr(module, "ORDER", _LAST), module.arguments, module.run)
