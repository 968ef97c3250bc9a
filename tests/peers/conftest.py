"""Peer libraries for tests: stand-ins with the real names and parameters, which compute with PyTorch."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

LIBRARIES = Path(__file__).parent / "libraries"


@pytest.fixture
def stand_ins(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Importing a peer library gives its stand-in, also where the library itself is installed."""
    installed = _take_libraries()
    monkeypatch.syspath_prepend(LIBRARIES)
    yield
    _take_libraries()
    sys.modules.update(installed)


def _take_libraries() -> dict[str, ModuleType]:
    """Remove the modules of peer libraries from those that are imported."""
    names = [name for name in sys.modules if name.partition(".")[0] in ("liger_kernel", "flag_gems", "quack")]
    return {name: sys.modules.pop(name) for name in names}
