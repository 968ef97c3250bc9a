"""Autotuned kernels without tuning."""

from types import SimpleNamespace

import pytest

from kernellab.activity.untuned import begin_trial, run_without_tuning, take_untuned, without_tuning


class Config:
    def __init__(self, size, pre_hook=None):
        self.size, self.pre_hook = size, pre_hook

    def all_kwargs(self):
        return {"SIZE": self.size}


class Tuner:
    """What is used of Triton's autotuner."""

    keys = ("n",)
    arg_names = ("x", "n", "SIZE")

    def __init__(self, configs, refused=()):
        self.configs, self.refused, self.resets = configs, refused, []
        self.fn = SimpleNamespace(run=self.launch)
        self.base_fn = launched

    def launch(self, x, n, *, grid, SIZE):
        if SIZE in self.refused:
            raise MemoryError("refused")
        if n < 0:
            raise ValueError("a fault of its own")
        return SIZE

    def prune_configs(self, kwargs):
        return self.configs

    def pre_hook(self, call, reset_only=False):
        self.resets.append(call["n"])

    def run(self, *args, **kwargs):
        raise AssertionError("times every configuration")


def launched():
    pass


class DerivedTuner(Tuner):
    def run(self, *args, **kwargs):
        raise AssertionError("times every configuration, in its own way")


@pytest.fixture(autouse=True, scope="module")
def _without_timing():
    run_without_tuning(Tuner, lambda error: isinstance(error, MemoryError))


@pytest.mark.parametrize("tuner_class", [Tuner, DerivedTuner])
def test_sizes_choose_the_configuration_and_equal_calls_the_same(tuner_class):
    tuner = tuner_class([Config(1), Config(2), Config(3)])
    chosen = {n: tuner.run(None, n, grid=(1,)) for n in range(30)}
    assert set(chosen.values()) == {1, 2, 3}
    assert all(tuner.run(None, n, grid=(1,)) == size for n, size in chosen.items())
    assert tuner.nargs is None


def test_the_configuration_that_ran_is_named_where_there_are_several():
    begin_trial("")
    Tuner([Config(1)]).run(None, 1, grid=(1,))
    assert take_untuned() == []
    for n in range(2):
        size = Tuner([Config(1), Config(2)]).run(None, n, grid=(1,))
    (run,) = take_untuned()
    assert (run.kernel, run.config, run.configs) == ("launched", f"SIZE={size}", 2)
    assert run.note.startswith("launched is autotuned: each trial ran one of its 2 configurations")


def test_trials_at_one_size_run_several_configurations():
    chosen = set()
    for trial in range(30):
        begin_trial(f"trial {trial}")
        tuner = Tuner([Config(1), Config(2), Config(3)])
        sizes = {tuner.run(None, 5, grid=(1,)) for _ in range(2)}
        assert len(sizes) == 1
        chosen |= sizes
    assert chosen == {1, 2, 3}


def test_other_errors_are_not_taken_for_a_refusal():
    with pytest.raises(ValueError, match="of its own"):
        Tuner([Config(1), Config(2)]).run(None, -1, grid=(1,))


def test_on_a_gpu_tuning_is_left_out_for_a_while():
    autotuner = pytest.importorskip("triton.runtime.autotuner").Autotuner
    before = autotuner.run
    with without_tuning():
        assert autotuner.run is not before
    assert autotuner.run is before


def test_a_configuration_that_refuses_is_skipped_unless_all_do():
    tuner = Tuner([Config(1), Config(2)], refused={1})
    assert {tuner.run(None, n, grid=(1,)) for n in range(10)} == {2}
    with pytest.raises(MemoryError):
        Tuner([Config(1), Config(2)], refused={1, 2}).run(None, 1, grid=(1,))


def test_tensors_are_reset_where_tuning_would_and_hooks_of_configurations_run():
    hooked = []
    tuner = Tuner([Config(1, hooked.append), Config(2, hooked.append)])
    for n in (5, 5, 6):
        tuner.run(None, n, grid=(1,))
    assert tuner.resets == [5, 6]
    assert [call["n"] for call in hooked] == [5, 5, 6]
