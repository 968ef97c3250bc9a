"""Where runs of tests are kept, and found again."""

import pytest

import kernellab as kl
from kernellab.testing.kept_runs import KeptRuns, NoBaseline
from support.sample_records import sample_run

TEST = "tests/test_gelu.py::test_speed[float32/64x64]"


@pytest.fixture
def run():
    return kl.load(sample_run("run-gelu"))


def test_a_kept_run_is_found_by_the_same_test(tmp_path, run):
    kept = KeptRuns(TEST, str(tmp_path), None).keep(run, 1)
    assert kept.folder.parent == tmp_path
    later = KeptRuns(TEST, None, str(tmp_path))
    assert later.earlier(None, 1).record == run.record
    assert later.earlier(tmp_path, 1).record == run.record
    for other in (KeptRuns(TEST, None, str(tmp_path)).earlier, KeptRuns(f"{TEST}x", None, str(tmp_path)).earlier):
        with pytest.raises(NoBaseline, match="no baseline of this test"):
            other(None, 2)


def test_a_kept_run_replaces_an_earlier_one_as_a_whole(tmp_path, run):
    kept = KeptRuns(TEST, str(tmp_path), None)
    (kept.keep(run, 1).folder / "of-an-earlier-run").touch()
    kept.keep(run, 1)
    (folder,) = tmp_path.iterdir()
    assert sorted(path.name for path in folder.iterdir()) == sorted(path.name for path in run.folder.iterdir())


def test_names_are_those_of_files_and_differ_where_tests_do():
    names = {KeptRuns(test, None, None).name(n) for test in (TEST, TEST.replace("/", "-")) for n in (1, 2)}
    assert len(names) == 4
    assert all(name.replace("-", "").isalnum() for name in names)
    assert len(KeptRuns("x" * 1000, None, None).name(1)) < 100


def test_the_first_run_that_is_kept_is_compared_with_none(tmp_path):
    assert KeptRuns(TEST, str(tmp_path), None).earlier(None, 1) is None
    with pytest.raises(NoBaseline, match="--klab-save DIR keeps"):
        KeptRuns(TEST, None, None).earlier(None, 1)


def test_a_run_is_named_by_its_folder_or_by_itself(run):
    kept = KeptRuns(TEST, None, None)
    assert kept.earlier(run, 1) is run
    assert kept.earlier(run.folder, 1).record == kept.earlier(run.folder / "run.json", 1).record == run.record
