"""A museum of bugs: each exhibit is caught, its right version never accused, and no guard is there for nothing."""

import fcntl
import json
import math
import re
import subprocess
import sys

import pytest

from support.klab import HERE, klab_env
from support.museum import CALLS, EXHIBITS, LOST, MUSEUM, label

# A guard, and an exhibit that is lost without it.
GPU_ONLY = {"large", "stream", "graph"}


def tour(*options):
    return subprocess.Popen(
        [sys.executable, MUSEUM / "tour.py", "--quick", *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=klab_env(OMP_NUM_THREADS="1"),
    )


def heard(process):
    out, err = process.communicate()
    assert process.returncode == 0, err[-2000:]
    return [json.loads(line) for line in out.splitlines()]


@pytest.fixture(scope="module")
def toured(tmp_path_factory, request):
    """One tour serves all, whichever processes the tests are in: the first to come makes it, others wait."""
    shared = tmp_path_factory.getbasetemp()
    if hasattr(request.config, "workerinput"):
        shared = shared.parent
    with (shared / "museum.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        kept = shared / "museum.json"
        if not kept.exists():
            both = [tour("--scripts", *on_the_cpu()), tour("--scripts", "--interpreter", *on_the_cpu())]
            kept.write_text(json.dumps([one for process in both for one in heard(process)]))
    return {(one["exhibit"], one["way"].split("-")[-1]): one for one in json.loads(kept.read_text())}


def on_the_cpu():
    return [name for name in EXHIBITS if not label(name, "NEEDS_GPU")]


def test_there_are_enough_exhibits_and_sources():
    assert len(EXHIBITS) >= 25
    assert len(on_the_cpu()) >= 12
    sources = [label(name, "SOURCE") for name in EXHIBITS]
    cited = {source for source in sources if source}
    assert len(cited) >= 10
    assert all(re.fullmatch(r"https://github\.com/[\w.-]+/[\w.-]+/(issues|pull)/\d+", source) for source in cited)


def test_every_exhibit_without_a_gpu_is_caught_as_its_label_says(toured):
    for name in on_the_cpu():
        wrong, caught_by = toured[name, "wrong"], label(name, "CAUGHT_BY")
        assert wrong["failures"], name
        if caught_by not in LOST:
            wanted = CALLS.get(caught_by, caught_by)
            assert any(wanted in failure["varied"] for failure in wrong["failures"]), name


def test_no_right_version_is_accused(toured):
    for name in on_the_cpu():
        right = toured[name, "right"]
        assert not right["failures"], (name, right["failures"][:2])
        assert right["tried"] >= 10, name


def test_every_script_fails_as_kernellab_saw_it_where_there_is_no_kernellab(toured):
    made = [one for (_, way), seen in toured.items() if way == "wrong" for one in seen["scripts"]]
    assert {one["exhibit"] for one in made} == set(on_the_cpu())
    unseen = [one for one in made if "is seen by kernellab alone" in one["script"]]
    assert {one["exhibit"] for one in unseen} == {"compiled_in_name_only"}
    for interpreted in (False, True):
        scripts = [one for one in made if one not in unseen and ("TRITON_INTERPRET" in one["script"]) is interpreted]
        done = subprocess.run(
            [sys.executable, "-P", MUSEUM / "alone.py"],
            input="\n".join(map(json.dumps, scripts)),
            capture_output=True,
            text=True,
            env=klab_env(OMP_NUM_THREADS="1"),
        )
        assert done.returncode == 0, done.stderr[-2000:]
        ran = [json.loads(line) for line in done.stdout.splitlines()]
        assert len(ran) == len(scripts)
        for one in ran:
            assert_shows(one["reason"], one["printed"], one)


def assert_shows(reason, printed, one):
    """A script prints what a reason says."""
    if found := re.search(r"at \[[\d, ]*\] (\S+), should be (\S+)", reason):
        got, want = map(float, found.groups())
        worst = max(float(number) for number in re.findall(r"worst difference: (\S+)", printed))
        # A reason is rounded to six digits, and what is read from memory that is nobody's differs from time to time:
        # poison under kernellab, anything elsewhere.
        apart = abs(got - want) if math.isfinite(got) else math.inf
        off = min(apart, abs(want) or 1) / 2 - 2e-6 * abs(want) if math.isfinite(want) else math.inf
        assert worst >= off, one
        assert worst > 0, one
        return
    shown = {
        "changed its input": "as it was: False",
        "returned the memory": "in the memory of x: True",
        "not repeatable": r"values that differ between two calls: [1-9]",
        "its second call changed": "the first result is as it was: False",
        "its call on other inputs": "the first result is as it was: False",
        "reads outside its inputs": r"values that differ between two calls: [1-9]",
        "dtype float32, should be bfloat16": r"got .*float32[^$]*should be .*bfloat16",
        "wrote outside one of its inputs": r"bytes written around inputs: [1-9]",
        "torch.library.opcheck": "raised .*OpCheckError",
        "gradcheck": "raised .*GradcheckError",
    }
    (pattern,) = [text for start, text in shown.items() if reason.startswith(start)] or [f"no way to show: {reason}"]
    assert re.search(pattern, printed), one


def test_each_kind_of_trial_catches_what_no_other_does(toured):
    kinds = {label(name, "CAUGHT_BY") for name in EXHIBITS} - set(LOST) - GPU_ONLY
    for kind in kinds:
        only = [
            name
            for name in on_the_cpu()
            if toured[name, "wrong"]["failures"]
            and all(CALLS.get(kind, kind) in failure["varied"] for failure in toured[name, "wrong"]["failures"])
        ]
        assert only, f"nothing is lost without {kind}"


def test_each_guard_switched_off_loses_an_exhibit():
    pairs = [f"{name}:{guard}" for guard, name in LOST.items()]
    both = [tour(*pairs), tour("--interpreter", *pairs)]
    seen = {one["without"]: one for process in both for one in heard(process)}
    for guard, name in LOST.items():
        assert label(name, "CAUGHT_BY") in (guard, "values"), name
        assert not seen[guard]["failures"], (guard, seen[guard]["failures"][:1])


def test_the_guards_are_all_there_are():
    from kernellab.checking.examiner import GUARDS

    assert set(LOST) == GUARDS


def test_the_table_in_the_docs_is_the_museum():
    rows = re.findall(r"^\| \[(\w+)\]\(\.\./tests/museum/\w+\.py\) \|.*\| ([\w ]+) \|", _table(), flags=re.M)
    assert {name for name, _ in rows} == set(EXHIBITS)


def _table():
    return (HERE.parent / "docs" / "museum.md").read_text()
