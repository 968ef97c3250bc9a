"""The museum of bugs: each exhibit is caught, its right version passes, and every guard is needed."""

import fcntl
import json
import math
import re
import subprocess
import sys

import pytest

from kernellab.checking.examiner import GUARDS
from support.klab import HERE, klab_env
from support.museum import CALLS, EXHIBITS, MISSED_WITHOUT, MUSEUM, is_caught, label

# Kinds of trials that catch something only on a GPU.
GPU_ONLY = {"large", "stream", "graph"}


def start_tour(*options):
    return subprocess.Popen(
        [sys.executable, MUSEUM / "tour.py", "--quick", *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=klab_env(OMP_NUM_THREADS="1"),
    )


def lines_of(process):
    out, err = process.communicate()
    assert process.returncode == 0, err[-2000:]
    return [json.loads(line) for line in out.splitlines()]


@pytest.fixture(scope="module")
def tour(tmp_path_factory, request):
    """One tour for all tests: the first process that needs it runs it, the others wait."""
    shared = tmp_path_factory.getbasetemp()
    if hasattr(request.config, "workerinput"):
        shared = shared.parent
    with (shared / "museum.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        results = shared / "museum.json"
        if not results.exists():
            both = [start_tour("--scripts", *on_the_cpu()), start_tour("--scripts", "--interpreter", *on_the_cpu())]
            results.write_text(json.dumps([line for process in both for line in lines_of(process)]))
    return {(line["exhibit"], line["impl"].split("-")[-1]): line for line in json.loads(results.read_text())}


def on_the_cpu():
    return [name for name in EXHIBITS if not label(name, "NEEDS_GPU")]


def test_there_are_enough_exhibits_and_sources():
    assert len(EXHIBITS) >= 25
    assert len(on_the_cpu()) >= 12
    sources = [label(name, "SOURCE") for name in EXHIBITS]
    cited = {source for source in sources if source}
    assert len(cited) >= 10
    assert all(re.fullmatch(r"https://github\.com/[\w.-]+/[\w.-]+/(issues|pull)/\d+", source) for source in cited)


def test_every_exhibit_without_a_gpu_is_caught_as_its_label_says(tour):
    for name in on_the_cpu():
        assert is_caught(name, tour[name, "wrong"]["failures"]), name


def test_every_right_version_passes(tour):
    for name in on_the_cpu():
        right = tour[name, "right"]
        assert not right["failures"], (name, right["failures"][:2])
        assert right["tried"] >= 10, name


def test_every_script_shows_the_failure_without_kernellab(tour):
    written = [script for (_, version), line in tour.items() if version == "wrong" for script in line["scripts"]]
    assert {script["exhibit"] for script in written} == set(on_the_cpu())
    invisible = [script for script in written if "only kernellab sees" in script["script"]]
    assert {script["exhibit"] for script in invisible} == {"compiled_in_name_only"}
    for interpreted in (False, True):
        visible = [script for script in written if script not in invisible]
        scripts = [script for script in visible if ("TRITON_INTERPRET" in script["script"]) is interpreted]
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
        for script in ran:
            assert_shows(script["reason"], script["printed"], script)


def assert_shows(reason, printed, script):
    """Assert that a script's output agrees with the reason of the failure."""
    if match := re.search(r"at \[[\d, ]*\] (\S+), should be ([^\s;]+)", reason):
        got, want = map(float, match.groups())
        worst = max(float(number) for number in re.findall(r"worst difference: (\S+)", printed))
        # A reason is rounded to six digits. Memory outside of tensors varies: poison under kernellab, anything
        # elsewhere.
        distance = abs(got - want) if math.isfinite(got) else math.inf
        least = min(distance, abs(want) or 1) / 2 - 2e-6 * abs(want) if math.isfinite(want) else math.inf
        assert worst >= least, script
        assert worst > 0, script
        return
    patterns = {
        "changed its input": "x is unchanged: False",
        "returned the memory": "in the memory of x: True",
        "not repeatable": r"values that differ between two calls: [1-9]",
        "its second call changed": "the first result is unchanged: False",
        "its call on other inputs": "the first result is unchanged: False",
        "reads outside its inputs": r"values that differ between two calls: [1-9]",
        "dtype float32, should be bfloat16": r"got .*float32[^$]*should be .*bfloat16",
        "wrote outside one of its inputs": r"bytes written around inputs: [1-9]",
        "torch.library.opcheck": "raised .*OpCheckError",
        "gradcheck": "raised .*GradcheckError",
    }
    about = reason.removeprefix("the result: ")
    (pattern,) = [text for start, text in patterns.items() if about.startswith(start)] or [f"no pattern for: {reason}"]
    assert re.search(pattern, printed), script


def test_each_kind_of_trial_catches_an_exhibit_that_no_other_kind_catches(tour):
    kinds = {label(name, "CAUGHT_BY") for name in EXHIBITS} - set(MISSED_WITHOUT) - GPU_ONLY
    for kind in kinds:
        only = [
            name
            for name in on_the_cpu()
            if tour[name, "wrong"]["failures"]
            and all(CALLS.get(kind, kind) in failure["varied"] for failure in tour[name, "wrong"]["failures"])
        ]
        assert only, f"every exhibit is caught without {kind}"


@pytest.mark.exhaustive
def test_without_each_guard_an_exhibit_is_missed():
    pairs = [f"{name}:{guard}" for guard, name in MISSED_WITHOUT.items()]
    both = [start_tour(*pairs), start_tour("--interpreter", *pairs)]
    failures = {line["without"]: line["failures"] for process in both for line in lines_of(process)}
    for guard, name in MISSED_WITHOUT.items():
        assert label(name, "CAUGHT_BY") in (guard, "values"), name
        assert not failures[guard], (guard, failures[guard][:1])


def test_every_guard_has_an_exhibit():
    assert set(MISSED_WITHOUT) == GUARDS


def test_the_table_in_the_docs_lists_every_exhibit_with_its_label():
    page = (HERE.parent / "docs" / "museum.md").read_text()
    row = r"^\| \[(\w+)\]\(\.\./tests/museum/\w+\.py\) \|[^|]*\|[^|]*\| (\w+) \| (yes)? *\|"
    rows = {name: (caught_by, bool(gpu)) for name, caught_by, gpu in re.findall(row, page, flags=re.M)}
    assert rows == {name: (label(name, "CAUGHT_BY"), label(name, "NEEDS_GPU")) for name in EXHIBITS}
