"""A mistake in an op file never crashes the tool or hangs it, and its culprit is named.

The worst of the mistakes that benchmarks/mistakes.py draws at random, run through the same code. Mistakes that leave
something behind for the next implementation share a file: each must fail alone.
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

BAD_IMPLS = {bad.name: bad for bad in mistakes.IN_IMPLS}


def with_impls(*names, **more):
    return mistakes.in_impls(random.Random(0), [BAD_IMPLS[name] for name in names], **more)


FILES = {
    "litter": lambda: with_impls(
        *("resizes its input", "raises a hostile exception", "raises a long message", "leaves warnings as errors"),
        *("closes sys.stdout", "removes its folder", "leaves an alarm", "leaves a limit on memory", "replaces open"),
        *("replaces a method of Tensor", "leaves a small recursion limit", "sparse", "supports= returns None"),
    ),
    "deaths": lambda: with_impls("an unusual signal", "forks and both go on", "closes all descriptors"),
    "a hang in the collector": lambda: with_impls("loops in __del__ when collected"),
    "a peer that replaces functions": lambda: with_impls("replaces torch.equal", name="torch"),
    "a peer that hangs": lambda: with_impls("sleeps in supports=", name="torch"),
    "a file that hangs": lambda: mistakes.in_module(random.Random(0), "loops for ever"),
    "a cost= that hangs": lambda: mistakes.cost(random.Random(0)),
}


@pytest.mark.parametrize("name", FILES)
def test_the_culprit_is_named_in_time(name, tmp_path):
    mistake = FILES[name]()
    # Code outside implementations gets five times the timeout, so the test uses a shorter one.
    timeout_s = 1 if name in ("a file that hangs", "a cost= that hangs") else benchmark.TIMEOUT_S
    seen = benchmark.run(mistake, tmp_path / "files", cache=Path(os.environ["KERNELLAB_CACHE"]), timeout_s=timeout_s)
    assert seen["violations"] == [], mistake.source


def test_the_same_seed_gives_the_same_file():
    assert [mistakes.generate(n).source for n in range(50)] == [mistakes.generate(n).source for n in range(50)]
