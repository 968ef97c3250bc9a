"""The columns of exported results: their names, what they mean, and what they hold. They are the same for every run.

`docs/exports.md` has them as a table, which `python -m kernellab.reporting.exports.columns docs/exports.md` renews.
"""

from __future__ import annotations

import functools
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from kernellab.energy.documents import EnergyRatio, EnergyVerdict
from kernellab.record.derived import DerivedRecord, DerivedResult, PassVerdict, Speedup, TimeVerdict
from kernellab.record.schema import ErrorsJson

Value = str | int | float | None


@dataclass(frozen=True)
class Row:
    """What one row is about: one pass of one result of a record."""

    record: DerivedRecord
    result: DerivedResult
    pass_name: str

    @property
    def verdict(self) -> PassVerdict:
        return self.result["derived"]["passes"][self.pass_name]

    @property
    def errors(self) -> ErrorsJson | None:
        check = self.result["check"]
        return check.get("errors") if check else None


@dataclass(frozen=True)
class Column:
    name: str
    meaning: str
    value: Callable[[Row], Value]
    is_number: bool = False


_number = functools.partial(Column, is_number=True)


def rows(record: DerivedRecord) -> list[dict[str, Value]]:
    """Every result of a derived record, one row for each pass; None where there is no value."""
    return [
        {column.name: column.value(row) for column in COLUMNS}
        for result in record["results"]
        for row in (Row(record, result, pass_name) for pass_name in result["derived"]["passes"])
    ]


# What columns hold -------------------------------------------------------------------------------------


def _dims(row: Row) -> str:
    """`M=4096 N=4096`; the sizes of `...` joined by x."""
    dims = row.result["case"]["dims"]
    return " ".join(f"{name}={'x'.join(map(str, n)) if isinstance(n, list) else n}" for name, n in dims.items())


def _options(row: Row) -> str:
    return " ".join(f"{name}={value}" for name, value in row.result["case"]["options"].items())


def _of_time(read: Callable[[TimeVerdict], Value]) -> Callable[[Row], Value]:
    def value(row: Row) -> Value:
        time = row.verdict["time"]
        return None if time is None else read(time)

    return value


def _trust(row: Row) -> Value:
    trust = row.verdict["trust"]
    return None if trust is None else trust["verdict"]


def _speedup_trust(which: Literal["baseline", "fastest_other"]) -> Callable[[Row], Value]:
    def value(row: Row) -> Value:
        speedup = row.verdict["speedup"][which]
        return None if speedup is None else speedup["trust"]["verdict"]

    return value


def _of_energy(read: Callable[[EnergyVerdict], Value]) -> Callable[[Row], Value]:
    def value(row: Row) -> Value:
        energy = row.verdict["energy"]
        return None if energy is None else read(energy)

    return value


def _of_energy_ratio(
    which: Literal["baseline", "fastest_other"], read: Callable[[EnergyRatio], Value]
) -> Callable[[Row], Value]:
    def value(row: Row) -> Value:
        ratio = row.verdict["energy_ratio"][which]
        return None if ratio is None else read(ratio)

    return value


def _clock(row: Row) -> Value:
    power = row.verdict["power"]
    return None if power is None else power["clock_mhz"]


def _power_limited(row: Row) -> Value:
    power = row.verdict["power"]
    return None if power is None else "yes" if power["at_limit"] else "no"


def _of_baseline(read: Callable[[Speedup], Value]) -> Callable[[Row], Value]:
    def value(row: Row) -> Value:
        speedup = row.verdict["speedup"]["baseline"]
        return None if speedup is None else read(speedup)

    return value


def _of_fastest_other(read: Callable[[Speedup], Value]) -> Callable[[Row], Value]:
    def value(row: Row) -> Value:
        speedup = row.verdict["speedup"]["fastest_other"]
        return None if speedup is None else read(speedup)

    return value


def _bytes(row: Row) -> Value:
    return limit["bytes"] if (limit := row.verdict["limit"]) else None


def _flops(row: Row) -> Value:
    return sum(limit["flops"].values()) if (limit := row.verdict["limit"]) else None


def _gbps(row: Row) -> Value:
    return limit["gbps"] if (limit := row.verdict["limit"]) else None


def _tflops(row: Row) -> Value:
    return limit["tflops"] if (limit := row.verdict["limit"]) else None


def _bound(row: Row) -> Value:
    return limit["bound"] if (limit := row.verdict["limit"]) else None


def _fraction(row: Row) -> Value:
    return limit["fraction"] if (limit := row.verdict["limit"]) else None


def _error(row: Row) -> Value:
    return row.errors["max"] if row.errors else None


def _memory(row: Row) -> Value:
    memory = row.result["memory"].get(row.pass_name, {})
    return memory.get("allocated_bytes", memory.get("resident_bytes"))


def _kernels(row: Row) -> Value:
    kernels = row.result["kernels"]
    return None if kernels is None else len(kernels)


def _version(package: str) -> Callable[[Row], Value]:
    return lambda row: row.record["environment"].get("packages", {}).get(package)


