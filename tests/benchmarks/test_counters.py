"""The benchmark of counters judges bytes and throughput."""

import importlib.util

from support.klab import HERE


def test_bytes_far_from_declared_and_throughput_that_does_not_rise_are_reported():
    path = HERE.parent / "benchmarks" / "counters.py"
    spec = importlib.util.spec_from_file_location("benchmark_of_counters", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    ways = [{"op": "gelu", "way": "a", "counted_to_fewest": 1.09}, {"op": "gelu", "way": "b", "counted_to_fewest": 1.2}]
    ways += [{"op": "add", "way": "c", "counted_to_fewest": None}, {"op": "matmul", "way": "d", "counted_to_fewest": 3}]
    assert [problem.split(":")[0] for problem in module.far(ways)] == ["gelu b", "add c"]
    rows = [{"threads": t, "memory_percent": p} for t in (128, 256) for p in (1, 2, 3, 4)]
    assert module.rising(rows) == []
    rows[-1]["memory_percent"] = 2.5
    assert len(module.rising(rows)) == len(module.rising(rows[:-1])) == 1
