"""Pages of Nsight Compute, written by hand, and a genuine one."""

from __future__ import annotations

import csv
import io

from support.klab import HERE

SOFTMAX_PAGE = HERE / "samples" / "ncu-raw-softmax.csv"  # written by ncu
ELEMENTWISE = (
    "void at::native::<unnamed>::vectorized_elementwise_kernel<4, at::native::GeluFunctor<float>, "
    "std::array<char *, 2>>(int, T2, T3)"
)
MB = 10**6
COST = {"bytes_read": 1000 * MB, "bytes_written": 1000 * MB, "flops": {}}


def launch(**more):
    """One launch for `raw`; `more` replaces its counters."""
    return {
        "time": 500.0, "read": 1000.0, "written": 980.0, "compute": 20.0, "memory": 90.0, "dram": 90.0,
        "registers": 18, "blocks": 4096, "threads": 128, "occupancy": 88.0, "id": 0, "name": "map_flat",
    } | more  # fmt: skip


def raw(*kernels):
    """A page `raw` in the layout of the genuine one; times in µs, bytes in megabytes, as ncu prints them by default."""
    columns = {
        "ID": ("id", ""),
        "Process ID": (7, ""),
        "Process Name": ("python", ""),
        "Host Name": ("host", ""),
        "Kernel Name": ("name", ""),
        "Block Size": ("({threads}, 1, 1)", ""),
        "Grid Size": ("({blocks}, 1, 1)", ""),
        "gpu__time_duration.sum": ("time", "us"),
        "dram__bytes_read.sum": ("read", "Mbyte"),
        "dram__bytes_write.sum": ("written", "Mbyte"),
        "sm__throughput.avg.pct_of_peak_sustained_elapsed": ("compute", "%"),
        "gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed": ("memory", "%"),
        "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed": ("dram", "%"),
        "sm__warps_active.avg.pct_of_peak_sustained_active": ("occupancy", "%"),
        "sm__maximum_warps_per_active_cycle_pct": (100, "%"),
        "launch__registers_per_thread": ("registers", "register/thread"),
        "device__attribute_multiprocessor_count": (132, ""),
    }
    rows = [list(columns), [unit for _, unit in columns.values()]]
    for kernel in kernels:
        values = (kernel.get(v, v.format(**kernel)) if isinstance(v, str) else v for v, _ in columns.values())
        rows.append([f"{value:,}" if isinstance(value, float) else str(value) for value in values])
    return "==PROF== Connected to process 7 (python)\n" + table(rows) + "==PROF== Disconnected from process 7\n"


def table(rows):
    text = io.StringIO()
    csv.writer(text, quoting=csv.QUOTE_ALL, lineterminator="\n").writerows(rows)
    return text.getvalue()


HEADER = [
    *("ID", "Process ID", "Process Name", "Host Name", "Kernel Name", "Context", "Stream", "Block Size", "Grid Size"),
    *("Device", "CC", "Section Name", "Metric Name", "Metric Unit", "Metric Value"),
    *("Rule Name", "Rule Type", "Rule Description", "Estimated Speedup Type", "Estimated Speedup"),
]


def details(*rules):
    """A page `details`: a metric, whose row ends early, then rules (id, section, rule, kind, words, scope, percent)."""
    first = ["7", "python", "host", "map_flat", "1", "7", "(128, 1, 1)", "(4096, 1, 1)", "0", "9.0"]
    rows = [HEADER, ["0", *first, "GPU Speed Of Light Throughput", "Duration", "ns", "500,000"]]
    rows += [[str(i), *first, section, "", "", "", *rest] for i, section, *rest in rules]
    return table(rows)


def grids():
    """Launches of square with four grids, for `raw`."""
    memory = {1: 0.4, 8: 3.1, 64: 24.0, 512: 71.5}
    return [
        launch(id=i, name="square_strided", blocks=n, time=80_000.0 / n, memory=share, compute=share / 4, dram=share)
        for i, (n, share) in enumerate(memory.items())
    ]
