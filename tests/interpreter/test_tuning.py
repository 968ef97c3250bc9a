"""Autotuned kernels in the interpreter."""

from types import SimpleNamespace

import pytest

from kernellab.interpreter.fault import StaticAssertFailed
from kernellab.interpreter.notes import take_notes
from kernellab.interpreter.tuning import run_without_timing


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
            raise RuntimeError from StaticAssertFailed("refused")
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
    run_without_timing(Tuner)


@pytest.mark.parametrize("tuner_class", [Tuner, DerivedTuner])
def test_sizes_choose_the_configuration_and_equal_calls_the_same(tuner_class):
    tuner = tuner_class([Config(1), Config(2), Config(3)])
    chosen = {n: tuner.run(None, n, grid=(1,)) for n in range(30)}
    assert set(chosen.values()) == {1, 2, 3}
    assert all(tuner.run(None, n, grid=(1,)) == size for n, size in chosen.items())
    assert tuner.nargs is None


def test_a_note_says_that_one_configuration_ran():
    take_notes()
    Tuner([Config(1)]).run(None, 1, grid=(1,))
    assert take_notes() == []
    for n in range(2):
        Tuner([Config(1), Config(2)]).run(None, n, grid=(1,))
    (note,) = take_notes()
    assert note.startswith("launched is autotuned, which needs a GPU: each call ran one of its 2 configurations")


def test_a_configuration_that_refuses_is_skipped_unless_all_do():
    tuner = Tuner([Config(1), Config(2)], refused={1})
    assert {tuner.run(None, n, grid=(1,)) for n in range(10)} == {2}
    with pytest.raises(RuntimeError):
        Tuner([Config(1), Config(2)], refused={1, 2}).run(None, 1, grid=(1,))


def test_tensors_are_reset_where_tuning_would_and_hooks_of_configurations_run():
    hooked = []
    tuner = Tuner([Config(1, hooked.append), Config(2, hooked.append)])
    for n in (5, 5, 6):
        tuner.run(None, n, grid=(1,))
    assert tuner.resets == [5, 6]
    assert [call["n"] for call in hooked] == [5, 5, 6]
