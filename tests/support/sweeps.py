"""Records of sweeps, and what is printed of them."""

import io

from rich.console import Console

from kernellab.record.journal import empty_record
from kernellab.record.verdict import derive
from kernellab.reporting.terminal.results import show
from support.records import result, timed

_CEILINGS = {"copy_gbps": 100.0, "matmul_tflops": {"float32": 1.0}}
_GPU = {"name": "H", "uuid": "GPU-1", "driver": "9"}


def at(entry, dims, *, dtype="float32", op="f", **options):
    """A result moved to a case."""
    case = {"dims": dims, "dtype": dtype, "options": options, "layout": "contiguous", "device": "cpu"}
    return {**entry, "op": op, "case": case}


def derived_record(*results, stages=("check", "time")):
    return derive(
        {
            **empty_record(),
            "results": list(results),
            "machine": {"ceilings": _CEILINGS, "device": "cpu", "name": "H GPU-1 driver 9"},
            "environment": {
                "python": "3.11.7",
                "cpu": {"name": "C"},
                "packages": {"torch": "2.13", "numpy": "2"},
                "gpus": [_GPU],
            },
            "stages": list(stages),
            "complete": True,
            "began": "2026-11-15T06:00:00+0000",
        }
    )


def swept(sizes=(64, 128, 256, 512, 1024, 2048, 4096, 8192)):
    """torch takes N µs and cpp 2000 µs at any size; liar is wrong beyond 1024, cuda needs a GPU."""
    results = []
    for n in sizes:
        dims = {"...": [32], "N": n}
        results += [at(timed("torch", n), dims), at(timed("cpp", 2000), dims)]
        wrong = result("liar", status="wrong", reason=f"values: at [0, {n}]")
        results.append(at(timed("liar", 3000) if n <= 1024 else wrong, dims))
        results.append(at(result("cuda", status="skipped", reason="needs a GPU"), dims))
    return derived_record(*results)


def console(width=240, terminal=False):
    return Console(file=io.StringIO(), width=width, force_terminal=terminal, color_system=None, highlight=False)


def printed(record, **more):
    out = console(**more)
    show(record, out)
    return out.file.getvalue()
