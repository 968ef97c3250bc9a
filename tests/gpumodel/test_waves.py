"""How grids fill GPUs: what is counted, what governs, what a tail costs; and `klab waves` as a person meets it."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernellab.base.errors import UserError
from kernellab.build.cuda import kernel
from kernellab.cli import run
from kernellab.gpumodel.occupancy import occupancy
from kernellab.gpumodel.waves import BOUNDS, Tiling, sweep, waves
from kernellab.machine.chips import chip
from support.klab import SRC

AMPERE = chip("sm_80")
FOUR = occupancy(AMPERE, 256, 64)  # four blocks per SM
ONE = occupancy(AMPERE, 1024, 64)


def at(blocks, held=FOUR, sms=108, **more):
    return waves(blocks, sms, held, AMPERE, **more)


def test_120_blocks_on_an_a100_are_two_rounds_with_a_tail_of_12():
    found = at(120)
    assert (found.rounds, found.tail_blocks) == (2, 12)
    assert found.resident_waves == pytest.approx(120 / 432)
    assert found.governs == "SM balance"
    assert found.efficiency == pytest.approx(120 / 216)
    assert (found.nearest_multiple, found.four_per_sm) == (108, 432)


@pytest.mark.parametrize("rounds", [1, 2, 3, 4, 5, 8])
def test_a_multiple_of_the_sms_has_no_tail_and_one_block_more_begins_a_round(rounds):
    full = at(108 * rounds)
    assert (full.tail_blocks, full.efficiency) == (0, 1)
    assert at(108 * rounds + 1).efficiency == pytest.approx((rounds + 1 / 108) / (rounds + 1))


def test_from_four_blocks_per_sm_on_a_tail_costs_a_fifth_at_most():
    assert min(w.efficiency for w in sweep(range(432, 3000), 108, FOUR, AMPERE)) >= 0.8


def test_blocks_that_wait_are_counted_by_residency():
    """As many as fit take as long as one: the 433rd block begins a second wave."""
    assert at(432, bound="latency").efficiency == 1
    assert at(108, bound="latency").efficiency == pytest.approx(0.25)
    second = at(433, bound="latency")
    assert second.governs == "resident waves"
    assert second.efficiency == pytest.approx(433 / 864)


def test_bandwidth_is_shared_by_all_so_that_a_tail_costs_nothing_in_the_best_case():
    assert at(120, bound="memory").efficiency == 1
    assert at(54, bound="memory").efficiency == pytest.approx(0.5)  # fewer blocks than SMs leave some out


def test_a_block_of_few_warps_and_dependent_instructions_needs_neighbours():
    """Eight warps, each waiting four cycles for its own result, keep four schedulers half busy."""
    assert at(120, ilp=4).busy_blocks == 1
    assert at(120, ilp=1).busy_blocks == 2
    alone, doubled = at(108, ilp=1), at(216, ilp=1)
    assert (alone.governs, alone.efficiency) == ("resident waves", 0.5)
    assert doubled.efficiency == 1  # the second block of each SM is free


def test_with_one_block_per_sm_the_two_counts_are_one():
    for bound in ("compute", "latency"):
        found = at(120, ONE, bound=bound)
        assert found.governs == "both"
        assert found.balance_efficiency == found.resident_efficiency == found.efficiency


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
    held = occupancy(AMPERE, threads, registers)
    found = waves(blocks, sms, held, AMPERE, bound=bound, ilp=ilp)
    assert 0 < found.efficiency <= 1 + 1e-12
    assert found.nearest_multiple % sms == 0
    assert found.nearest_multiple >= sms
    if bound != "memory":
        low, high = sorted((found.resident_efficiency, found.balance_efficiency))
        assert low - 1e-12 <= found.efficiency <= high + 1e-12


def simulated(blocks, sms, b, k):
    """The time of a grid, step by step: blocks go to the SM with most room, `n` on an SM each run at 1/max(n, k)."""
    waiting, now = blocks, 0.0
    left = [[] for _ in range(sms)]  # what remains of the blocks on each SM
    while waiting or any(left):
        while waiting and len(emptiest := min(left, key=len)) < b:
            emptiest.append(1.0)
            waiting -= 1
        step = min(min(sm) * max(len(sm), k) for sm in left if sm)
        now += step
        left = [[rest for work in sm if (rest := work - step / max(len(sm), k)) > 1e-9] for sm in left]
    return now


@settings(max_examples=150, deadline=None)
@given(blocks=st.integers(1, 80), sms=st.integers(1, 9), ilp=st.integers(1, 4), threads=st.sampled_from([64, 128, 256]))
def test_the_formula_is_what_blocks_handed_out_one_by_one_come_to(blocks, sms, ilp, threads):
    held = occupancy(AMPERE, threads, 128)
    for bound in ("compute", "latency"):
        found = waves(blocks, sms, held, AMPERE, bound=bound, ilp=ilp)
        time = simulated(blocks, sms, found.blocks_per_sm, found.busy_blocks)
        assert found.efficiency == pytest.approx(blocks / sms / time)


def test_the_tiles_of_a_product_are_a_grid():
    whole = Tiling(4096, 4096, 128, 256)
    assert (whole.blocks, whole.useful) == (512, 1)
    edge = Tiling(4097, 4096, 128, 256)
    assert edge.blocks == 33 * 16
    assert edge.useful == pytest.approx(4097 * 4096 / (33 * 16 * 128 * 256))


def test_what_cannot_run_is_refused_with_the_remedy():
    with pytest.raises(UserError, match=r"cannot launch: 1024 threads of 128 registers .*: let a thread have 64"):
        at(10, occupancy(AMPERE, 1024, 128))
    with pytest.raises(UserError, match="at least 1"):
        at(0)
    with pytest.raises(UserError, match="compute, latency, memory"):
        at(1, bound="magic")


HOPPER = chip("sm_90")


def test_clusters_take_whole_numbers_of_sms():
    """132 SMs have room for 16 clusters of 8 and not for 17: the last four stand idle."""
    lone = occupancy(HOPPER, 1024, 64)
    whole = waves(128, 132, lone, HOPPER, cluster=8)
    assert (whole.rounds, whole.tail_blocks, whole.usable_sms) == (1, 0, 128)
    assert whole.efficiency == pytest.approx(128 / 132)
    more = waves(136, 132, lone, HOPPER, cluster=8)
    assert (more.rounds, more.tail_blocks) == (2, 8)
    assert more.resident_efficiency == more.balance_efficiency == more.efficiency == pytest.approx(136 / 132 / 2)
    assert waves(136, 132, lone, HOPPER, cluster=4).rounds == 2  # 33 clusters of 4 take every SM
    assert waves(132, 132, lone, HOPPER, cluster=4).efficiency == 1
    with pytest.raises(UserError, match="130 blocks is no whole number of clusters of 8"):
        waves(130, 132, lone, HOPPER, cluster=8)
    with pytest.raises(UserError, match="a cluster of 8 blocks on 4 SMs"):
        waves(8, 4, lone, HOPPER, cluster=8)


def test_klab_waves_says_what_it_supposes_of_clusters(klab):
    seen = klab("waves", "--gpu", "h100", "--blocks", "136", "--threads", "1024", "--regs", "64", "--cluster", "8")
    said = " ".join(seen.out.split())
    assert "136 blocks over 128 of 132 SMs: 2 waves, the last with 8 blocks; 52 % efficient" in said
    assert "16 of them at once at most, on 128 of 132 SMs" in said
    assert "cudaOccupancyMaxActiveClusters tells" in said
    refused = klab("waves", "--gpu", "h100", "--blocks", "9", "--cluster", "8")
    assert (refused.code, "no whole number of clusters" in refused.err) == (2, True)
    alone = klab("waves", "--blocks", "8", "--cluster", "8", "--measure")
    assert "without clusters" in alone.err


# klab waves --------------------------------------------------------------------------------------------


def test_klab_waves_tells_the_tail_and_what_may_hide_it(klab):
    seen = klab("waves", "--gpu", "a100,h100", "--blocks", "120", "--threads", "256", "--regs", "64")
    assert seen.code == 0, seen.err
    first, *_ = seen.out.splitlines()
    assert first.startswith("A100 SXM4 80GB: 120 blocks over 108 SMs: 2 waves, the last with 12 blocks; 56 %")
    said = " ".join(seen.out.split())
    for part in (
        "4 blocks, 32 of 64 warps (50 %), limited by registers",
        "at most 48 registers per thread would let 5 blocks fit",
        "12 SMs get 2 blocks, 96 get 1",
        "Residency may hide it",
        "108 blocks are the nearest multiple",
        "432 (4 × SMs)",
        "H100 SXM5 80GB: 120 blocks over 132 SMs: 1 wave, 12 SMs idle; 91 %",
    ):
        assert part in said, part


def test_one_is_called_one(klab):
    said = " ".join(klab("waves", "--gpu", "a100", "--blocks", "109", "--threads", "1024", "--regs", "64").out.split())
    assert "Tail: 1 SM gets 2 blocks, 107 get 1 and wait in the end." in said
    said = " ".join(klab("waves", "--gpu", "a100", "--blocks", "107").out.split())
    assert "1 SM of 108 gets no block at all" in said


def test_the_same_as_json(klab):
    seen = klab("waves", "--gpu", "a100", "--blocks", "120", "--threads", "256", "--regs", "64", "--json")
    (entry,) = json.loads(seen.out)
    assert entry["occupancy"]["blocks_per_sm"] == 4
    (grid,) = entry["grids"]
    assert (grid["compute"]["rounds"], grid["compute"]["tail_blocks"]) == (2, 12)
    assert {bound: round(grid[bound]["efficiency"], 3) for bound in BOUNDS} == {
        "compute": 0.556,
        "latency": 0.278,
        "memory": 1.0,
    }


def test_every_key_of_the_json_is_in_the_documents(klab):
    seen = klab("waves", "--gpu", "h100", "--matmul", "4096x4096", "--tile", "128x256", "--json")
    (entry,) = json.loads(seen.out)
    (grid,) = entry["grids"]
    told = (SRC.parent / "docs" / "waves.md").read_text()
    levels = (entry, entry["chip"], entry["occupancy"], grid, grid["tiling"], grid["compute"])
    assert [key for level in levels for key in level if f"`{key}`" not in told] == []


def test_a_range_is_drawn(klab, tmp_path):
    seen = klab("waves", "--gpu", "a100", "--blocks", "64:1024:4", "--plot", "saw.svg")
    assert seen.code == 0, seen.err
    assert "┤" in seen.out
    assert "108 → 112 (100 → 52 %)" in seen.out
    drawn = (tmp_path / "saw.svg").read_text()
    assert "A100 SXM4 80GB" in drawn
    assert "efficiency, %" in drawn


def test_products_in_tiles(klab):
    one = klab("waves", "--gpu", "h100", "--matmul", "4096x4096", "--tile", "128x256")
    assert "4096×4096 in 512 tiles of 128×256" in one.out
    many = klab("waves", "--gpu", "h100", "--matmul", "512:8192:256", "--tile", "128x256", "--json")
    grids = json.loads(many.out)[0]["grids"]
    assert [g["tiling"]["m"] for g in grids] == list(range(512, 8193, 256))


@pytest.fixture
def gpu_present(monkeypatch):
    """A stand-in for a GPU of 108 SMs that behaves as predicted, but for one grid."""

    def fill(grids, threads, shared_bytes, *, rounds):
        found = [
            {"blocks": blocks, "ms": float(-(-blocks // 108)) * (1.25 if blocks == 218 else 1)} for blocks in grids
        ]
        return {"block_ms": 1.0, "grids": found, "doubts": ["clock-moved: it did"]}

    here = {"name": "NVIDIA Stand-in", "arch": "sm_80", "sms": 108}
    monkeypatch.setattr("kernellab.running.parent.device.present", lambda: here)
    monkeypatch.setattr("kernellab.running.parent.device.fill", fill)


def test_what_is_measured_stands_beside_what_is_predicted(gpu_present, capsys):
    assert run(["waves", "--blocks", "216,217,218", "--regs", "64", "--measure"]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "NVIDIA Stand-in, measured" in said
    assert "within 10 % of the prediction at 2 of 3 grids; at 218 blocks 67 % were predicted and 54 % measured" in said
    assert "not to be trusted: clock-moved: it did" in said
    assert run(["waves", "--blocks", "216", "--regs", "64", "--measure", "--json"]) == 0
    (entry,) = json.loads(capsys.readouterr().out)
    assert entry["grids"][0]["measured"]["efficiency"] == pytest.approx(1)


@pytest.mark.parametrize("arch", ["sm_75", "sm_90"])
def test_the_kernels_that_measure_compile(arch):
    for file, name in (("busy.cu", "busy"), ("reading.cu", "read_all")):
        assert kernel(SRC / "kernellab" / "timing" / file, name).compile(arch).code


@pytest.mark.parametrize(
    ("args", "said"),
    [
        ((), "which grid?"),
        (("--blocks", "120", "--matmul", "64x64"), "which grid?"),
        (("--blocks", "many"), "cannot read --blocks"),
        (("--matmul", "4096x4096"), "--matmul needs the tile"),
        (("--matmul", "4096x4096", "--tile", "128"), "cannot read --tile"),
        (("--blocks", "8", "--tile", "128x128"), "--tile belongs to a matmul"),
        (("--blocks", "8", "--threads", "0"), "at least 1"),
        (("--blocks", "8", "--threads", "2048"), "at most 1024 threads"),
        (("--blocks", "8", "--regs", "300"), "up to 255"),
        (("--blocks", "8", "--regs", "0"), "at least 1 register"),
        (("--blocks", "8", "--shared", "307200"), "cannot launch: 307200 bytes of shared memory are more than the"),
        (("--blocks", "2147483648"), "at most 2147483647"),
        (("--blocks", "8", "--cluster", "2"), "sm_80 has no clusters"),
        (("--blocks", "0"), "at least 1"),
        (("--blocks", "8", "--plot", "saw.png"), "draws a range"),
        (("--blocks", "1:9", "--plot", "saw.pdf"), ".png or .svg"),
        (("--blocks", "8", "--measure"), "leave out --gpu"),
    ],
)
def test_a_bad_request_is_one_sentence(klab, args, said):
    seen = klab("waves", "--gpu", "a100", *args)
    assert (seen.code, seen.out) == (2, "")
    assert said in seen.err
    assert "Traceback" not in seen.err
