"""The environment of processes that execute op files."""

import pytest

from kernellab.running.processes.startup import environment

THREADS_OF = """
import os
import kernellab as kl

@kl.op(cases=kl.cases(shape=[(4, 8)], dtype=["float32"]))
def double(x):
    return 2 * x

@double.impl("asks")
def _(x):
    raise RuntimeError(f"waiting threads are {os.environ.get('OMP_WAIT_POLICY', 'as usual')}")
"""


@pytest.mark.parametrize(("verb", "policy"), [("check", "passive"), ("bench", "as usual")])
def test_threads_that_wait_sleep_unless_something_is_timed(klab, tmp_path, monkeypatch, verb, policy):
    """Where the machine is shared, spinning threads take the cores from those that compute."""
    monkeypatch.delenv("OMP_WAIT_POLICY", raising=False)
    file = tmp_path / "double.py"
    file.write_text(THREADS_OF)
    seen = klab(verb, file, "--impl", "asks", "--quick", "--device", "cpu", "--json")
    assert f"waiting threads are {policy}" in seen.record["results"][0]["derived"]["reason"]


def test_how_threads_wait_is_the_users_choice(monkeypatch):
    monkeypatch.setenv("OMP_WAIT_POLICY", "active")
    assert environment(times=False)["OMP_WAIT_POLICY"] == "active"
