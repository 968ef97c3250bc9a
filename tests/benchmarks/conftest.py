"""What scripts and files of candidates add to shipped ops is taken back after each test."""

from collections.abc import Iterator

import pytest

import kernellab as kl
from kernellab.declaration.targets import shipped_names


@pytest.fixture(autouse=True)
def _shipped_ops_stay_as_they_are() -> Iterator[None]:
    ops = [getattr(kl.ops, name) for name in shipped_names()]
    before = [(op, dict(op.impls), op.extension) for op in ops]
    yield
    for op, impls, extension in before:
        op.impls, op.extension = impls, extension
