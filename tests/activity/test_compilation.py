"""The compilation log: everything compiled, tuned or built in a timed region is in it."""

import subprocess
import sys
import time

import pytest
import torch

from kernellab.activity.compilation import CompilationEvent, CompilationLog
from kernellab.build import cpp
from support.klab import klab_env


@pytest.fixture
def log():
    torch._dynamo.reset()
    return CompilationLog.installed()


def events_since(log, mark):
    return [(event.kind, event.name) for event in log.since(mark)]


def test_every_hook_can_be_installed_in_these_versions_of_torch_and_triton():
    code = (
        "from kernellab.activity.compilation import _HOOKS, CompilationLog\n"
        "import importlib, sys\n"
        "log = CompilationLog.installed()\n"
        "assert not {'torch', 'triton'} & set(sys.modules), 'the log imports no compiler'\n"
        "hooked = []\n"
        "for name, hook in _HOOKS.items():\n"
        "    _HOOKS[name] = lambda w, m, hook=hook: (hook(w, m), hooked.append(m.__name__))\n"
        "for name in _HOOKS:\n"
        "    importlib.import_module(name)\n"
        "assert log.unhooked == [], log.unhooked\n"
        "assert sorted(hooked) == sorted(_HOOKS), hooked\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, env=klab_env())


def test_a_module_that_cannot_be_hooked_is_named_and_raises_nothing():
    log = CompilationLog()
    module = type(sys)("triton.runtime.autotuner")
    log._hook(module)
    assert log.unhooked == ["triton.runtime.autotuner: module 'triton.runtime.autotuner' has no attribute 'Autotuner'"]


def test_there_is_one_log_per_process():
    assert CompilationLog.installed() is CompilationLog.installed()


@pytest.mark.clocked
def test_reading_an_unchanged_log_takes_less_than_a_microsecond(log):
    mark, times, seconds = log.mark(), 2_000, []
    for _ in range(20):
        start = time.perf_counter()
        for _ in range(times):
            log.since(log.mark())
        seconds.append((time.perf_counter() - start) / times)
    assert min(seconds) < 1e-6  # the minimum: other load on this machine only adds
    assert log.since(mark) == []


def test_the_first_call_compiles_and_the_second_does_not(log):
    def doubled(x):
        return x * 2 + 1

    compiled = torch.compile(doubled, dynamic=False)
    mark = log.mark()
    compiled(torch.ones(5))
    (event,) = [e for e in log.since(mark) if not e.nested]
    assert (event.kind, event.name, event.recompiled) == ("compile", "doubled", False)
    assert event.seconds > 0.001
    assert log.compile_summary(mark) == {"seconds": event.seconds, "graphs": 1, "recompiles": 0, "graph_breaks": 0}

    mark = log.mark()
    compiled(torch.ones(5))
    assert log.since(mark) == []
    assert log.compile_summary(mark) == {"seconds": 0, "graphs": 0, "recompiles": 0, "graph_breaks": 0}


def test_another_shape_recompiles_and_is_named(log):
    def squared(x):
        return x * x

    compiled = torch.compile(squared, backend="eager", dynamic=False)
    compiled(torch.ones(5))
    mark = log.mark()
    compiled(torch.ones(6))
    assert events_since(log, mark) == [("compile", "squared")]
    assert log.compile_summary(mark)["recompiles"] == 1
    torch._dynamo.reset()  # now no code counts as compiled before
    mark = log.mark()
    compiled(torch.ones(6))
    assert events_since(log, mark) == [("compile", "squared")]
    assert log.compile_summary(mark)["recompiles"] == 0


def test_a_function_that_recompiles_at_every_call_is_logged_every_time(log):
    class Counts:
        steps = 0

    counts = Counts()

    def step(x):
        return x + counts.steps

    compiled = torch.compile(step, backend="eager", dynamic=False)
    with torch._dynamo.config.patch(automatic_dynamic_shapes=False):
        compiled(torch.ones(3))
        for counts.steps in range(1, 4):
            mark = log.mark()
            compiled(torch.ones(3))
            assert events_since(log, mark) == [("compile", "step")]
            assert log.compile_summary(mark)["recompiles"] == 1


def test_graph_breaks_are_counted(log):
    def broken(x):
        y = x + 1
        torch._dynamo.graph_break()
        return y * 2

    mark = log.mark()
    torch.compile(broken, backend="eager")(torch.ones(3))
    summary = log.compile_summary(mark)
    assert (summary["graphs"], summary["graph_breaks"], summary["recompiles"]) == (2, 1, 0)


def test_a_late_backward_and_a_late_cuda_graph_are_logged(log):
    from torch._dynamo.callback import CallbackTrigger

    handler = torch._dynamo.callback_handler
    mark = log.mark()
    with handler.install_callbacks(CallbackTrigger.LAZY_BACKWARD, "0/0"):
        pass
    with handler.install_callbacks(CallbackTrigger.CUDAGRAPH_RECORDING, "0/1"):
        pass
    assert events_since(log, mark) == [("compile", "backward of graph 0/0"), ("compile", "CUDA graph of graph 0/1")]


def test_a_compilation_that_fails_is_logged(log):
    def unable(x):
        torch._dynamo.graph_break()
        return x

    mark = log.mark()
    with pytest.raises(torch._dynamo.exc.Unsupported):
        torch.compile(unable, backend="eager", fullgraph=True)(torch.ones(3))
    assert events_since(log, mark) == [("compile", "unable")]


def test_a_build_of_cpp_is_logged_once(log, tmp_path):
    source = tmp_path / "nothing.cpp"
    source.write_text('extern "C" void nothing() {}\n')
    nothing = cpp.function(source, "nothing")
    mark = log.mark()
    nothing()
    (event,) = log.since(mark)
    assert (event.kind, event.name) == ("build", "nothing.cpp")
    mark = log.mark()
    nothing()
    assert log.since(mark) == []


def test_a_build_of_a_torch_extension_is_logged(log, monkeypatch, tmp_path):
    pytest.importorskip("setuptools")
    from torch.utils import cpp_extension

    monkeypatch.setattr(cpp_extension, "_write_ninja_file_to_build_library", lambda **_: None)
    monkeypatch.setattr(cpp_extension, "_run_ninja_build", lambda *_, **__: None)
    monkeypatch.setattr(cpp_extension, "_import_module_from_library", lambda *_, **__: None)
    monkeypatch.setattr(cpp_extension, "verify_ninja_availability", lambda: None)
    source = tmp_path / "empty.cpp"
    source.write_text("")
    mark = log.mark()
    cpp_extension.load("empty", [str(source)], build_directory=str(tmp_path))
    assert events_since(log, mark) == [("build", "empty")]


def test_triton_is_logged_and_an_earlier_listener_is_still_called(monkeypatch):
    knobs = pytest.importorskip("triton.knobs")
    from kernellab.activity.compilation import _hook_triton

    calls = []
    monkeypatch.setattr(knobs.compilation, "listener", lambda **arguments: calls.append(arguments))
    log = CompilationLog()
    _hook_triton(log, knobs)
    source = type("Source", (), {"name": "kernel"})()
    times = knobs.CompileTimes(ir_initialization=1_000, lowering_stages=[("ttir", 499_000)], store_results=0)
    knobs.compilation.listener(src=source, metadata={}, metadata_group={}, times=times, cache_hit=False)
    assert log.since(0) == [CompilationEvent("triton", "kernel", 0.5)]
    assert calls[0]["src"] is source


def test_an_event_within_another_is_marked_nested():
    log = CompilationLog()
    with log.during("compile", "outer"), log.during("build", "inner"):
        pass
    assert [(event.name, event.nested) for event in log.since(0)] == [("inner", True), ("outer", False)]


def test_configs_of_one_kernel_are_one_event():
    log = CompilationLog()
    for name in ("a", "a", "b", "a"):
        log.add(CompilationEvent("autotune", name, 0.5))
    assert log.since(0) == [CompilationEvent("autotune", "a", 1.5, count=3), CompilationEvent("autotune", "b", 0.5)]
    assert log.since(2) == [CompilationEvent("autotune", "b", 0.5), CompilationEvent("autotune", "a", 0.5)]
