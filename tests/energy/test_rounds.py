"""Energies of implementations on a simulated GPU: how often a difference is found, and how often one is called that is
none."""

import pytest

from kernellab.energy.rounds import QUICK_BLOCKS, measure_energy
from kernellab.energy.verdicts import compare_energy, energy_of
from support.power import Load, SimulatedCounter, SimulatedGpu, SimulatedLoad, measured_energies, poller_of

RANDOM, ZEROS = Load(1400, 900), Load(1400, 550)  # of one product, whose power depends on its values


def energies(seed, loads, *, rounds=12, drift=0.0, **counter):
    gpu = SimulatedGpu(seed=seed, drift=drift)
    return measured_energies(gpu, loads, SimulatedCounter(gpu, **counter), rounds=rounds, seed=seed)


@pytest.mark.parametrize(
    "counter",
    [
        {"step_s": 0.1, "noise": 0.01},
        pytest.param({"step_s": 0.02, "noise": 0.03}, marks=pytest.mark.exhaustive),
        pytest.param({"step_s": 0.05, "noise": 0.02, "lag_s": 0.3}, marks=pytest.mark.exhaustive),
        pytest.param({"step_s": 0.1, "noise": 0.01, "lag_s": 1.0}, marks=pytest.mark.exhaustive),
    ],
    ids=["100 ms", "20 ms", "lag", "long lag"],
)
def test_values_that_draw_less_power_are_found_in_20_of_20_and_equal_ones_never_differ(counter):
    for seed in range(20):
        measured = energies(seed, {"a": RANDOM, "b": RANDOM, "zeros": ZEROS}, **counter)
        less = compare_energy(measured["zeros"], measured["a"], "a")
        assert less["verdict"] == "less"
        assert 0.75 < less["median"] < 0.9
        assert compare_energy(measured["a"], measured["zeros"], "zeros")["verdict"] == "more"
        assert compare_energy(measured["a"], measured["b"], "b")["verdict"] in ("same", "not resolved")


def test_a_chip_that_warms_up_affects_all_alike():
    for seed in range(6):
        measured = energies(seed, {"a": Load(1400, 400), "b": Load(1400, 400)}, drift=0.005, step_s=0.05)
        assert measured["a"]["joules"][-1] > 1.02 * measured["a"]["joules"][0]
        assert compare_energy(measured["a"], measured["b"], "b")["verdict"] in ("same", "not resolved")


def test_the_energy_is_that_of_its_own_power_state():
    measured = energies(1, {"hot": RANDOM, "cool": Load(1400, 300)}, rounds=QUICK_BLOCKS, step_s=0.05, noise=0.002)
    hot, cool = (energy_of(measured[name]) for name in ("hot", "cool"))
    assert hot["watts"] == pytest.approx(700, rel=0.02)  # the power limit
    assert hot["clock_mhz"] < 1800 < cool["clock_mhz"] == 1980
    assert hot["us"] > 1500 > cool["us"] == pytest.approx(1400)
    assert hot["median_j"] == pytest.approx(hot["watts"] * hot["us"] / 1e6, rel=0.01)
    assert cool["idle_share"] == pytest.approx(120 / 420, rel=0.05)


def test_every_round_has_one_block_of_each_in_random_order():
    gpu, ran = SimulatedGpu(seed=4), []
    poller = poller_of(gpu, SimulatedCounter(gpu, step_s=0.02))
    names = ["a", "b", "c"]

    def run_load(name, use):
        ran.append(name)
        use(SimulatedLoad(gpu, Load(1000, 300)))

    measured = measure_energy(names, poller, run_load, lambda: None, rounds=8, seed=1)
    rounds = [tuple(ran[at : at + 3]) for at in range(1, len(ran), 3)]  # the first load shows how the counter responds
    assert len(rounds) == 8
    assert all(sorted(order) == names for order in rounds)
    assert len(set(rounds)) > 2
    assert all(len(blocks) == 8 for blocks in measured.blocks.values())
