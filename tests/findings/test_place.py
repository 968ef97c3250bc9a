"""A place in the source as text."""

from kernellab.findings.place import UNKNOWN_PLACE, Place


def test_a_line_that_was_found_is_shown_with_its_number():
    assert str(Place("own.py", 69, "train", "cpu", "y.cpu()", exact=True)) == "y.cpu() at own.py:69"


def test_without_the_line_the_function_is_named():
    assert str(Place("own.py", 62, "train", "cpu")) == "cpu() in train() (own.py:62)"
    assert str(Place("own.py", 62, "train", "")) == "train() (own.py:62)"
    assert str(Place("own.py", 1, "<module>", "item")) == "item() in own.py"


def test_a_long_line_is_shown_by_its_call_and_a_loop_by_its_beginning():
    long_line = "x = " + " + ".join(["some_function(y)"] * 9)
    assert Place("own.py", 3, "f", "some_function", long_line, exact=True).snippet == "some_function()"
    loop = f"for batch in {'loader' * 20}:"
    assert Place("own.py", 3, "f", "__next__", loop, exact=True).snippet == f"{loop[:60]}…"


def test_an_unknown_place_is_described():
    assert str(UNKNOWN_PLACE) == "an unrecorded place"
