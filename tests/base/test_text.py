"""Texts from files are made safe to print."""

import pytest

from kernellab.base.text import printable


@pytest.mark.parametrize(
    ("text", "expected"),
    [("a\tb\u00a0\u2028", "a b  "), ("a\x1b\u202e\ud800", "a" + 3 * "\ufffd"), ("é…🙂", "é…🙂"), ("abcdef", "abcd…")],
)
def test_a_text_becomes_one_line_of_printable_characters(text, expected):
    assert printable(text, 5) == expected
