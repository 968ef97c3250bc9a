"""Recording and pinning the choices of Triton's own autotuner. Only launching and benchmarking are replaced."""

import json

import pytest
import torch

from kernellab.activity import autotuning as tuning
from kernellab.activity.compilation import CompilationLog
from kernellab.base.errors import UserError

triton = pytest.importorskip("triton")
tl = pytest.importorskip("triton.language")

CONFIGS = [
    triton.Config({"BLOCK": 64}, num_warps=2),
    triton.Config({"BLOCK": 128}, num_warps=4, num_stages=2),
    triton.Config({"BLOCK": 256}, num_warps=8, maxnreg=64),
]
CHOSEN = {"BLOCK": 128, "num_warps": 4, "num_stages": 2, "num_ctas": 1}


class Bench:
    """Makes one config the fastest: BLOCK=128 unless a test changes it."""

    def __init__(self, kernel):
        self.kernel, self.fastest, self.calls = kernel, 128, 0

    def __call__(self, call, quantiles):
        self.calls += 1
        call()
        return [1.0 if self.kernel.launched[-1]["BLOCK"] == self.fastest else 2.0] * 3


def declare(configs=CONFIGS):
    @triton.jit
    def scale(x, n, BLOCK: tl.constexpr):
        pass

    scale.launched = []
    scale.run = lambda *args, **meta: scale.launched.append(meta)
    bench = Bench(scale)
    return triton.autotune(configs=configs, key=["n"], do_bench=bench)(scale), bench


def launch(tuned, n=1000):
    tuned[(1,)](torch.ones(4), n)
    return tuned.fn.launched[-1]


@pytest.fixture(autouse=True)
def _unpin_afterwards():
    yield
    tuning.pin([])


def test_the_choice_is_recorded():
    tuned, _ = declare()
    with tuning.record_choices() as choices:
        launch(tuned)
        launch(tuned)
    (choice,) = choices
    assert choice.pop("seconds") > 0
    assert choice == {
        "kernel": "scale",
        "file": "test_autotuning.py",
        "by": "triton",
        "key": [1000, "torch.float32"],
        "config": CHOSEN,
        "configs": 3,
        "tried": 3,
    }


def test_each_key_has_its_own_choice_and_only_kernels_that_run_are_recorded():
    tuned, bench = declare()
    other, _ = declare()
    launch(other)
    with tuning.record_choices() as choices:
        launch(tuned, 10)
        bench.fastest = 256
        launch(tuned, 20)
    assert [(c["key"][0], c["config"]["BLOCK"]) for c in choices] == [(10, 128), (20, 256)]
    assert choices[1]["config"] == {"BLOCK": 256, "num_warps": 8, "num_stages": 3, "num_ctas": 1, "maxnreg": 64}


def test_a_kernel_tuned_before_is_recorded_without_trials():
    tuned, bench = declare()
    launch(tuned)
    with tuning.record_choices() as choices:
        launch(tuned)
    assert bench.calls == 3
    assert (choices[0]["config"], choices[0]["tried"], choices[0]["seconds"]) == (CHOSEN, 0, 0)


def test_a_single_config_is_not_a_choice():
    tuned, _ = declare(CONFIGS[:1])
    with tuning.record_choices() as choices:
        launch(tuned)
    assert choices == []


def test_recording_restores_the_autotuner():
    tuned, _ = declare()
    run = type(tuned).run
    with tuning.record_choices():
        launch(tuned)
    assert type(tuned).run is run
    assert type(tuned.cache) is dict
    assert len(tuned.cache) == 1


def test_the_autotuner_is_restored_if_a_kernel_fails():
    tuned, _ = declare()

    def fail(*_, **__):
        raise RuntimeError("no launch")

    tuned.fn.run = fail
    with tuning.record_choices() as choices, pytest.raises(RuntimeError, match="no launch"):
        launch(tuned)
    assert choices == []
    assert type(tuned.cache) is dict


