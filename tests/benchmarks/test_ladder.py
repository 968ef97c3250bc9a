"""benchmarks/ladder.py: its steps, its predictions, and the page that it writes."""

import json

import pytest

from kernellab.explaining.explanation import explain
from kernellab.record.event import Event
from kernellab.record.journal import fold
from support.benchmarks import load_script
from support.explain_records import GPU
from support.records import ENVIRONMENT
from support.subjects import COST, GB, kernel, subject

ladder = load_script("ladder")


def test_the_steps_end_with_the_kernels_that_are_used():
    steps = {op: [step.impl for step in ladder.steps_of(op)] for op in ladder.SIZES}
    assert steps["gelu"][:3] == ["cuda-element", "cuda-exp-tanh", "cuda-sigmoid"]
    for impls in steps.values():
        assert impls[-1] == "torch"
        assert impls.index("cuda-vector") < impls.index("cuda") < impls.index("triton")
    assert [step.impl for step in ladder.steps_of("layer_norm") if step.wrong_on_purpose] == [
        "cuda-squares",
        "triton-squares",
    ]


@pytest.mark.parametrize(
    ("changes", "time_us"),
    [
        (dict(), 500),  # one read and one write of 1 GB at 4000 GB/s
        (dict(sectors=2.0), 750),
        # The blocks of a wave, 16 on each of 132 SMs, read 4.3 MB: the second read comes from L2.
        (dict(loading_loops=2, loop={"global_load": 1}), 500),
        # 10,000 blocks read 100 kB each, a wave 211 MB: it comes from memory.
        (dict(loading_loops=2, loop={"global_load": 1}, blocks=10_000), 750),
        (dict(loading_loops=3, loop={"global_load": 1}, blocks=10_000), 1000),
    ],
)
def test_further_reads_cost_their_bytes_unless_l2_holds_them(changes, time_us):
    assert ladder.predict_us(explain(subject(kernel(**changes)))) == pytest.approx(time_us)


def test_latency_is_paid_once_per_read():
    slow = dict(flight_bytes=2, blocks_per_sm=4, loop={"global_load": 1}, blocks=10_000)
    once, twice = (ladder.predict_us(explain(subject(kernel(**slow, loading_loops=loops)))) for loops in (1, 2))
    # 132 SMs with 4 blocks of 128 threads that wait for 2 bytes each.
    assert once == pytest.approx(GB / (132 * 4 * 128 * 2 / 0.8))
    assert twice == pytest.approx(2 * once)


def test_nothing_is_predicted_without_machine_code():
    assert ladder.predict_us(explain(subject(cost=COST))) is None


PAGE = "".join(f"<!-- {name} -->\nold\n<!-- end -->\n" for name in ("machine", *ladder.SIZES))


def test_a_page_without_records_says_how_to_get_them(tmp_path):
    page = ladder.draw(PAGE, tmp_path)
    assert "old" not in page
    assert "python benchmarks/ladder.py OUT" in page
    assert "| `cuda-vector` | – | – | – | – | – | – | – | – | no record |" in page
    assert ladder.draw(page, tmp_path) == page


def test_the_page_has_a_place_for_every_table(tmp_path):
    ladder.draw(ladder.PAGE.read_text(), tmp_path)
    with pytest.raises(SystemExit, match="no place <!-- softmax -->"):
        ladder.draw(PAGE.replace("softmax", "hardmax"), tmp_path)


def test_measured_times_stand_beside_the_predictions(tmp_path):
    """A record as `klab explain` makes on a GPU, of two steps."""
    times = {"cuda-element": 900.0, "cuda-exp-tanh": 800.0, "cuda-vector": 450.0}
    size = 16384 * 16384 * 2
    ladder_record(tmp_path / "gelu-16384x16384", times, size)
    page = ladder.draw(PAGE, tmp_path)
    first_table = page.partition("float32")[0].splitlines()
    rows = {row.split("`")[1]: row.split(" | ") for row in first_table if row.startswith("| `")}
    assert rows["cuda-element"][5:9] == ["900 µs", "1193", "0.298", "–"]
    assert rows["cuda-exp-tanh"][8] == "1.12×"
    assert rows["cuda-vector"][8] == "2.00×"  # over the last step that is right
    assert "- machine: NVIDIA H200, driver 580" in page
    assert "- date: 2026-11-16" in page
    assert "- versions: Python 3.11.2, torch 2.13" in page


def ladder_record(folder, times, size):
    case = {"dims": {"...": [16384], "N": 16384}, "dtype": "bfloat16", "options": {}, "layout": "contiguous"}
    at = {"op": "gelu", "case": {**case, "device": "cuda"}}
    series = {"pass": "forward", "timer": "events", "cache": "cold"}
    board = {"name": "NVIDIA H200", "uuid": "GPU-0", "driver": "580"}
    ceilings = {"copy_gbps": 4000.0, "matmul_tflops": {}, "doubts": []}
    environment = {**ENVIRONMENT, "gpus": [board]}
    check = {"status": "ok", "reason": None, "checked_at": {"interpreter": False}}
    events = [
        {
            **{"event": "run", "schema": 3, "command": [], "seed": 0, "environment": environment},
            **{"settings": {"targets": [], "stages": ["time"]}, "began": "2026-11-16T12:00:00+0000"},
        },
        {"event": "machine", "machine": {"device": "cuda:0", "name": "NVIDIA H200", "ceilings": ceilings, "gpu": GPU}},
        {"event": "plan", "sources": {}, "groups": [{**at, "impls": dict.fromkeys(times, "cuda")}]},
        {"event": "cost", **at, "cost": {"bytes_read": size, "bytes_written": size, "flops": {}}},
        *({"event": "check", **at, "impl": impl, "check": check} for impl in times),
        *(
            {"event": "round", **at, **series, "round": n, "samples_us": {impl: [us] for impl, us in times.items()}}
            for n in range(10)
        ),
        {"event": "timed", **at, **series, "impls": list(times)},
        {"event": "complete"},
    ]
    folder.mkdir()
    (folder / "run.json").write_text(json.dumps(fold(map(Event.parse, events))))
