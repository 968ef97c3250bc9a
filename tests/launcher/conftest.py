"""The launcher with a stand-in for the driver: kernels of CUDA C++ run on the CPU, and their calls are repeated."""

import pytest
import torch

from kernellab.launcher import build
from support.functional_calls import calls, outcome
from support.standin_driver import StandinDriver, build_for, launching, load_extension


def pytest_collection_modifyitems(items):
    if build.why_not_possible():
        for item in items:
            if "tests/launcher" in str(item.path):
                item.add_marker(pytest.mark.skip(reason=build.why_not_possible()))


@pytest.fixture(scope="session")
def extension():
    return load_extension()


@pytest.fixture(scope="session")
def standin(tmp_path_factory):
    return StandinDriver(tmp_path_factory.mktemp("driver"))


@pytest.fixture
def driver(standin, extension):
    """CUDA C++ serves on the CPU, and calls are repeated. Nothing is recorded yet."""
    with launching(standin, extension):
        yield standin


@pytest.fixture
def silent_driver(tmp_path, extension):
    """As `driver`, but kernels compute nothing."""
    with launching(StandinDriver(tmp_path, computes=False), extension) as driver:
        yield driver


@pytest.fixture
def repeated(extension):
    """How many forward and backward passes a function repeats."""

    def count(call):
        before = extension.repeated_passes()
        call()
        return tuple(after - start for after, start in zip(extension.repeated_passes(), before, strict=True))

    return count


@pytest.fixture(scope="session")
def kernels():
    """Builds the kernels of calls of support.functional_calls by their names, or of functions."""
    import kernellab as kl

    def prepare(*wanted):
        def run(name):
            return lambda: outcome(*calls()[name](getattr(kl.functional, name.split()[0])))

        with torch.enable_grad():
            build_for(*(run(each) if isinstance(each, str) else each for each in wanted))

    return prepare
