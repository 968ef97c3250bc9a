"""A mistake in an op file never crashes the tool or hangs it, and its culprit is named.

The nastiest of the mistakes that benchmarks/mistakes.py draws at random, run through the same code. Mistakes that
leave something behind for their neighbours share a file: each must cost only itself.
"""

import importlib.util
import os
import random
from pathlib import Path

import pytest

from support import mistakes
from support.klab import HERE

_spec = importlib.util.spec_from_file_location("benchmark_mistakes", HERE.parent / "benchmarks" / "mistakes.py")
benchmark = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(benchmark)

WAYS = {bad.name: bad for bad in mistakes.IN_WAYS}


def ways(*names, **more):
    return mistakes.in_ways(random.Random(0), [WAYS[name] for name in names], **more)


FILES = {
    "litter": lambda: ways(
        *("resizes its input", "raises a hostile exception", "raises a long message", "leaves warnings as errors"),
        *("closes sys.stdout", "removes its folder", "leaves an alarm", "leaves a limit on memory", "replaces open"),
        *("replaces a method of Tensor", "leaves a small recursion limit", "sparse", "supports= returns None"),
    ),
    "deaths": lambda: ways("an unusual signal", "forks and both go on", "closes all descriptors"),
    "a hang in the collector": lambda: ways("loops in __del__ when collected"),
    "a yardstick that meddles": lambda: ways("replaces torch.equal", name="torch"),
    "a yardstick that hangs": lambda: ways("sleeps in supports=", name="torch"),
    "a file that hangs": lambda: mistakes.in_module(random.Random(0), "loops for ever"),
    "a cost= that hangs": lambda: mistakes.cost(random.Random(0)),
}


@pytest.mark.parametrize("name", FILES)
def test_the_culprit_is_named_in_time(name, tmp_path):
    mistake = FILES[name]()
    # Who hangs outside of every way has five times as long: no need to wait for all of it here.
    timeout_s = 1 if name in ("a file that hangs", "a cost= that hangs") else benchmark.TIMEOUT_S
    seen = benchmark.run(mistake, tmp_path / "files", cache=Path(os.environ["KERNELLAB_CACHE"]), timeout_s=timeout_s)
    assert seen["violations"] == [], mistake.source


def test_a_seed_gives_one_file():
    assert [mistakes.generate(n).source for n in range(50)] == [mistakes.generate(n).source for n in range(50)]
