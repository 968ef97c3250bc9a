"""Texts from files are made safe to print."""

import pytest

from kernellab.base.text import shown


@pytest.mark.parametrize(
    ("text", "read"),
    [("a\tb\u00a0\u2028", "a b  "), ("a\x1b\u202e\ud800", "a" + 3 * "\ufffd"), ("é…🙂", "é…🙂"), ("abcdef", "abcd…")],
)
def test_a_text_becomes_one_line_of_printable_characters(text, read):
    assert shown(text, 5) == read
