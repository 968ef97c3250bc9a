"""benchmarks/counters.py: which figures it reports as problems."""

from support.benchmarks import load_script


def test_bytes_far_from_the_declared_ones_and_throughput_that_does_not_rise_are_problems():
    module = load_script("counters")
    shares = [("gelu", "a", 1.09), ("gelu", "b", 1.2), ("add", "c", None), ("matmul", "d", 3)]
    rows = [{"op": op, "impl": impl, "counted_to_fewest": share} for op, impl, share in shares]
    assert [problem.split(":")[0] for problem in module.check_bytes(rows)] == ["gelu b", "add c"]
    rows = [{"threads": t, "memory_percent": p} for t in (128, 256) for p in (1, 2, 3, 4)]
    assert module.check_rising(rows) == []
    rows[-1]["memory_percent"] = 2.5
    assert len(module.check_rising(rows)) == len(module.check_rising(rows[:-1])) == 1
