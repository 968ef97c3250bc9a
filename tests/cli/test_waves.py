"""`klab waves`: one grid in words, a range as a chart, both as JSON; measured beside predicted."""

import json

import pytest

from kernellab.cli import run
from kernellab.gpumodel.waves import BOUNDS
from kernellab.running.protocol.events import GridsTimed
from support.klab import SRC


def test_one_grid_shows_its_tail_and_what_may_hide_it(klab):
    seen = klab("waves", "--gpu", "a100,h100", "--blocks", "120", "--threads", "256", "--regs", "64")
    assert seen.code == 0, seen.err
    first, *_ = seen.out.splitlines()
    assert first.startswith("A100 SXM4 80GB: 120 blocks over 108 SMs: 2 waves, the last with 12 blocks; 56 %")
    text = " ".join(seen.out.split())
    for part in (
        "4 blocks, 32 of 64 warps (50 %), limited by registers",
        "at most 48 registers per thread would let 5 blocks fit",
        "12 SMs get 2 blocks, 96 get 1",
        "Residency may hide it",
        "108 blocks are the nearest multiple",
        "432 (4 × SMs)",
        "H100 SXM5 80GB: 120 blocks over 132 SMs: 1 wave, 12 SMs idle; 91 %",
    ):
        assert part in text, part


def test_one_sm_is_singular(klab):
    text = " ".join(klab("waves", "--gpu", "a100", "--blocks", "109", "--threads", "1024", "--regs", "64").out.split())
    assert "Tail: 1 SM gets 2 blocks, 107 get 1 and wait at the end." in text
    text = " ".join(klab("waves", "--gpu", "a100", "--blocks", "107").out.split())
    assert "1 SM of 108 gets no block at all" in text


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


def test_every_key_of_the_json_is_documented(klab):
    seen = klab("waves", "--gpu", "h100", "--matmul", "4096x4096", "--tile", "128x256", "--json")
    (entry,) = json.loads(seen.out)
    (grid,) = entry["grids"]
    page = (SRC.parent / "docs" / "waves.md").read_text()
    levels = (entry, entry["chip"], entry["occupancy"], grid, grid["tiling"], grid["compute"])
    assert [key for level in levels for key in level if f"`{key}`" not in page] == []


def test_a_range_is_drawn_in_the_terminal_and_to_a_file(klab, tmp_path):
    seen = klab("waves", "--gpu", "a100", "--blocks", "64:1024:4", "--plot", "saw.svg")
    assert seen.code == 0, seen.err
    assert "┤" in seen.out
    assert "108 → 112 (100 → 52 %)" in seen.out
    drawn = (tmp_path / "saw.svg").read_text()
    assert "A100 SXM4 80GB" in drawn
    assert "efficiency, %" in drawn


def test_a_matmul_is_a_grid_of_tiles(klab):
    single = klab("waves", "--gpu", "h100", "--matmul", "4096x4096", "--tile", "128x256")
    assert "4096×4096 in 512 tiles of 128×256" in single.out
    several = klab("waves", "--gpu", "h100", "--matmul", "512:8192:256", "--tile", "128x256", "--json")
    grids = json.loads(several.out)[0]["grids"]
    assert [g["tiling"]["m"] for g in grids] == list(range(512, 8193, 256))


@pytest.fixture
def gpu_present(monkeypatch):
    """A GPU of 108 SMs that behaves as predicted, except for one grid."""

    def fill(grids, threads, shared_bytes, *, rounds):
        times = [
            {"blocks": blocks, "ms": float(-(-blocks // 108)) * (1.25 if blocks == 218 else 1)} for blocks in grids
        ]
        return GridsTimed(block_ms=1.0, grids=times, doubts=["clock-moved: it did"])

    here = {"name": "NVIDIA Stand-in", "arch": "sm_80", "sms": 108}
    monkeypatch.setattr("kernellab.running.parent.device.describe_gpu", lambda: here)
    monkeypatch.setattr("kernellab.running.parent.device.time_grids", fill)


def test_measured_efficiencies_are_compared_with_the_predicted_ones(gpu_present, capsys):
    assert run(["waves", "--blocks", "216,217,218", "--regs", "64", "--measure"]) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert "NVIDIA Stand-in, measured" in text
    assert "within 10 % of the prediction at 2 of 3 grids; at 218 blocks 67 % were predicted and 54 % measured" in text
    assert "not to be trusted: clock-moved: it did" in text
    assert run(["waves", "--blocks", "216", "--regs", "64", "--measure", "--json"]) == 0
    (entry,) = json.loads(capsys.readouterr().out)
    assert entry["grids"][0]["measured"]["efficiency"] == pytest.approx(1)


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ((), "name one grid"),
        (("--blocks", "120", "--matmul", "64x64"), "name one grid"),
        (("--blocks", "many"), "cannot read --blocks"),
        (("--matmul", "4096x4096"), "--matmul needs the tile"),
        (("--matmul", "4096x4096", "--tile", "128"), "cannot read --tile"),
        (("--blocks", "8", "--tile", "128x128"), "--tile is for a matmul"),
        (("--blocks", "8", "--threads", "0"), "at least 1"),
        (("--blocks", "8", "--threads", "2048"), "at most 1024 threads"),
        (("--blocks", "8", "--regs", "300"), "up to 255"),
        (("--blocks", "8", "--regs", "0"), "at least 1 register"),
        (("--blocks", "8", "--shared", "307200"), "cannot launch: 307200 bytes of shared memory exceed the"),
        (("--blocks", "2147483648"), "at most 2147483647"),
        (("--blocks", "8", "--cluster", "2"), "sm_80 has no clusters"),
        (("--blocks", "0"), "at least 1"),
        (("--blocks", "8", "--plot", "saw.png"), "draws a range"),
        (("--blocks", "1:9", "--plot", "saw.pdf"), ".png or .svg"),
        (("--blocks", "8", "--measure"), "leave out --gpu"),
    ],
)
def test_a_bad_request_is_refused_in_one_sentence(klab, args, message):
    seen = klab("waves", "--gpu", "a100", *args)
    assert (seen.code, seen.out) == (2, "")
    assert message in seen.err
    assert "Traceback" not in seen.err


def test_the_assumptions_about_clusters_are_shown(klab):
    seen = klab("waves", "--gpu", "h100", "--blocks", "136", "--threads", "1024", "--regs", "64", "--cluster", "8")
    text = " ".join(seen.out.split())
    assert "136 blocks over 128 of 132 SMs: 2 waves, the last with 8 blocks; 52 % efficient" in text
    assert "at most 16 of them at once, on 128 of 132 SMs" in text
    assert "cudaOccupancyMaxActiveClusters returns how many" in text
    refused = klab("waves", "--gpu", "h100", "--blocks", "9", "--cluster", "8")
    assert (refused.code, "not a whole number of clusters" in refused.err) == (2, True)
    alone = klab("waves", "--blocks", "8", "--cluster", "8", "--measure")
    assert "without clusters" in alone.err
