"""What pytest calls: options, the marker `klab_gpu`, the fixture `klab`, and the table of times after the tests."""

from __future__ import annotations

import shutil
from collections.abc import Generator, Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from kernellab.running.processes.worker_template import WorkerTemplate
    from kernellab.testing.fixture import Klab
    from kernellab.testing.times import TimeRow

_ROWS: pytest.StashKey[list[TimeRow]] = pytest.StashKey()
_ATTRIBUTE = "kernellab_times"  # of a test's report, which pytest-xdist sends from its workers as JSON


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("kernellab")
    group.addoption("--klab-device", metavar="DEV", help="cpu, cuda or cuda:1 (default: the GPU if there is one)")
    group.addoption(
        "--klab-save", metavar="DIR", help="keep the record of every measurement here, to compare with later"
    )
    group.addoption(
        "--klab-baseline", metavar="DIR", help="records that --klab-save kept: klab.assert_not_slower compares"
    )


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "klab_gpu: needs an NVIDIA GPU; skipped where there is none")
    config.pluginmanager.register(_Summary(), "kernellab-summary")


def pytest_runtest_setup(item: pytest.Item) -> None:
    if item.get_closest_marker("klab_gpu"):
        from kernellab.machine.tools import has_gpu

        if not has_gpu():
            pytest.skip("needs an NVIDIA GPU: there is none here")


@pytest.fixture(scope="session")
def _klab_template() -> Iterator[WorkerTemplate]:
    """The process that the workers of all tests are forked from: only one of them imports torch."""
    from kernellab.running.processes.worker_template import WorkerTemplate

    template = WorkerTemplate()
    yield template
    template.close()


@pytest.fixture
def klab(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, _klab_template: WorkerTemplate
) -> Klab:
    """Checks ops, `klab.check("gelu")`, and compares times, `klab.assert_not_slower("gelu", "cpp", than="torch")`."""
    from kernellab.testing.fixture import Klab

    rows = request.node.stash.setdefault(_ROWS, [])
    return Klab(request, tmp_path_factory, _klab_template, rows)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.when == "teardown" and item.stash.get(_ROWS, None):
        setattr(report, _ATTRIBUTE, item.stash[_ROWS])
    return report


class _Summary:
    """Collects the times of all tests, those of other processes too, and shows them at the end."""

    def __init__(self) -> None:
        self._rows: list[tuple[str, TimeRow]] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._rows += [(report.nodeid, row) for row in getattr(report, _ATTRIBUTE, [])]

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if not self._rows:
            return
        from kernellab.testing.times import lines

        terminalreporter.section("times by kernellab")
        width = shutil.get_terminal_size().columns if terminalreporter.isatty else None  # a log gets everything
        for line in lines(self._rows, width):
            terminalreporter.write_line(line)
