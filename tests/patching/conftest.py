import pytest

from support.serving import kernels_serve


@pytest.fixture(autouse=True, scope="package")
def _kernels_serve():
    with kernels_serve():
        yield
