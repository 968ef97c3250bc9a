"""The hierarchy of a device as rows."""

from kernellab.gpumodel.hierarchy import cpu_rows, gpu_rows
from kernellab.machine.chips import chip


def capacities(rows):
    return {row.name: row.capacity for row in rows}


def test_a_gpu_has_its_logical_and_physical_parts():
    rows = gpu_rows(chip("sm_90"), 132, 50 << 20, "80 GB HBM3, 3352 GB/s")
    capacity = capacities(rows)
    assert list(capacity)[:3] == ["grid", "cluster", "block"]
    assert capacity["L2"] == "50 MB"
    assert capacity["global memory"] == "80 GB HBM3, 3352 GB/s"
    assert capacity["SM"].startswith("132 SMs")
    assert {row.kind for row in rows} == {"logical", "physical"}


def test_clusters_come_with_sm_90_and_an_unknown_cache_is_not_guessed():
    capacity = capacities(gpu_rows(chip("sm_89"), 142, None, "48 GB"))
    assert "cluster" not in capacity
    assert capacity["L2"] == "not known"


def test_a_cpu_has_its_cores_caches_and_memory():
    caches = [{"level": 1, "bytes": 48 << 10, "cores": 1}, {"level": 3, "bytes": 32 << 20, "cores": 8}]
    rows = cpu_rows(8, 16 << 30, caches)
    assert [(row.name, row.scope, row.capacity) for row in rows[1:]] == [
        ("core", "itself", "8 cores for this process"),
        ("L1", "a core", "48 KB"),
        ("L3", "8 cores", "32 MB"),
        ("memory", "all cores", "16 GiB"),
    ]
