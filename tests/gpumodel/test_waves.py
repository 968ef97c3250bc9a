"""How grids fill GPUs: both counts, which of them governs the time, and the cost of a tail."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernellab.base.errors import UserError
from kernellab.gpumodel.occupancy import occupancy
from kernellab.gpumodel.waves import BOUNDS, Tiling, sweep, waves
from kernellab.machine.chips import chip

AMPERE = chip("sm_80")
FOUR_PER_SM = occupancy(AMPERE, 256, 64)
ONE_PER_SM = occupancy(AMPERE, 1024, 64)


def on_a100(blocks, occupancy=FOUR_PER_SM, **options):
    return waves(blocks, 108, occupancy, AMPERE, **options)


def test_120_blocks_on_an_a100_are_two_rounds_with_a_tail_of_12():
    grid = on_a100(120)
    assert (grid.rounds, grid.tail_blocks) == (2, 12)
    assert grid.resident_waves == pytest.approx(120 / 432)
    assert grid.governs == "SM balance"
    assert grid.efficiency == pytest.approx(120 / 216)
    assert (grid.nearest_multiple, grid.four_per_sm) == (108, 432)


@pytest.mark.parametrize("rounds", [1, 2, 3, 4, 5, 8])
def test_a_multiple_of_the_sms_has_no_tail_and_one_block_more_begins_a_round(rounds):
    full = on_a100(108 * rounds)
    assert (full.tail_blocks, full.efficiency) == (0, 1)
    assert on_a100(108 * rounds + 1).efficiency == pytest.approx((rounds + 1 / 108) / (rounds + 1))


def test_from_four_blocks_per_sm_on_a_tail_costs_a_fifth_at_most():
    assert min(w.efficiency for w in sweep(range(432, 3000), 108, FOUR_PER_SM, AMPERE)) >= 0.8


def test_blocks_bound_by_latency_are_counted_by_residency():
    """All that fit take as long as one: the 433rd block begins a second wave."""
    assert on_a100(432, bound="latency").efficiency == 1
    assert on_a100(108, bound="latency").efficiency == pytest.approx(0.25)
    second = on_a100(433, bound="latency")
    assert second.governs == "resident waves"
    assert second.efficiency == pytest.approx(433 / 864)


def test_blocks_bound_by_memory_share_the_bandwidth_so_a_tail_costs_nothing():
    assert on_a100(120, bound="memory").efficiency == 1
    assert on_a100(54, bound="memory").efficiency == pytest.approx(0.5)  # fewer blocks than SMs leave some out


def test_a_block_of_few_warps_and_dependent_instructions_needs_neighbours():
    """Eight warps, each waiting four cycles for its own result, keep four schedulers half busy."""
    assert on_a100(120, ilp=4).busy_blocks == 1
    assert on_a100(120, ilp=1).busy_blocks == 2
    alone, doubled = on_a100(108, ilp=1), on_a100(216, ilp=1)
    assert (alone.governs, alone.efficiency) == ("resident waves", 0.5)
    assert doubled.efficiency == 1  # the second block of each SM is free


def test_with_one_block_per_sm_the_two_counts_are_equal():
    for bound in ("compute", "latency"):
        grid = on_a100(120, ONE_PER_SM, bound=bound)
        assert grid.governs == "both"
        assert grid.balance_efficiency == grid.resident_efficiency == grid.efficiency


@settings(max_examples=300, deadline=None)
@given(
    blocks=st.integers(1, 5000),
    sms=st.integers(1, 200),
    threads=st.integers(1, 1024),
    registers=st.integers(16, 64),
    bound=st.sampled_from(BOUNDS),
    ilp=st.integers(1, 8),
)
def test_no_grid_is_better_than_perfect_and_more_neighbours_needed_is_never_better(
    blocks, sms, threads, registers, bound, ilp
):
    fits = occupancy(AMPERE, threads, registers)
    grid = waves(blocks, sms, fits, AMPERE, bound=bound, ilp=ilp)
    assert 0 < grid.efficiency <= 1 + 1e-12
    assert grid.nearest_multiple % sms == 0
    assert grid.nearest_multiple >= sms
    if bound != "memory":
        low, high = sorted((grid.resident_efficiency, grid.balance_efficiency))
        assert low - 1e-12 <= grid.efficiency <= high + 1e-12


def simulate(blocks, sms, b, k):
    """The time of a grid, step by step: blocks go to the SM with most room, `n` on an SM each run at 1/max(n, k)."""
    waiting, now = blocks, 0.0
    remaining = [[] for _ in range(sms)]  # the remaining work of the blocks on each SM
    while waiting or any(remaining):
        while waiting and len(emptiest := min(remaining, key=len)) < b:
            emptiest.append(1.0)
            waiting -= 1
        step = min(min(sm) * max(len(sm), k) for sm in remaining if sm)
        now += step
        remaining = [[rest for work in sm if (rest := work - step / max(len(sm), k)) > 1e-9] for sm in remaining]
    return now


@settings(max_examples=150, deadline=None)
@given(blocks=st.integers(1, 80), sms=st.integers(1, 9), ilp=st.integers(1, 4), threads=st.sampled_from([64, 128, 256]))
def test_the_formula_equals_a_simulation_of_blocks_one_by_one(blocks, sms, ilp, threads):
    fits = occupancy(AMPERE, threads, 128)
    for bound in ("compute", "latency"):
        grid = waves(blocks, sms, fits, AMPERE, bound=bound, ilp=ilp)
        time = simulate(blocks, sms, grid.blocks_per_sm, grid.busy_blocks)
        assert grid.efficiency == pytest.approx(blocks / sms / time)


def test_the_tiles_of_a_product_are_a_grid():
    whole = Tiling(4096, 4096, 128, 256)
    assert (whole.blocks, whole.useful) == (512, 1)
    edge = Tiling(4097, 4096, 128, 256)
    assert edge.blocks == 33 * 16
    assert edge.useful == pytest.approx(4097 * 4096 / (33 * 16 * 128 * 256))


def test_a_grid_that_cannot_run_is_refused_with_the_remedy():
    with pytest.raises(UserError, match=r"cannot launch: 1024 threads of 128 registers .*: limit a thread to 64"):
        on_a100(10, occupancy(AMPERE, 1024, 128))
    with pytest.raises(UserError, match="at least 1"):
        on_a100(0)
    with pytest.raises(UserError, match="compute, latency, memory"):
        on_a100(1, bound="magic")


HOPPER = chip("sm_90")


def test_clusters_take_whole_numbers_of_sms():
    """132 SMs have room for 16 clusters of 8 and not for 17: the last four are idle."""
    lone = occupancy(HOPPER, 1024, 64)
    whole = waves(128, 132, lone, HOPPER, cluster=8)
    assert (whole.rounds, whole.tail_blocks, whole.usable_sms) == (1, 0, 128)
    assert whole.efficiency == pytest.approx(128 / 132)
    more = waves(136, 132, lone, HOPPER, cluster=8)
    assert (more.rounds, more.tail_blocks) == (2, 8)
    assert more.resident_efficiency == more.balance_efficiency == more.efficiency == pytest.approx(136 / 132 / 2)
    assert waves(136, 132, lone, HOPPER, cluster=4).rounds == 2  # 33 clusters of 4 take every SM
    assert waves(132, 132, lone, HOPPER, cluster=4).efficiency == 1
    with pytest.raises(UserError, match="130 blocks are not a whole number of clusters of 8"):
        waves(130, 132, lone, HOPPER, cluster=8)
    with pytest.raises(UserError, match="a cluster of 8 blocks on 4 SMs"):
        waves(8, 4, lone, HOPPER, cluster=8)
