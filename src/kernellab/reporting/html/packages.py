"""The packages that documents are made with: one that is missing, or cannot be imported, is named in a sentence."""

from __future__ import annotations

import importlib
from collections.abc import Mapping

from kernellab.base.errors import UserError


class MissingPackages(UserError):
    """`problems` says why each package cannot be imported; the text is empty where it is not installed."""

    def __init__(self, problems: Mapping[str, str]) -> None:
        self.needs = " and ".join(
            f"{name}, which cannot be imported ({problem})" if problem else name for name, problem in problems.items()
        )
        broken = any(problems.values())
        self.install = f"pip install {'--force-reinstall ' if broken else ''}{' '.join(problems)}"
        super().__init__(f"a report needs {self.needs}: {self.install}")


def require(*modules: str) -> None:
    """Imports modules of packages. Raises MissingPackages for the packages that cannot be imported."""
    problems: dict[str, str] = {}
    for name in modules:
        problem = _problem(name)
        if problem is not None:
            problems.setdefault(_package(name), problem)
    if problems:
        raise MissingPackages(problems)


def _package(module: str) -> str:
    return module.partition(".")[0]


def _problem(module: str) -> str | None:
    try:
        importlib.import_module(module)
    except ModuleNotFoundError as error:
        return "" if error.name == _package(module) else str(error)
    except Exception as error:  # a package that is damaged, or does not suit another one, may raise anything
        return f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"
    return None