COLUMNS = (
    Column("op", "the op", lambda row: row.result["op"]),
    Column("impl", "the implementation", lambda row: row.result["impl"]),
    Column("kind", "its kind: `manual`, `torch`, `compile`, `triton`, …", lambda row: row.result["kind"]),
    Column("dims", "sizes by name, `M=4096 N=4096`", _dims),
    Column("dtype", "of the inputs", lambda row: row.result["case"]["dtype"]),
    Column("options", "of the op, `approximate=tanh`", _options),
    Column("layout", "of the inputs", lambda row: row.result["case"]["layout"]),
    Column("device", "`cpu` or `cuda:0`", lambda row: row.record["machine"].get("device")),
    Column("pass", "`forward`, `backward` or `both`", lambda row: row.pass_name),
    Column("status", "[the status](verdicts.md#statuses)", lambda row: row.result["derived"]["status"]),
    Column("reason", "why, for everything but `ok`", lambda row: row.result["derived"]["reason"]),
    Column("timer", "which timer", _of_time(lambda time: time["timer"])),
    Column("cache", "`cold` or `warm`", _of_time(lambda time: time["cache"])),
    _number("median_us", "the time in microseconds, median over rounds", _of_time(lambda time: time["median_us"])),
    _number("low_us", "lower end of its 99 % interval", _of_time(lambda time: time["low_us"])),
    _number("high_us", "upper end", _of_time(lambda time: time["high_us"])),
    _number("rounds", "rounds that were timed", _of_time(lambda time: time["rounds"])),
    Column("trust", "`trusted`, or why the time cannot be trusted", _trust),
    Column("baseline", "the implementation of the next four columns", _of_baseline(lambda s: s["over"])),
    _number("speedup", "how many times as fast as the baseline", _of_baseline(lambda s: s["median"])),
    _number("speedup_low", "lower end of its 99 % interval", _of_baseline(lambda s: s["low"])),
    _number("speedup_high", "upper end", _of_baseline(lambda s: s["high"])),
    Column("speedup_verdict", "`faster`, `slower`, `same` or `not resolved`", _of_baseline(lambda s: s["verdict"])),
    Column("speedup_trust", "`trusted`, or why the comparison cannot be trusted", _speedup_trust("baseline")),
    Column("rival", "the fastest of the other implementations", _of_fastest_other(lambda s: s["over"])),
    _number("over_rival", "how many times as fast as the rival", _of_fastest_other(lambda s: s["median"])),
    _number("over_rival_low", "lower end of its 99 % interval", _of_fastest_other(lambda s: s["low"])),
    _number("over_rival_high", "upper end", _of_fastest_other(lambda s: s["high"])),
    Column("over_rival_verdict", "as `speedup_verdict`", _of_fastest_other(lambda s: s["verdict"])),
    Column("over_rival_trust", "as `speedup_trust`", _speedup_trust("fastest_other")),
    _number("energy_j", "joules per call, after `--energy`, median over blocks", _of_energy(lambda e: e["median_j"])),
    _number("energy_low_j", "lower end of its 99 % interval", _of_energy(lambda e: e["low_j"])),
    _number("energy_high_j", "upper end", _of_energy(lambda e: e["high_j"])),
    _number("power_w", "mean power in the blocks", _of_energy(lambda e: e["watts"])),
    _number("energy_ratio", "energy relative to the baseline's", _of_energy_ratio("baseline", lambda e: e["median"])),
    _number("energy_ratio_low", "lower end of its 99 % interval", _of_energy_ratio("baseline", lambda e: e["low"])),
    _number("energy_ratio_high", "upper end", _of_energy_ratio("baseline", lambda e: e["high"])),
    Column(
        "energy_verdict",
        "`less`, `more`, `same` or `not resolved`",
        _of_energy_ratio("baseline", lambda e: e["verdict"]),
    ),
    _number(
        "energy_over_rival",
        "energy relative to the rival's",
        _of_energy_ratio("fastest_other", lambda e: e["median"]),
    ),
    Column(
        "energy_over_rival_verdict", "as `energy_verdict`", _of_energy_ratio("fastest_other", lambda e: e["verdict"])
    ),
    _number("clock_mhz", "of the GPU while it was timed, median", _clock),
    Column("power_limited", "whether the GPU was at its power limit while it was timed: `yes`, `no`", _power_limited),
    _number("bytes", "the fewest that the pass must move", _bytes),
    _number("flops", "operations of the pass", _flops),
    _number("gbps", "bytes over time, in GB/s", _gbps),
    _number("tflops", "matmul operations over time, in TFLOP/s", _tflops),
    Column("bound", "what limits it: `memory` or `matmul`", _bound),
    _number("fraction", "the share of that limit which was reached", _fraction),
    _number("error", "the largest error, in roundings of the dtype", _error),
    _number("memory_bytes", "peak memory of a call", _memory),
    _number("kernels", "kernels per call, on a GPU", _kernels),
    _number("build_s", "seconds to compile or build", lambda row: row.result["derived"]["build_s"]),
    Column("began", "when the run began", lambda row: row.record.get("began")),
    Column("machine", "the device with its driver or threads", lambda row: row.record["machine"].get("class")),
    _number("seed", "of all inputs", lambda row: row.record["seed"]),
    Column("commit", "of the folder in which the run began", lambda row: row.record["environment"].get("commit")),
    Column("python", "version", lambda row: row.record["environment"].get("python")),
    Column("torch", "version", _version("torch")),
    Column("triton", "version", _version("triton")),
    Column("kernellab", "version", _version("kernellab")),
    _number("rules", "version of the rules of verdicts", lambda row: row.result["derived"]["rules"]),
)


def table() -> str:
    """The columns as a table of the documentation."""
    return "\n".join(["| column | |", "|---|---|", *(f"| `{c.name}` | {c.meaning} |" for c in COLUMNS)])


def renew(page: str) -> str:
    """A page with its table of columns as they are today."""
    return re.sub(r"(<!-- columns -->\n).*?(<!-- end -->)", lambda m: f"{m[1]}{table()}\n{m[2]}", page, flags=re.DOTALL)


if __name__ == "__main__":
    file = Path(sys.argv[1])
    file.write_text(renew(file.read_text()))
