"""The exhibits that need a GPU: each caught by what its label says, its right version never accused."""

import json
import subprocess
import sys

import pytest

from support.klab import klab_env
from support.museum import CALLS, EXHIBITS, LOST, MUSEUM, label

pytestmark = pytest.mark.gpu


def test_every_exhibit_that_needs_a_gpu_is_caught_and_its_right_version_is_not():
    names = [name for name in EXHIBITS if label(name, "NEEDS_GPU")]
    asked = [sys.executable, MUSEUM / "tour.py", "--device", "cuda", *names]
    done = subprocess.run(asked, capture_output=True, text=True, env=klab_env())
    assert done.returncode == 0, done.stderr[-2000:]
    seen = {(one["exhibit"], one["way"].split("-")[-1]): one for one in map(json.loads, done.stdout.splitlines())}
    for name in names:
        caught_by, wrong = label(name, "CAUGHT_BY"), seen[name, "wrong"]
        assert wrong["failures"], name
        assert not seen[name, "right"]["failures"], (name, seen[name, "right"]["failures"][:2])
        if caught_by not in LOST:
            assert any(CALLS.get(caught_by, caught_by) in failure["varied"] for failure in wrong["failures"]), name
