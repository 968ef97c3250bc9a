"""The trials of implementations of kind compile."""

import kernellab as kl
from kernellab.trials.battery import battery, impl_batteries
from kernellab.trials.selection import COMPILE_TRIALS, pair_with_impls, select_varied


def test_ten_trials_of_many_kinds_are_selected_for_compile():
    selected = select_varied(battery(kl.ops.gelu, "cpu"), COMPILE_TRIALS)
    assert len(selected) == 10
    assert len({trial.kind for trial in selected}) >= 6


def test_implementations_are_paired_trial_by_trial_and_compile_gets_its_ten():
    impls = [kl.ops.gelu["torch"], kl.ops.gelu["compile"]]
    trials = impl_batteries(kl.ops.gelu, impls, "cpu", quick=True)
    pairs = list(pair_with_impls(trials, impls))
    assert [number for number, _, impl in pairs if impl.name == "torch"] == list(range(len(trials["torch"])))
    assert sum(impl.name == "compile" for _, _, impl in pairs) == 10
    assert [number for number, _, _ in pairs] == sorted(number for number, _, _ in pairs)
