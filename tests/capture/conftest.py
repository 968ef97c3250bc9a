"""An op with every manner of launching. It is loaded once: twice would register its custom operators twice."""

import pytest

from kernellab.declaration.targets import load, resolve
from support.klab import OPFILES


@pytest.fixture(scope="session")
def double():
    return load(resolve(str(OPFILES / "captured.py")))["double"]
