"""Text from untrusted files."""

from kernellab.base.text import shown


def test_control_characters_and_lone_surrogates_are_replaced():
    assert shown("a\x1b[31mb\nc\udc80") == "a\ufffd[31mb c\ufffd"


def test_long_text_is_cut():
    assert shown("abcdef", 4) == "abc…"
    assert shown("abcd", 4) == "abcd"
