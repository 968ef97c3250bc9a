"""Labels, and data inside scripts."""

import json

import pytest

from kernellab.reporting.html.parts import json_in_script, label


@pytest.mark.parametrize(
    ("name", "text"),
    [(" a\tb ", "a b"), ("\x07", "\ufffd"), ("\u200e", "\ufffd"), ("", "(no name)"), ("abcd", "ab…")],
)
def test_a_label_is_one_printable_line(name, text):
    assert label(name, 3) == text


def test_json_in_a_page_cannot_end_its_script():
    assert "<" not in json_in_script(["</script>", "<!--"])
    assert json.loads(json_in_script(["</script>"])) == ["</script>"]


def test_a_number_without_an_end_is_null_in_json():
    value = {"y": [1.5, float("inf"), (float("nan"), "<")]}
    assert json.loads(json_in_script(value)) == {"y": [1.5, None, [None, "<"]]}
