"""A fixture: the op whose launches are captured."""

import pytest

from support.captured_op import captured_op


@pytest.fixture(scope="session")
def double():
    return captured_op()
