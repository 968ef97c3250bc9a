"""Nothing is compiled, tuned or built in a timed region unseen."""

import subprocess
import sys
import time

import pytest
import torch

from kernellab.activity.compilation import Event, Watch
from kernellab.build import cpp
from support.klab import klab_env


@pytest.fixture
def watch():
    torch._dynamo.reset()
    return Watch.installed()


def seen(watch, mark):
    return [(event.kind, event.name) for event in watch.since(mark)]


def test_every_hook_finds_its_place_in_these_versions_of_torch_and_triton():
    code = (
        "from kernellab.activity.compilation import _HOOKS, Watch\n"
        "import importlib, sys\n"
        "watch = Watch.installed()\n"
        "assert not {'torch', 'triton'} & set(sys.modules), 'watching imports no compiler'\n"
        "hooked = []\n"
        "for name, hook in _HOOKS.items():\n"
        "    _HOOKS[name] = lambda w, m, hook=hook: (hook(w, m), hooked.append(m.__name__))\n"
        "for name in _HOOKS:\n"
        "    importlib.import_module(name)\n"
        "assert watch.blind == [], watch.blind\n"
        "assert sorted(hooked) == sorted(_HOOKS), hooked\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, env=klab_env())


def test_a_version_that_cannot_be_hooked_is_named_and_goes_on_working():
    watch = Watch()
    stranger = type(sys)("triton.runtime.autotuner")
    watch._hook(stranger)
    assert watch.blind == ["triton.runtime.autotuner: module 'triton.runtime.autotuner' has no attribute 'Autotuner'"]


def test_there_is_one_watch():
    assert Watch.installed() is Watch.installed()


@pytest.mark.clocked
def test_looking_costs_less_than_a_microsecond(watch):
    mark, times, seconds = watch.mark(), 2_000, []
    for _ in range(20):
        start = time.perf_counter()
        for _ in range(times):
            watch.since(watch.mark())
        seconds.append((time.perf_counter() - start) / times)
    assert min(seconds) < 1e-6  # the least: whatever else this machine does comes on top
    assert watch.since(mark) == []


def test_the_first_call_compiles_and_the_second_does_not(watch):
    def doubled(x):
        return x * 2 + 1

    compiled = torch.compile(doubled, dynamic=False)
    mark = watch.mark()
    compiled(torch.ones(5))
    (event,) = [e for e in watch.since(mark) if not e.nested]
    assert (event.kind, event.name, event.recompiled) == ("compile", "doubled", False)
    assert event.seconds > 0.001
    assert watch.compile_summary(mark) == {"seconds": event.seconds, "graphs": 1, "recompiles": 0, "graph_breaks": 0}

    mark = watch.mark()
    compiled(torch.ones(5))
    assert watch.since(mark) == []
    assert watch.compile_summary(mark) == {"seconds": 0, "graphs": 0, "recompiles": 0, "graph_breaks": 0}


def test_another_shape_recompiles_and_is_named(watch):
    def squared(x):
        return x * x

    compiled = torch.compile(squared, backend="eager", dynamic=False)
    compiled(torch.ones(5))
    mark = watch.mark()
    compiled(torch.ones(6))
    assert seen(watch, mark) == [("compile", "squared")]
    assert watch.compile_summary(mark)["recompiles"] == 1
    torch._dynamo.reset()  # forgets all it compiled: what follows is not a recompilation, and still seen
    mark = watch.mark()
    compiled(torch.ones(6))
    assert seen(watch, mark) == [("compile", "squared")]
    assert watch.compile_summary(mark)["recompiles"] == 0


def test_a_function_that_recompiles_at_every_call_is_seen_every_time(watch):
    class Counts:
        steps = 0

    counts = Counts()

    def step(x):
        return x + counts.steps

    compiled = torch.compile(step, backend="eager", dynamic=False)
    with torch._dynamo.config.patch(automatic_dynamic_shapes=False):
        compiled(torch.ones(3))
        for counts.steps in range(1, 4):
            mark = watch.mark()
            compiled(torch.ones(3))
            assert seen(watch, mark) == [("compile", "step")]
            assert watch.compile_summary(mark)["recompiles"] == 1


def test_graph_breaks_are_counted(watch):
    def broken(x):
        y = x + 1
        torch._dynamo.graph_break()
        return y * 2

    mark = watch.mark()
    torch.compile(broken, backend="eager")(torch.ones(3))
    summary = watch.compile_summary(mark)
    assert (summary["graphs"], summary["graph_breaks"], summary["recompiles"]) == (2, 1, 0)


def test_what_compiles_after_the_first_call_is_seen(watch):
    from torch._dynamo.callback import CallbackTrigger

    handler = torch._dynamo.callback_handler
    mark = watch.mark()
    with handler.install_callbacks(CallbackTrigger.LAZY_BACKWARD, "0/0"):
        pass
    with handler.install_callbacks(CallbackTrigger.CUDAGRAPH_RECORDING, "0/1"):
        pass
    assert seen(watch, mark) == [("compile", "backward of graph 0/0"), ("compile", "CUDA graph of graph 0/1")]


def test_code_that_cannot_be_compiled_is_seen_too(watch):
    def unable(x):
        torch._dynamo.graph_break()
        return x

    mark = watch.mark()
    with pytest.raises(torch._dynamo.exc.Unsupported):
        torch.compile(unable, backend="eager", fullgraph=True)(torch.ones(3))
    assert seen(watch, mark) == [("compile", "unable")]


def test_builds_of_c_plus_plus_are_seen_once(watch, tmp_path):
    source = tmp_path / "nothing.cpp"
    source.write_text('extern "C" void nothing() {}\n')
    nothing = cpp.function(source, "nothing")
    mark = watch.mark()
    nothing()
    (event,) = watch.since(mark)
    assert (event.kind, event.name) == ("build", "nothing.cpp")
    mark = watch.mark()
    nothing()
    assert watch.since(mark) == []


def test_extensions_of_torch_are_seen(watch, monkeypatch, tmp_path):
    pytest.importorskip("setuptools")
    from torch.utils import cpp_extension

    monkeypatch.setattr(cpp_extension, "_write_ninja_file_to_build_library", lambda **_: None)
    monkeypatch.setattr(cpp_extension, "_run_ninja_build", lambda *_, **__: None)
    monkeypatch.setattr(cpp_extension, "_import_module_from_library", lambda *_, **__: None)
    monkeypatch.setattr(cpp_extension, "verify_ninja_availability", lambda: None)
    source = tmp_path / "empty.cpp"
    source.write_text("")
    mark = watch.mark()
    cpp_extension.load("empty", [str(source)], build_directory=str(tmp_path))
    assert seen(watch, mark) == [("build", "empty")]


def test_triton_is_seen_and_a_listener_that_was_there_still_hears(monkeypatch):
    knobs = pytest.importorskip("triton.knobs")
    from kernellab.activity.compilation import _hook_triton

    heard = []
    monkeypatch.setattr(knobs.compilation, "listener", lambda **what: heard.append(what))
    watch = Watch()
    _hook_triton(watch, knobs)
    source = type("Source", (), {"name": "kernel"})()
    times = knobs.CompileTimes(ir_initialization=1_000, lowering_stages=[("ttir", 499_000)], store_results=0)
    knobs.compilation.listener(src=source, metadata={}, metadata_group={}, times=times, cache_hit=False)
    assert watch.since(0) == [Event("triton", "kernel", 0.5)]
    assert heard[0]["src"] is source


def test_what_lies_within_another_event_says_so():
    watch = Watch()
    with watch._during("compile", "outer"), watch._during("build", "inner"):
        pass
    assert [(event.name, event.nested) for event in watch.since(0)] == [("inner", True), ("outer", False)]


def test_configs_of_one_kernel_are_one_event():
    watch = Watch()
    for name in ("a", "a", "b", "a"):
        watch._add(Event("autotune", name, 0.5))
    assert watch.since(0) == [Event("autotune", "a", 1.5, count=3), Event("autotune", "b", 0.5)]
    assert watch.since(2) == [Event("autotune", "b", 0.5), Event("autotune", "a", 0.5)]
