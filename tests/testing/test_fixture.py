"""The fixture: what the documentation shows can be called, and failures of the battery are told in few lines."""

import ast
import inspect
import re

import pytest

from kernellab.api.run import Run
from kernellab.testing import fixture
from kernellab.testing.fixture import Klab
from support.klab import HERE
from support.sample_records import sample_record, sample_run

PAGE = HERE.parent / "docs" / "testing.md"


def test_calls_in_the_documentation_are_calls_of_the_fixture():
    (shown,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    calls = [
        node
        for node in ast.walk(ast.parse(shown))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and ast.unparse(node.func.value) == "klab"
    ]
    assert len(calls) == 4
    for call in calls:
        signature = inspect.signature(getattr(Klab, call.func.attr))
        bound = signature.bind(None, *call.args, **{keyword.arg: keyword.value for keyword in call.keywords})
        assert all(name[0].isupper() for name in bound.arguments.get("dims", {})), ast.unparse(call)


@pytest.fixture
def klab(request, tmp_path_factory, monkeypatch):
    """A fixture that finds its runs instead of carrying them out."""
    runs = []
    monkeypatch.setattr(fixture, "execute", lambda *args, **options: runs.pop(0))
    measured = Klab(request, tmp_path_factory, None, [])
    measured.finds = runs.append
    return measured


def sample(**changes):
    record = sample_record("check-square")
    for result in record["results"]:
        result["derived"] |= changes.get(result["impl"], {})
    return Run(record, sample_run("check-square"))


def test_a_failed_battery_names_a_few_trials_the_command_and_the_script(klab):
    run = sample(cpp={"status": "wrong", "reason": "9 of 9 trials failed"})
    trial = {"kind": "sizes", "label": "7", "status": "wrong", "reason": "values: error 9"}
    (summary,) = (battery for battery in run.record["batteries"] if battery["impl"] == "cpp")
    summary["failures"] = [{**trial, "label": str(n)} for n in range(9)]
    run.record["searches"] = [{"file": "artifacts/reproduce-square-cpp.py"}]
    klab.finds(run)
    with pytest.raises(pytest.fail.Exception) as failure:
        klab.check("square", "cpp")
    first, head, *trials, command, script, record = str(failure.value).splitlines()
    assert first == "square cpp: wrong: 9 of 9 trials failed"
    assert head.startswith("square cpp: 9 of ")
    assert len(trials) == 6
    assert trials[-1] == "  and 4 more"
    assert command.startswith("reproduce: klab check square")
    assert script == f"script: {run.folder / 'artifacts/reproduce-square-cpp.py'}"
    assert record == f"record: {run.folder}"


def test_what_cannot_be_judged_fails_and_says_so(klab):
    klab.finds(sample(cpp={"status": "unknown", "reason": "the oracle does not fit"}))
    with pytest.raises(pytest.fail.Exception, match="square cpp: cannot tell: the oracle does not fit"):
        klab.check("square")


def test_what_runs_nowhere_here_is_skipped_with_its_reasons(klab):
    run = sample()
    run.record["results"] = [result for result in run.results if result["impl"].startswith("cuda")]
    run.record["batteries"] = []
    klab.finds(run)
    with pytest.raises(pytest.skip.Exception, match="cuda: needs a GPU"):
        klab.check("square", "cuda*")


def test_a_factor_that_cannot_be_is_refused(klab):
    with pytest.raises(pytest.fail.Exception, match="must not be negative"):
        klab.assert_not_slower("square", "cpp", than="torch", by=-0.1)


def test_names_of_tests_become_folders_that_stay_the_same_and_differ(klab):
    first, second = klab._name(), klab._name()
    assert first[:-2] == second[:-2]
    assert (first[-2:], second[-2:]) == ("-1", "-2")
    assert "/" not in first
