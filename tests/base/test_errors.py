"""User errors, and suggestions for unknown words."""

from kernellab.base.errors import UserError, nearest


def test_an_unknown_word_gets_the_nearest_known_ones_or_all():
    assert nearest("flot32", ["float32", "int8"]) == "did you mean float32?"
    assert nearest("xyz", ["b", "a"]) == "known: a, b"
    assert nearest("xyz", []) == "none are known"


def test_an_error_is_reported_with_its_detail(capsys):
    UserError("no op 'x'").report()
    UserError("f.py could not be loaded", "line 3").report()
    assert capsys.readouterr().err == "klab: no op 'x'\nklab: f.py could not be loaded\nline 3\n"
