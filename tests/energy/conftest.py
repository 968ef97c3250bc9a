"""A fake NVML."""

import sys

import pytest

from support.nvml import FakeNvml


@pytest.fixture
def nvml(monkeypatch):
    fake = FakeNvml()
    monkeypatch.setitem(sys.modules, "pynvml", fake)
    return fake
