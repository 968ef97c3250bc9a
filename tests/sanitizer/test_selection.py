"""The trials that run under compute-sanitizer."""

import pytest

from kernellab.declaration.targets import load, resolve, shipped_names
from kernellab.sanitizer.selection import MAX_TRIALS, select
from kernellab.trials import calls
from kernellab.trials.battery import battery


@pytest.mark.parametrize("name", shipped_names())
def test_the_selection_is_small_and_varied(name):
    for op in load(resolve(name)).values():
        trials = battery(op, "cuda")
        chosen = select(trials)
        assert 20 <= len(chosen) <= MAX_TRIALS
        assert chosen == select(trials)
        assert {t.call for t in chosen} == {calls.PLAIN}
        assert {t.pass_name for t in chosen} == {"forward", "backward"}
        assert {"sizes", "layouts", "dtypes", "gradients"} <= {t.kind for t in chosen}
        assert {t.case.dtype for t in chosen} >= {"float32", "bfloat16"}
        assert len(select(trials, 10)) == 10
        assert len({t.kind for t in select(trials, 10)}) >= 6
