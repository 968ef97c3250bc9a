"""The line below a chart: where, when and with which versions its record was measured."""

from __future__ import annotations

from kernellab.record.derived import DerivedRecord
from kernellab.reporting.text.numbers import count


def provenance(record: DerivedRecord) -> str:
    """Where, when and with which versions a record was measured, on one line."""
    environment, name = record["environment"], str(record["machine"].get("name", ""))
    for gpu in environment.get("gpus", ()):
        name = name.replace(f" {gpu['uuid']}", "")
    versions = [f"{k} {v}" for k, v in environment.get("packages", {}).items() if k in ("kernellab", "torch", "triton")]
    when = str(record.get("began", "")).partition("T")[0]
    parts = [name, when, *versions, f"Python {environment.get('python', '')}"]
    if "merged_from" in record:
        parts.append(f"joined from {count(len(record['merged_from']), 'run')}")
    return " · ".join(part for part in parts if part)