def record_another(fastest=256, n=1000):
    tuned, bench = declare()
    bench.fastest = fastest
    with tuning.record_choices() as choices:
        launch(tuned, n)
    return json.loads(json.dumps(choices))


@pytest.mark.parametrize("when", ["declared before", "declared after", "tuned before"])
def test_a_pinned_config_is_used_and_nothing_is_benchmarked(when):
    choices = record_another(fastest=256)
    if when == "declared after":
        tuning.pin(choices)
    tuned, bench = declare()
    if when == "tuned before":
        assert launch(tuned)["BLOCK"] == 128
    if when != "declared after":
        tuning.pin(choices)
    bench.calls, mark = 0, CompilationLog.installed().mark()
    assert launch(tuned)["BLOCK"] == 256
    assert launch(tuned)["maxnreg"] == 64
    assert bench.calls == 0
    assert CompilationLog.installed().since(mark) == []
    with tuning.record_choices() as again:
        launch(tuned)
    assert again == [{**choices[0], "tried": 0, "seconds": 0}]


def test_another_key_is_still_tuned():
    tuning.pin(record_another(fastest=256, n=1000))
    tuned, bench = declare()
    assert launch(tuned, 2000)["BLOCK"] == 128
    assert bench.calls == 3


def test_pinning_nothing_unpins():
    tuning.pin(record_another(fastest=256))
    tuned, _ = declare()
    tuning.pin([])
    assert launch(tuned)["BLOCK"] == 128
    later, _ = declare()
    assert type(later.cache) is dict
    assert launch(later)["BLOCK"] == 128


@pytest.mark.parametrize("tuned_before", [True, False])
def test_a_config_the_kernel_does_not_have_is_refused(tuned_before):
    choices = record_another()
    choices[0]["config"]["BLOCK"] = 512
    tuned, _ = declare()
    message = (
        "pinned for kernel scale, BLOCK=512 num_warps=8.*not one of its configs: BLOCK=64 num_warps=2.*; BLOCK=128"
    )
    if tuned_before:
        launch(tuned)
        with pytest.raises(UserError, match=message):
            tuning.pin(choices)
    else:
        tuning.pin(choices)
        with pytest.raises(UserError, match=message):
            launch(tuned)


def test_trying_configs_is_logged():
    tuned, _ = declare()
    log = CompilationLog.installed()
    mark = log.mark()
    launch(tuned)
    (event,) = log.since(mark)
    assert (event.kind, event.name, event.count) == ("autotune", "scale", 3)
    mark = log.mark()
    launch(tuned)
    assert log.since(mark) == []


def test_the_choice_of_inductor_is_read_from_its_launcher():
    heuristics = pytest.importorskip("torch._inductor.runtime.triton_heuristics")

    class Launched(heuristics.CachingAutotuner):
        filename = "/tmp/abc.py"

        def __init__(self):
            self.fn = type("Fn", (), {"__name__": "triton_poi_fused_add_0"})()
            launcher = lambda *args, **kwargs: None  # noqa: E731
            launcher.config = triton.Config({"XBLOCK": 512}, num_warps=4, num_stages=1)
            self.launchers = [launcher]

    run = heuristics.CachingAutotuner.run
    heuristics.CachingAutotuner.run = lambda self, *args, **kwargs: None
    try:
        choices = []
        with tuning._recording_inductor(choices.append):
            Launched().run(stream=0)
    finally:
        heuristics.CachingAutotuner.run = run
    assert choices == [
        {
            "kernel": "triton_poi_fused_add_0",
            "file": "abc.py",
            "by": "inductor",
            "key": [],
            "config": {"XBLOCK": 512, "num_warps": 4, "num_stages": 1, "num_ctas": 1},
            "configs": None,
            "tried": 0,
            "seconds": 0,
        }
    ]
    tuning.pin(choices)  # inductor stores its own choices: nothing is pinned or refused
