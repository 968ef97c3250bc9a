"""The benchmark of counters: which figures it takes for problems."""

import importlib.util

from support.klab import HERE


def test_bytes_far_from_the_declared_ones_and_throughput_that_does_not_rise_are_problems():
    path = HERE.parent / "benchmarks" / "counters.py"
    spec = importlib.util.spec_from_file_location("benchmark_of_counters", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    shares = [("gelu", "a", 1.09), ("gelu", "b", 1.2), ("add", "c", None), ("matmul", "d", 3)]
    rows = [{"op": op, "way": impl, "counted_to_fewest": share} for op, impl, share in shares]
    assert [problem.split(":")[0] for problem in module.far(rows)] == ["gelu b", "add c"]
    rows = [{"threads": t, "memory_percent": p} for t in (128, 256) for p in (1, 2, 3, 4)]
    assert module.rising(rows) == []
    rows[-1]["memory_percent"] = 2.5
    assert len(module.rising(rows)) == len(module.rising(rows[:-1])) == 1
