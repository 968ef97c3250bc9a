"""Blocks on a simulated GPU: between two steps of the counter the energy of a call is exact."""

import pytest

from kernellab.energy.blocks import Plan, Progress, measure_response, run_block
from kernellab.energy.counters import EnergyUnknown
from support.power import IDLE_W, Load, SimulatedCounter, SimulatedGpu, SimulatedLoad, poller_of

WORK = Load(1000, 300)  # stays below the power limit: 420 W, 0.42 J a call


def block_of(plan=Plan(), *, load=WORK, poll_s=0.001, observe=lambda: None, **counter):  # noqa: B008 — never changed
    gpu = SimulatedGpu(seed=3)
    poller = poller_of(gpu, SimulatedCounter(gpu, **counter), poll_s)
    response = measure_response(poller, SimulatedLoad(gpu, load))
    return run_block(poller, SimulatedLoad(gpu, load), plan, response, observe)


@pytest.mark.parametrize("step_s", [0.02, 0.05, 0.1])
def test_the_energy_of_a_call_does_not_depend_on_the_steps(step_s):
    block = block_of(step_s=step_s, noise=0.0)
    assert block.joules == pytest.approx(0.42, rel=block.resolution)
    assert block.us == pytest.approx(1000)
    assert block.watts == pytest.approx(420, rel=block.resolution)
    assert block.resolution <= 0.005
    assert 0.3 <= block.seconds <= 0.3 + 2 * step_s


def test_a_block_lasts_until_the_steps_determine_it():
    coarse = block_of(Plan(resolution=0.002), step_s=0.1, noise=0.0, poll_s=0.002)
    assert coarse.resolution <= 0.002
    assert coarse.seconds == pytest.approx(1.0)  # each end is known to 1 ms


def test_a_counter_that_is_too_coarse_is_refused():
    with pytest.raises(EnergyUnknown, match="too coarse to measure the energy of 1 s"):
        block_of(Plan(most_s=1.0, resolution=1e-4), step_s=0.1, noise=0.0)


def test_a_counter_that_stands_still_is_refused():
    gpu = SimulatedGpu()
    counter = SimulatedCounter(gpu)
    counter.joules = lambda: 5.0
    with pytest.raises(EnergyUnknown, match="did not move within 2 s"):
        measure_response(poller_of(gpu, counter), SimulatedLoad(gpu, WORK))


def test_the_clock_is_observed_in_the_block():
    assert block_of(observe=lambda: 1530.0, noise=0.0).clock_mhz == 1530.0
    assert block_of(observe=lambda: None, noise=0.0).clock_mhz is None


@pytest.mark.parametrize("lag_s", [0.0, 0.3, 1.0])
def test_how_the_counter_follows_is_measured(lag_s):
    gpu = SimulatedGpu(seed=1)
    counter = SimulatedCounter(gpu, step_s=0.05, noise=0.01, lag_s=lag_s)
    response = measure_response(poller_of(gpu, counter), SimulatedLoad(gpu, WORK))
    assert response.step_s == pytest.approx(0.05, rel=0.05)
    assert response.idle_w == pytest.approx(IDLE_W, rel=0.03)
    # A filter of first order is within 5 % of 420 W, from 120 W, after ln(0.71 / 0.05) = 2.7 time constants.
    assert 1.5 * 2.3 * lag_s <= response.lead_s <= 1.5 * 3.1 * lag_s + 0.3


def test_a_block_after_another_load_does_not_see_it():
    gpu = SimulatedGpu(seed=2)
    counter = SimulatedCounter(gpu, step_s=0.05, noise=0.0, lag_s=0.5)
    poller = poller_of(gpu, counter)
    response = measure_response(poller, SimulatedLoad(gpu, WORK))
    plan = Plan()
    for load, joules in ((Load(1000, 50), 0.17), (WORK, 0.42), (Load(1000, 50), 0.17)):
        block = run_block(poller, SimulatedLoad(gpu, load), plan, response, lambda: None)
        assert block.joules == pytest.approx(joules, rel=0.02)


def test_a_step_is_no_older_than_the_time_between_two():
    gpu = SimulatedGpu()
    poller = poller_of(gpu, SimulatedCounter(gpu, step_s=0.001, noise=0.0))
    poller.step_s = 0.001
    poller.poll()
    gpu.run(WORK, 200_000)  # one long call, in which nobody polls
    step = poller.poll()
    assert step.uncertain_s == 0.0005
    assert gpu.now - step.time == pytest.approx(0.0005)


def test_calls_between_two_moments():
    progress = Progress([0.0, 1.0, 3.0], [0.0, 10.0, 20.0])
    assert [progress.at(t) for t in (0.0, 0.5, 1.0, 2.0, 3.0)] == [0.0, 5.0, 10.0, 15.0, 20.0]
    assert progress.at(4.0) == 25.0  # calls go on as they did
