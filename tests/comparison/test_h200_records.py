"""Two real records of equal code from one H200, made by different processes."""

import copy
import tarfile

import pytest

from kernellab.comparison.compare import Side, compare
from kernellab.record.reading import load
from support.comparisons import variation
from support.klab import HERE

# As docs/results/aa-h200.md has it: forty runs.
H200 = variation(cases=[(127.1, 0.0016), (5.139, 0.014)], runs=40)
for _case in H200["cases"]:
    _case["timer"] = "events"


@pytest.fixture(scope="module")
def records(tmp_path_factory):
    folder = tmp_path_factory.mktemp("records")
    with tarfile.open(HERE / "samples" / "records_h200.tar.gz") as archive:
        archive.extractall(folder, filter="data")
    return [load(folder / name) for name in ("bench-softmax", "explain-softmax")]


def compared(before, after, known=H200):
    return compare(Side("before", [before]), Side("after", [after]), load=lambda machine: known)


def test_equal_code_is_not_called_different(records):
    for pair in (records, records[::-1]):
        comparison = compared(*pair)
        assert {p.verdict for p in comparison.pairs} == {"not resolved"}
        assert len(comparison.pairs) == 5
        assert all(abs(p.ratio - 1) < 0.004 for p in comparison.pairs)


@pytest.mark.parametrize("known", [H200, None])
def test_three_percent_more_are_found(records, known):
    before, after = records[0], copy.deepcopy(records[1])
    slowed = next(r for r in after["results"] if r["impl"] == "triton")
    for series in slowed["times"]:
        series["samples_us"] = [1.03 * us for us in series["samples_us"]]
    comparison = compared(before, after, known)
    assert [p.key.result.impl for p in comparison.with_verdict("slower")] == ["triton"]
    assert comparison.exit_code == 1


def test_an_h200_that_was_never_measured_varies_half_as_much_again_as_the_one_that_was(records):
    here, elsewhere = (compared(*records, known) for known in (H200, None))
    for measured, published in zip(here.pairs, elsewhere.pairs, strict=True):
        assert (measured.variation.source, published.variation.source) == ("measured", "published")
        assert published.variation.relative == pytest.approx(1.5 * measured.variation.relative)
        assert (published.variation.dof, published.verdict) == (39, "not resolved")
