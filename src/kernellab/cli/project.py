"""Defaults that a project sets for options, in `[tool.kernellab]` of its pyproject.toml."""

from __future__ import annotations

import tomllib
from pathlib import Path

from kernellab.base.errors import UserError, nearest

Default = str | int | float

# Setting → the types it may have.
_SETTINGS: dict[str, tuple[type, ...]] = {
    "impl": (str,),
    "dtype": (str,),
    "device": (str,),
    "seed": (int,),
    "timeout": (int, float),
    "runs": (str,),
    "seconds": (int, float),
}


def project_defaults(start: Path | None = None) -> dict[str, Default]:
    """The settings of the nearest pyproject.toml, in the current folder or above it."""
    here = (start or Path.cwd()).resolve()
    file = next((f for folder in (here, *here.parents) if (f := folder / "pyproject.toml").is_file()), None)
    if file is None:
        return {}
    try:
        table = tomllib.loads(file.read_text()).get("tool", {}).get("kernellab", {})
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, OSError) as error:
        raise UserError(f"{file} cannot be read: {error}") from None
    if not isinstance(table, dict):
        raise UserError(f"{file}: [tool.kernellab] is not a table")
    for name, value in table.items():
        if name not in _SETTINGS:
            raise UserError(f"{file}: [tool.kernellab] has no setting {name!r}: {nearest(name, _SETTINGS)}")
        if not isinstance(value, _SETTINGS[name]) or isinstance(value, bool):
            raise UserError(f"{file}: [tool.kernellab] {name} cannot be {value!r}")
    return dict(table)


def project_text(name: str) -> str | None:
    """A default as text, or None."""
    value = project_defaults().get(name)
    return str(value) if value is not None else None
