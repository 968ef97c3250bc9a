"""The fixture: what the documentation shows can be called, and failures of the battery are told in few lines."""

import ast
import copy
import inspect
import re

import pytest

from kernellab.api.run import Run
from kernellab.record import verdict
from kernellab.record.reading import load
from kernellab.testing import fixture
from kernellab.testing.fixture import Klab
from kernellab.testing.kept_runs import KeptRuns
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


def test_a_factor_that_is_no_number_and_the_same_implementation_are_refused(klab):
    for by in (float("nan"), float("inf")):
        with pytest.raises(pytest.fail.Exception, match="must be a number"):
            klab.assert_not_slower("square", "cpp", than="torch", by=by)
    with pytest.raises(pytest.fail.Exception, match="cpp cannot be slower than itself"):
        klab.assert_not_slower("square", "cpp", than="cpp")


# Compared with an earlier run --------------------------------------------------------------------------


def timed_gelu(impl, factor=1.0, machine="h200"):
    """A run of one implementation of gelu, and how many times as long it takes as in the sample."""
    record = load(sample_run("run-gelu", machine))
    record["results"] = [result for result in record["results"] if result["impl"] == impl]
    for series in record["results"][0]["times"]:
        series["samples_us"] = [us * factor for us in series["samples_us"]]
    return Run(verdict.derive(record), sample_run("run-gelu", machine))


def compare(klab, now, baseline, **more):
    klab.finds(now)
    return klab.assert_not_slower("gelu", "cuda", baseline=baseline, **more)


def test_a_run_like_its_baseline_passes_and_is_in_the_table(klab):
    compare(klab, timed_gelu("cuda"), sample_run("run-gelu", "h200"), by=0.05)
    (row,) = klab._rows
    assert row["compared"].startswith("1.000× as long as before (")
    assert row["compared"].endswith(": not slower")


def test_a_slower_run_fails_with_how_much(klab):
    with pytest.raises(pytest.fail.Exception) as failure:
        compare(klab, timed_gelu("cuda", 1.2), timed_gelu("cuda"), by=0.05)
    first, *more = str(failure.value).splitlines()
    assert re.search(r"forward: cuda takes 1.2 times as long as before \(99 % interval 1\.\d+ to 1\.\d+\); 1.05", first)
    assert more[-2].startswith("reproduce: klab ")
    compare(klab, timed_gelu("cuda", 1.2), timed_gelu("cuda"), by=0.5)
    compare(klab, timed_gelu("cuda", 0.8), timed_gelu("cuda"))


def test_what_times_cannot_tell_is_a_warning(klab):
    with pytest.warns(fixture.KlabWarning, match="more rounds= or seconds="):
        compare(klab, timed_gelu("cuda", 1.02), timed_gelu("cuda"), by=0.02)


def test_a_baseline_of_another_machine_tells_nothing(klab):
    with pytest.raises(
        pytest.skip.Exception, match=r"the baseline is from another machine, .*: its times tell nothing here"
    ):
        compare(klab, timed_gelu("cuda"), timed_gelu("torch", machine="cpu"))


def test_a_baseline_that_is_no_run_fails(klab, tmp_path):
    (tmp_path / "run.json").write_text("{}")
    with pytest.raises(pytest.fail.Exception, match="is not a kernellab record"):
        compare(klab, timed_gelu("cuda"), tmp_path)


def test_without_a_baseline_it_says_how_to_make_one(klab):
    with pytest.raises(pytest.skip.Exception, match="--klab-save DIR keeps this run as one"):
        klab.assert_not_slower("gelu", "cuda")


def test_two_questions_are_two_calls(klab):
    with pytest.raises(pytest.fail.Exception, match="write two calls"):
        klab.assert_not_slower("gelu", "cuda", than="torch", baseline="runs/old")


def other_case(run):
    """The same run with another size besides."""
    record = copy.deepcopy(run.record)
    more = copy.deepcopy(record["results"][0])
    more["case"]["dims"] = dict.fromkeys(more["case"]["dims"], 17)
    record["results"].append(more)
    return Run(verdict.derive(record), run.folder)


def test_a_case_that_the_baseline_lacks_is_a_warning(klab):
    with pytest.warns(fixture.KlabWarning, match=r"not compared: gelu 17.*: the baseline has no cuda at this case"):
        compare(klab, other_case(timed_gelu("cuda")), timed_gelu("cuda"), by=0.05)


def test_a_baseline_that_was_wrong_is_no_baseline(klab):
    before = timed_gelu("cuda")
    before.record["results"][0]["check"] |= {"status": "wrong", "reason": "values"}
    wrong = Run(verdict.derive(before.record), before.folder)
    with pytest.raises(
        pytest.skip.Exception, match=r"nothing was compared: .*was not right in the baseline, but wrong"
    ):
        compare(klab, timed_gelu("cuda"), wrong, by=0.05)


def test_a_baseline_that_does_not_exist_fails(klab, tmp_path):
    for baseline, reason in ((tmp_path / "kpet", "there is no folder .*kpet"), (5, "baseline=5 must be a folder")):
        with pytest.raises(pytest.fail.Exception, match=reason):
            compare(klab, timed_gelu("cuda"), baseline)


def test_a_place_that_cannot_be_written_fails_before_anything_is_measured(klab, tmp_path):
    (tmp_path / "file").touch()
    klab._kept = KeptRuns("test", str(tmp_path / "file" / "kept"), None)
    with pytest.raises(pytest.fail.Exception, match=r"--klab-save .*kept cannot be written: Not a directory"):
        klab.check("square")
