"""One table of statuses: which is worse, and the exit code."""

import pytest

from kernellab.record import statuses
from support.klab import HERE


@pytest.mark.parametrize(
    ("present", "code"),
    [
        (["ok"], 0),
        (["ok", "skipped"], 0),
        (["ok", "imprecise"], 0),
        (["skipped"], 3),
        ([], 3),
        (["ok", "unknown"], 3),
        (["unknown", "wrong"], 1),
        *(([status, "ok"], 1) for status in ("wrong", "error", "crashed", "timeout", "oom")),
    ],
)
def test_one_comes_before_three_before_nought(present, code):
    assert statuses.exit_code(present) == code


def test_strict_makes_imprecise_wrong():
    assert statuses.exit_code(["ok", "imprecise"], strict=True) == 1
    assert statuses.exit_code(["ok"], strict=True) == 0


def test_the_worst_status_is_the_first_of_the_table():
    names = [status.name for status in statuses.TABLE]
    for at, name in enumerate(names):
        assert statuses.worst(reversed(names[at:])) == name
    assert statuses.worst([]) == "skipped"


def test_the_docs_have_the_same_table():
    page = (HERE.parent / "docs" / "verdicts.md").read_text()
    rows = page.partition("<!-- statuses -->")[2].partition("<!-- end -->")[0].strip().splitlines()[2:]
    assert rows == [f"| `{s.name}` | {s.meaning} | {s.exit_code} |" for s in statuses.TABLE]
