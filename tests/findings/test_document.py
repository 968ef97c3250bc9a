"""One finding, and its two JSON forms."""

from kernellab.findings.document import explain_document, profile_document
from kernellab.findings.finding import Evidence, Finding, StepTimes
from kernellab.findings.place import Place

FINDING = Finding(
    title="slow",
    do="be fast",
    confidence="likely",
    gain=1.25,
    evidence=[Evidence("cpu_us", 3.14159, "µs", "model"), Evidence("count", 2), Evidence("shapes", [[1, 2]])],
    name="wait",
    place=Place("own.py", 3, "train", "item", "loss.item()", exact=True),
    step=StepTimes(step_us=100.0, gain_us=20.0),
)


def test_the_form_of_klab_explain():
    assert explain_document(FINDING) == {
        "rule": "wait",
        "title": "slow",
        "gain": 1.25,
        "do": "be fast",
        "sure": "likely",
        "evidence": [
            {"what": "cpu_us", "value": 3.14159, "unit": "µs", "source": "model"},
            {"what": "count", "value": 2, "unit": "", "source": "trace"},
            {"what": "shapes", "value": [[1, 2]], "unit": "", "source": "trace"},
        ],
    }


def test_the_form_of_klab_profile():
    assert profile_document(FINDING) == {
        "kind": "wait",
        "title": "slow",
        "do": "be fast",
        "file": "own.py",
        "line": 3,
        "function": "train",
        "call": "item",
        "code": "loss.item()",
        "exact": True,
        "gain_us": 20.0,
        "gain_share": 0.2,
        "step_us": 100.0,
        "step_without_us": 80.0,
        "evidence": {"cpu_us": 3.142, "count": 2, "shapes": [[1, 2]]},
    }


def test_a_step_of_no_length_has_no_share_to_gain():
    assert profile_document(Finding(title="", do="", confidence="measured"))["gain_share"] == 0.0
