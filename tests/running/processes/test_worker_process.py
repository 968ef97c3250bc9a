"""The environment that a worker is started with."""

from kernellab.base.paths import cache_dir
from kernellab.running.processes.startup import environment


def test_if_bytecode_must_not_be_written_beside_the_sources_workers_write_it_to_the_cache(monkeypatch):
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    monkeypatch.delenv("PYTHONPYCACHEPREFIX", raising=False)
    env = environment()
    assert "PYTHONDONTWRITEBYTECODE" not in env
    assert env["PYTHONPYCACHEPREFIX"] == str(cache_dir("bytecode"))


def test_otherwise_bytecode_stays_where_python_puts_it(monkeypatch):
    monkeypatch.delenv("PYTHONDONTWRITEBYTECODE", raising=False)
    monkeypatch.delenv("PYTHONPYCACHEPREFIX", raising=False)
    assert "PYTHONPYCACHEPREFIX" not in environment()
