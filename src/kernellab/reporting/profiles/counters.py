"""What Nsight Compute counted, for the terminal: what limits each implementation, its bytes beside the declared ones,
then a row for each launch."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence

from kernellab.base.text import printable
from kernellab.counters.tables import BUSY_PERCENT, CountersDocument, ImplRow, KernelRow, RuleRow
from kernellab.reporting.text.layout import Layout
from kernellab.reporting.text.numbers import count, duration, memory, percent, ratio

_KINDS = {"OPT": "could gain", "WRN": "warns", "INF": "says"}
_SAME = 0.10  # counted bytes this close to the declared ones are called equal
_MOST_RULES = 4  # shown for a launch


def lines(document: CountersDocument, *, name_width: int) -> list[str]:
    if "sweep" in document:
        return [*_sweep_sentences(document["sweep"]), "", *_sweep_table(document["sweep"])]
    text: list[str] = []
    for impl in document["impls"]:
        text += [*_impl_sentences(impl), ""]
    kernels = [row for impl in document["impls"] for row in impl["kernels"]]
    text += _kernel_table(kernels, Layout(name_width))
    for row in kernels:
        text += _rules(row, name_width)
    for skipped in document.get("skipped", []):
        text.append(f"{skipped['impl']} was not counted: {skipped['reason']}")
    return text


# An implementation -------------------------------------------------------------------------------------


def _impl_sentences(impl: ImplRow) -> list[str]:
    kernels, time_us = impl["kernels"], impl["time_us"]
    took = f" in {duration(time_us)}" if time_us is not None else ""
    longest = max(kernels, key=lambda row: row["duration_us"] or 0.0)
    name = f"{impl['impl']}: " if impl["impl"] else ""
    text = [f"{name}{count(len(kernels), 'kernel')}{took}; {_limit_sentence(longest)}"]
    text += [f"  {line}" for line in (_bytes(impl), _roofline(impl)) if line]
    return text


def _limit_sentence(row: KernelRow) -> str:
    function = f"{row['function']}, " if row["function"] else ""
    if row["limit"] is None or row["memory_percent"] is None or row["compute_percent"] is None:
        return f"{function}throughput was not counted"
    both = f"memory {row['memory_percent']:.0f} %, compute {row['compute_percent']:.0f} % of peak throughput"
    return f"{function}limited by {_limit(row)} ({both})"


def _limit(row: KernelRow) -> str:
    if row["limit"] == "blocks" and row["sms"] is not None:
        return f"its grid: {row['sms'] - row['blocks']} of {row['sms']} multiprocessors have no block"
    if row["limit"] == "latency":
        occupancy = row["achieved_occupancy_percent"]
        occupied = f", occupancy {occupancy:.0f} %" if occupancy is not None else ""
        return f"latency: neither memory nor compute reaches {BUSY_PERCENT:.0f} %{occupied}"
    dram, memory_system = row["dram_percent"], row["memory_percent"]
    if row["limit"] == "memory" and dram is not None and memory_system is not None and 2 * dram < memory_system:
        return f"caches and shared memory, while DRAM is at {dram:.0f} %"
    return {"memory": "memory", "compute": "compute", "both": "memory and compute alike"}[row["limit"] or ""]


def _bytes(impl: ImplRow) -> str:
    counted, fewest, share = impl["counted_bytes"], impl["fewest_bytes"], impl["counted_to_fewest"]
    if counted is None:
        return "DRAM traffic was not counted"
    if not fewest or share is None:
        return f"DRAM moved {memory(counted)}; the op declares no bytes to compare with"
    if abs(share - 1) <= _SAME:
        judgement = "as many as necessary"
    elif share > 1:
        judgement = f"{ratio(share)} times as many as necessary"
    else:
        judgement = "fewer: the caches served the rest, or still hold what was written"
    return f"DRAM moved {memory(counted)}, declared are {memory(fewest)}: {judgement}"


def _roofline(impl: ImplRow) -> str:
    parts = []
    for source, roof in (("counted", impl["roofline"].get("counted")), ("declared", impl["roofline"].get("declared"))):
        if roof and roof["fraction"] is not None and roof["gbps"] is not None:
            parts.append(f"from {source} bytes {percent(roof['fraction'])} ({roof['gbps']:.0f} GB/s)")
    if not parts or impl["peak_gbps"] is None:
        return ""
    return f"share of the roofline, memory at {impl['peak_gbps']:.0f} GB/s: {', '.join(parts)}"


def _rules(row: KernelRow, width: int) -> list[str]:
    """ncu's own sentences; those that gain most of the launch's time come first."""
    rules = sorted(
        row["rules"], key=lambda rule: (rule["kind"] != "OPT", not _is_global(rule), -(rule["percent"] or 0.0))
    )
    if not rules:
        return []
    impl = f" of {row['impl']}" if row.get("impl") else ""
    text = ["", f"ncu on {printable(row['function'], width)}{impl}:"]
    for rule in rules[:_MOST_RULES]:
        gain = ""
        if rule["percent"] is not None:
            gain = f", {rule['percent']:.3g} % of {'its time' if _is_global(rule) else 'one unit’s work'}"
        text.append(f"  {rule['name']} {_KINDS.get(rule['kind'], rule['kind'])}{gain}: {rule['words']}")
    if len(rules) > _MOST_RULES:
        text.append(f"  and {len(rules) - _MOST_RULES} more in counters.json")
    return text


def _is_global(rule: RuleRow) -> bool:
    return rule["percent"] is not None and rule["scope"].lower() == "global"


def _kernel_table(kernels: Sequence[KernelRow], layout: Layout) -> list[str]:
    heads = ["kernel", "est. gain", "saves", "time", "compute", "memory", "registers", "grid", "block", "occupancy"]
    body = [
        [
            row["name"],
            _percent(row["estimated_speedup_percent"]),
            _time(row["possible_improvement_us"]),
            _time(row["duration_us"]),
            _percent(row["compute_percent"]),
            _percent(row["memory_percent"]),
            "–" if row["registers"] is None else str(row["registers"]),
            _size(row["grid"]),
            _size(row["block"]),
            _occupancy(row),
        ]
        for row in kernels
    ]
    return layout.table(heads, body)


# A sweep -----------------------------------------------------------------------------------------------


def _sweep_sentences(rows: Sequence[KernelRow]) -> list[str]:
    text = []
    for threads in dict.fromkeys(row["threads"] for row in rows):
        same_block = [row for row in rows if row["threads"] == threads]
        first, last = same_block[0], same_block[-1]
        if len(same_block) < 2 or first["limit"] is None or last["limit"] is None:
            continue
        memory_change = _change(same_block, lambda row: row["memory_percent"])
        compute_change = _change(same_block, lambda row: row["compute_percent"])
        text.append(
            f"Blocks of {threads}: from {count(first['blocks'], 'block')} to {last['blocks']} "
            f"memory throughput {memory_change}, compute {compute_change}"
        )
        for limit, limited in itertools.groupby(same_block, key=lambda row: row["limit"]):
            if limit is not None:
                row = next(limited)
                text.append(f"  from {count(row['blocks'], 'block')} on, limited by {_limit(row)}")
    timed = [(row["duration_us"], row) for row in rows if row["duration_us"]]
    if len(timed) > 1:
        best_us, best = min(timed, key=lambda pair: pair[0])
        worst_us, worst = max(timed, key=lambda pair: pair[0])
        text.append(
            f"Fastest: {count(best['blocks'], 'block')} of {best['threads']}, {duration(best_us)}, "
            f"{ratio(worst_us / best_us)} times as fast as {count(worst['blocks'], 'block')} of {worst['threads']}"
        )
    return text or ["too little was counted to show the effect of the grid"]


def _change(rows: Sequence[KernelRow], counter: Callable[[KernelRow], float | None]) -> str:
    """How a counter changes over the rows, of which the first and the last have it."""
    values = [value for row in rows if (value := counter(row)) is not None]
    ends = f"from {values[0]:.3g} % to {values[-1]:.3g} %"
    if len(values) < len(rows):
        return ends
    steps = [after - before for before, after in itertools.pairwise(values)]
    if all(step > 0 for step in steps):
        return f"rises {ends}"
    if all(step < 0 for step in steps):
        return f"falls {ends}"
    return f"goes {ends}, at most {max(values):.3g} %"


def _sweep_table(rows: Sequence[KernelRow]) -> list[str]:
    heads = ["grid", "block", "time", "memory", "compute", "DRAM", "occupancy", "est. gain", "saves"]
    body = [
        [
            str(row["blocks"]),
            str(row["threads"]),
            _time(row["duration_us"]),
            _percent(row["memory_percent"]),
            _percent(row["compute_percent"]),
            _percent(row["dram_percent"]),
            _occupancy(row),
            _percent(row["estimated_speedup_percent"]),
            _time(row["possible_improvement_us"]),
        ]
        for row in rows
    ]
    return Layout().table(heads, body)


def _occupancy(row: KernelRow) -> str:
    return f"{_percent(row['achieved_occupancy_percent'])} of {_percent(row['theoretical_occupancy_percent'])}"


def _percent(value: float | None) -> str:
    return "–" if value is None else f"{value:.3g} %"


def _time(us: float | None) -> str:
    return "–" if us is None else duration(us)


def _size(dims: Sequence[int]) -> str:
    """`128`, `16×16`: without trailing ones."""
    x, y, z = dims
    return "×".join(map(str, (x, y, z) if z != 1 else (x, y) if y != 1 else (x,)))
