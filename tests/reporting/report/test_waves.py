"""The section with waves: each launch on the curve of its kernel, from the record alone."""

import json

import pytest

from kernellab.reporting.report.document import report
from kernellab.reporting.report.parts.launches import read_launches
from kernellab.reporting.report.sections import waves
from support.reports import read_run, sample_run


@pytest.fixture
def softmax(tmp_path):
    return sample_run("records_h200.tar.gz", "explain-softmax", tmp_path)


def change(folder, edit):
    """Change the record."""
    (folder / "journal.jsonl").unlink(missing_ok=True)
    record = json.loads((folder / "run.json").read_text())
    edit(record)
    (folder / "run.json").write_text(json.dumps(record))
    return read_run(folder)


def test_launches_that_ran_are_read_from_what_the_profiler_saw(softmax):
    launches = read_launches(read_run(softmax).record)
    (triton,) = [launch for launch in launches if launch.impl == "triton"]
    assert (triton.gpu.name, triton.gpu.sms, triton.threads) == ("NVIDIA H200", 132, 128)
    assert triton.compute.blocks == 4096
    assert (triton.compute.rounds, triton.compute.tail_blocks) == (32, 4)  # 4096 = 31 · 132 + 4
    assert triton.compute.efficiency == pytest.approx(4096 / 132 / 32)
    assert triton.compute.blocks_per_sm == 9  # 54 registers, in units of 8: 65536 / (56 · 128)
    assert triton.us == 32.928


def test_with_no_gpu_launches_are_those_that_were_compiled(tmp_path):
    run = read_run(sample_run("code_gelu.tar.gz", "gelu", tmp_path))
    triton, cuda = read_launches(run.record)
    assert (triton.impl, cuda.impl) == ("triton", "cuda")
    assert triton.gpu.sms == 132  # of an H100, for which it was compiled
    assert triton.compute.blocks == 4096 * 4096 // 512
    assert triton.us is None


def test_clusters_are_those_of_the_captured_launch(softmax):
    def cluster(record):
        for entry in record["code"]:
            for kernel in entry["kernels"]:
                kernel["cluster"] = [8, 1, 1]

    launches = read_launches(change(softmax, cluster).record)
    assert {launch.impl: launch.compute.cluster for launch in launches} == {
        "manual": 1,
        "compile": 1,
        "torch": 1,
        "triton": 8,
        "cuda": 8,
    }


def test_without_grids_there_is_no_section(tmp_path):
    assert waves.section(read_run(sample_run("records_cpu.tar.gz", "run-gelu", tmp_path))) is None


@pytest.mark.parametrize(
    "numbers",
    [
        {"grid": [0, 1, 1]},
        {"grid": [-5, 1, 1]},
        {"grid": [2**60, 2**60, 2**60]},
        {"grid": []},
        {"grid": None},
        {"block": [10**9, 1, 1]},
        {"registers": -1},
        {"registers": 10**12},
        {"shared_bytes": -1},
        {"shared_bytes": 10**15},
    ],
)
def test_numbers_that_no_launch_can_have_leave_it_out(softmax, numbers):
    def lie(record):
        for result in record["results"]:
            for kernel in result["kernels"] or ():
                if result["impl"] == "triton":
                    kernel.update(numbers)

    run = change(softmax, lie)
    waves.section(run)
    launches = {launch.impl: launch.compute for launch in read_launches(run.record)}
    assert "torch" in launches
    if "triton" in launches:  # such a grid is only too large
        assert launches["triton"].blocks == 2**180


def test_a_gpu_that_the_model_does_not_know_has_no_waves(softmax):
    def rename(record):
        record["machine"]["gpu"].update(name="X", arch="sm_3")
        for entry in record["code"]:
            entry.update(gpu="X", arch="sm_3")

    assert waves.section(change(softmax, rename)) is None


def test_a_grid_that_loses_much_is_told_and_marked(tmp_path):
    run = read_run(sample_run("records_cpu.tar.gz", "explain-softmax", tmp_path))
    section = waves.section(run)
    assert section.values["sentences"] == [
        "triton softmax_tile: 64 blocks over 132 SMs: 1 wave, 68 SMs idle; 12 % efficient if compute-bound",
        "cuda softmax_warp<float, 4, 2, 32>: 64 blocks over 132 SMs: 1 wave, 68 SMs idle; "
        "48 % efficient if compute-bound",
    ]
    assert [[cell.tone for cell in row[-2:]] for row in section.values["table"].rows] == [["warn", "warn"]] * 2


def test_each_launch_lies_on_its_curve(softmax):
    section = waves.section(read_run(softmax))
    assert len(section.figures) == 5  # kernels of which as many blocks fit on an SM share a figure
    for figure in section.figures.values():
        _, compute, *points = figure["data"]
        assert compute["name"] == "if compute-bound"
        curve = dict(zip(compute["x"], compute["y"], strict=True))
        for trace in points:
            for blocks, efficiency in zip(trace["x"], trace["y"], strict=True):
                before = max(size for size in curve if size <= blocks)
                after = min(size for size in curve if size >= blocks)
                assert min(curve[before], curve[after]) - 1 <= efficiency <= 100


def test_in_the_browser(open_page, softmax):
    name = "<img src=x onerror='window.hacked = 1'><b>k</b>"

    def hostile(record):
        for result in record["results"]:
            for kernel in result["kernels"] or ():
                kernel["name"] = f"{name}{kernel['name']}"
        record["machine"]["gpu"]["name"] = name

    opened = open_page(report([change(softmax, hostile)]), "report.html", viewport={"width": 1000, "height": 700})
    page = opened.page
    page.locator("#waves-0").scroll_into_view_if_needed()
    page.wait_for_selector("#waves-0 .scatterlayer .point")
    assert page.locator("#waves-0 .scatterlayer .lines").count() > 0
    page.locator("#waves-table th", has_text="blocks").first.locator("button").click()
    sorted_blocks = [int(text) for text in page.locator("#waves-table tbody tr td:nth-child(5)").all_inner_texts()]
    assert sorted_blocks == sorted(sorted_blocks)
    assert len(set(sorted_blocks)) > 2
    page.locator("#waves-0").scroll_into_view_if_needed()
    point = page.locator("#waves-0 .scatterlayer .point").first.bounding_box()
    for step in range(5):
        page.mouse.move(point["x"] + point["width"] / 2 + 0.2 * step, point["y"] + point["height"] / 2)
    page.wait_for_selector("#waves-0 .hoverlayer .hovertext")
    assert "<img src=x" in page.locator("#waves-0 .hoverlayer .hovertext").first.text_content()
    assert page.evaluate("window.hacked") is None
    assert len(opened.requests) == 1
