"""Where the run was made: machine, versions, command, seed, date."""

from __future__ import annotations

import shlex

from kernellab.machine.description import Ceilings
from kernellab.record.derived import DerivedRecord
from kernellab.reporting.report.parts.section import Run, Section
from kernellab.reporting.text import numbers


def section(run: Run) -> Section | None:
    rows = _rows(run.record)
    return Section("environment", "Environment", "environment.html", {"rows": rows}) if rows else None


def _rows(record: DerivedRecord) -> list[tuple[str, str]]:
    """What is known, as pairs of a name and a value."""
    machine, environment = record["machine"], record["environment"]
    rows = {
        "command": shlex.join(record["command"][:200]),
        "began": str(record.get("began") or ""),
        "seed": str(record["seed"]),
        "stages": ", ".join(record["stages"]),
        "finished": "yes" if record["complete"] else "no",
        "device": " · ".join(filter(None, [machine.get("device"), machine.get("name")])),
    }
    ceilings = machine.get("ceilings")
    if ceilings:
        rates = [f"copy {numbers.digits(ceilings['copy_gbps'])} GB/s"]
        rates += [f"matmul {name} {_matmul(ceilings, name)}" for name in ceilings["matmul_tflops"]]
        rows["measured ceilings"] = ", ".join(rates)
    if environment:
        cpu = environment["cpu"]
        cores = numbers.count(cpu["cores"], "core") if "cores" in cpu else ""
        memory = numbers.memory(cpu["memory_bytes"]) if "memory_bytes" in cpu else ""
        rows["CPU"] = ", ".join(filter(None, [cpu["name"], cores, memory]))
        rows["GPUs"] = ", ".join(f"{gpu['name']}, driver {gpu['driver']}" for gpu in environment["gpus"])
        rows["system"] = environment.get("system", "")
        rows["commit"] = environment.get("commit") or ""
        packages = [f"{name} {version}" for name, version in environment["packages"].items() if version]
        rows["versions"] = ", ".join([f"Python {environment['python']}", *packages])
    for number, origin in enumerate(record.get("merged_from") or (), 1):
        parts = [origin["began"] or "", shlex.join(origin["command"][:200]), origin["machine"]]
        rows[f"joined run {number}"] = " · ".join(filter(None, parts))
    return [(name, value) for name, value in rows.items() if value]


def _matmul(ceilings: Ceilings, dtype: str) -> str:
    """`805 TFLOP/s at 1980 MHz, 690 TFLOP/s at 1470 MHz`."""
    by_clock = ceilings.get("matmul_by_clock", {}).get(dtype)
    if not by_clock:
        return f"{numbers.digits(ceilings['matmul_tflops'][dtype])} TFLOP/s"
    return ", ".join(f"{numbers.digits(rate['tflops'])} TFLOP/s at {rate['clock_mhz']:.0f} MHz" for rate in by_clock)
