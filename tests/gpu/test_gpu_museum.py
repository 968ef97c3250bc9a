"""The exhibits that need a GPU: each is caught by what its label says, and its right version passes."""

import json
import subprocess
import sys

import pytest

from support.klab import klab_env
from support.museum import EXHIBITS, MUSEUM, is_caught, label

pytestmark = pytest.mark.gpu


def test_every_exhibit_that_needs_a_gpu_is_caught_and_its_right_version_is_not():
    names = [name for name in EXHIBITS if label(name, "NEEDS_GPU")]
    command = [sys.executable, MUSEUM / "tour.py", "--device", "cuda", *names]
    done = subprocess.run(command, capture_output=True, text=True, env=klab_env())
    assert done.returncode == 0, done.stderr[-2000:]
    lines = map(json.loads, done.stdout.splitlines())
    failures = {(line["exhibit"], line["impl"].split("-")[-1]): line["failures"] for line in lines}
    for name in names:
        assert is_caught(name, failures[name, "wrong"]), name
        assert not failures[name, "right"], (name, failures[name, "right"][:2])
