"""The line below a chart."""

from kernellab.reporting.charts.provenance import provenance


def test_a_record_is_named_by_machine_date_and_versions_without_serial_numbers():
    environment = {"python": "3.11", "packages": {"torch": "2.13", "numpy": "2"}, "gpus": [{"uuid": "GPU-1"}]}
    record = {"environment": environment, "machine": {"name": "H200 GPU-1"}, "began": "2026-11-15T06:00:00"}
    assert provenance(record) == "H200 · 2026-11-15 · torch 2.13 · Python 3.11"
    merged = provenance({**record, "merged_from": ["a", "b"]})
    assert merged.endswith("joined from 2 runs")
