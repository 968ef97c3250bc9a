"""Records for tests of explanations: results of an H200, and machine code compiled for it."""

from support.subjects import CASE, CEILINGS, COST, GB

GPU = {"name": "NVIDIA H200", "arch": "sm_90", "sms": 132, "l2_bytes": 50 << 20, "memory_bytes": 1, "pin_gbps": 4917.0}
# `support.subjects.CHAIN` in the form of a record.
CHAIN_TRAFFIC = [
    {"op": "aten::mul", "read_bytes": tensors * GB, "write_bytes": GB, "kernels": [number]}
    for number, tensors in enumerate((1, 2, 1, 1))
]


def series(us, timer="events", cache="cold"):
    return {
        **{"pass": "forward", "timer": timer, "cache": cache, "status": "ok", "reason": None},
        "samples_us": [us] * 5,
        "rounds": list(range(5)),
    }


def result(impl, us, *, more_series=(), **fields):
    return {
        "op": "f",
        "impl": impl,
        "kind": impl,
        "case": CASE,
        "check": {"status": "ok"},
        "times": [series(us), *more_series],
        "cost": {"forward": COST},
        "kernels": None,
        "inside": None,
        "traffic": None,
        **fields,
    }


def record(*results, code=()):
    return {"results": list(results), "machine": {"ceilings": CEILINGS, "gpu": GPU}, "code": list(code)}


def code_entry(*kernels, **fields):
    return {
        **{"op": "f", "impl": "triton", "kind": "triton", "case": CASE, "arch": "sm_90", "pass": "forward"},
        **{"gpu": "H100 SXM5 80GB", "status": "ok", "reason": "", "cost": COST, "traffic": []},
        "kernels": list(kernels),
        **fields,
    }


def code_kernel(*, grid=(8, 1, 1), **facts):
    """A load and a store of 16 bytes by 1024 threads."""
    accesses = [{"kind": "global_load", "bytes": 16, "count": 1}, {"kind": "global_store", "bytes": 16, "count": 1}]
    all_facts = {
        **{"registers": 20, "spill_bytes": 0, "stack_bytes": 0, "accesses": accesses, "loops": []},
        **{"instructions": {"global_load": 1, "global_store": 1}, "widest_global_bytes": 16, "flight_bytes": 16},
        **facts,
    }
    occupancy = {"blocks_per_sm": 16, "fraction": 1.0, "limiter": "threads", "remedy": "", "l1_bytes": 0}
    return {
        **{"name": "k", "times": 1, "grid": list(grid), "block": [128, 1, 1], "shared_total_bytes": 0, "sectors": 1.0},
        **{"facts": all_facts, "occupancy": occupancy, "parameters": [{"bytes": GB}, {"bytes": GB}], "tuned": None},
    }


def loop(instructions, *, sources=(), statement="", load_bytes=0.0, turns=None, waits=False, depth=1, size=9):
    return {
        **{"depth": depth, "size": size, "instructions": instructions},
        **{"sources": list(sources), "statement": statement, "load_bytes": load_bytes, "turns": turns, "waits": waits},
    }


def tuned_entry(*flights, **fields):
    """An autotuned kernel with one configuration for each number of bytes in flight; None for one that does not fit."""
    kernels = [
        {
            **(code_kernel(flight_bytes=flight) if flight else {"name": "k", "facts": None, "occupancy": None}),
            **{"kind": "triton", "tuned": [index, len(flights)], "refusal": "" if flight else "out of shared memory"},
            "config": {"num_warps": 4, "constexprs": {"BLOCK": 64 * (index + 1)}},
        }
        for index, flight in enumerate(flights)
    ]
    return code_entry(*kernels, gpu=GPU["name"], **fields)
