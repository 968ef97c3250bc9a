"""What the declared types of a record cannot say: numbers in range, lists of one length, every result once.

A record that contradicts itself was damaged or made by hand. Verdicts rely on what is checked here.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator

from kernellab.energy.documents import EnergyJson
from kernellab.record.schema import MachineJson, Record, Result, TimeSeries

MOST_RESULTS = 20_000
MOST_IMPLS = 200  # at one case: each is compared with every other

_DEVICE = re.compile(r"(cpu|cuda)(:\d+)?")


def find_contradiction(record: Record) -> str | None:
    """The first contradiction in a record, as a sentence; None if there is none."""
    return next(_contradictions(record), None)


def _contradictions(record: Record) -> Iterator[str]:
    if len(record["results"]) > MOST_RESULTS:
        yield f"it has more than {MOST_RESULTS} results"
    yield from _of_machine(record["machine"])
    impls: dict[str, Counter[str]] = {}
    for number, result in enumerate(record["results"]):
        yield from (f"results[{number}]{problem}" for problem in _of_result(result))
        group = impls.setdefault(json.dumps([result["op"], result["case"]], sort_keys=True), Counter())
        group[result["impl"]] += 1
        if group[result["impl"]] > 1:
            yield f"results[{number}] is the second of its implementation at this case"
        if len(group) > MOST_IMPLS:
            yield f"results[{number}] is of more than {MOST_IMPLS} implementations at one case"


def _of_machine(machine: MachineJson) -> Iterator[str]:
    ceilings = machine.get("ceilings")
    if ceilings and not (ceilings["copy_gbps"] > 0 and all(rate > 0 for rate in ceilings["matmul_tflops"].values())):
        yield "machine.ceilings has a rate that is not above 0"
    for rates in ceilings.get("matmul_by_clock", {}).values() if ceilings else ():
        if not all(rate["tflops"] > 0 and rate["clock_mhz"] > 0 for rate in rates):
            yield "machine.ceilings.matmul_by_clock has a number that is not above 0"
    gpu = machine.get("gpu")
    if gpu and gpu["sms"] < 1:
        yield "machine.gpu.sms is not above 0"


def _of_result(result: Result) -> Iterator[str]:
    case = result["case"]
    if not _DEVICE.fullmatch(case["device"]):
        yield f".case.device is {case['device'][:40]!r}, not cpu or cuda"
    sizes = [size for value in case["dims"].values() for size in (value if isinstance(value, list) else [value])]
    if any(size < 0 for size in sizes):
        yield ".case.dims has a size below 0"
    for pass_name, cost in result["cost"].items():
        if cost and min(cost["bytes_read"], cost["bytes_written"], *cost["flops"].values()) < 0:
            yield f".cost.{pass_name} has a number below 0"
    for at, series in enumerate(result["times"]):
        yield from (f".times[{at}]{problem}" for problem in _of_series(series))


def _of_series(series: TimeSeries) -> Iterator[str]:
    if len(series["samples_us"]) != len(series["rounds"]):
        yield f" has {len(series['samples_us'])} samples and {len(series['rounds'])} rounds"
    if any(sample < 0 for sample in series["samples_us"]):
        yield " has a sample below 0"
    rounds = len(set(series["rounds"]))
    for name, values in (("before", series.get("before")), ("clocks_mhz", series.get("clocks_mhz"))):
        if values and len(values) != rounds:
            yield f" has {len(values)} values of `{name}` and {rounds} rounds"
    if any(clock is not None and clock < 0 for clock in series.get("clocks_mhz", ())):
        yield " has a clock below 0"
    energy = series.get("energy")
    if energy:
        yield from _of_energy(energy)


def _of_energy(energy: EnergyJson) -> Iterator[str]:
    lists = (energy["joules"], energy["blocks"], energy["us"], energy["watts"], energy["clocks_mhz"])
    if len({len(values) for values in lists}) > 1:
        yield ".energy has lists of different lengths"
    if any(value <= 0 for values in (energy["joules"], energy["us"], energy["watts"]) for value in values):
        yield ".energy has a number that is not above 0"
    if len(set(energy["blocks"])) < len(energy["blocks"]):
        yield ".energy has a block twice"
