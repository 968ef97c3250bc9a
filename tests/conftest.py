"""Shared by all tests: their own cache, and `klab` in a separate process, as a user runs it."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import pytest

from kernellab.base.paths import cache_dir, file_name
from kernellab.machine.environment import device_identity, environment
from support.klab import CommandResult, run_klab


@pytest.fixture(scope="session", autouse=True)
def _own_cache(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> None:
    """A cache for this session, with invented ceilings: measuring takes seconds, and doubtful results are not kept.

    What compilers built, which takes minutes, is shared: files there are named by their contents. Processes of one
    session share kernels, which each session builds with the toolkit that it has; sessions share C++.
    """
    cache = tmp_path_factory.mktemp("cache")
    os.environ["KERNELLAB_CACHE"] = str(cache)
    of_sessions = ("cpp", "launcher") if hasattr(request.config, "cache") else ()  # not with -p no:cacheprovider
    for folder in of_sessions:
        (cache / folder).symlink_to(request.config.cache.mkdir(f"kernellab-{folder}"))
    if hasattr(request.config, "workerinput"):
        for folder in {"nvrtc", "launcher"} - set(of_sessions):
            shared = tmp_path_factory.getbasetemp().parent / f"shared-{folder}"
            shared.mkdir(exist_ok=True)
            (cache / folder).symlink_to(shared)
    ceilings = {"copy_gbps": 10.0, "matmul_tflops": {"float32": 0.1}, "measured_at": "2026-01-01T00:00:00"}
    name = file_name(device_identity(environment(), "cpu"))
    (cache_dir("ceilings") / f"{name}.json").write_text(json.dumps({**ceilings, "threads": 1, "doubts": []}))


@pytest.fixture(scope="session", autouse=True)
def _interruptible() -> None:
    """A shell starts a command in the background with SIGINT ignored, and children inherit that."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture
def no_profiler_overhead(monkeypatch: pytest.MonkeyPatch) -> None:
    """Assume a profiler without overhead: recorded times are the program's own."""
    from kernellab.traceview import profiler_overhead

    monkeypatch.setattr(profiler_overhead, "_SLOWDOWN", (1.0, 1.0, 1.0))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if any(item.get_closest_marker("gpu") for item in items):
        import torch

        if not torch.cuda.is_available():
            for item in items:
                if item.get_closest_marker("gpu"):
                    item.add_marker(pytest.mark.skip(reason="needs an NVIDIA GPU"))


@pytest.fixture
def klab(tmp_path: Path):
    """Run klab in an empty folder and return its exit code and output."""

    def run(*args: str | Path, timeout: float = 300, cwd: Path | None = None, **env: str) -> CommandResult:
        return run_klab(*args, timeout=timeout, cwd=cwd or tmp_path, **env)

    return run
