"""Counting the lines of an implementation's kernels and of the Python that launches them."""

from kernellab.capture.line_count import c_lines, functions_called, lines_of_functions, python_lines


def test_blank_lines_comments_docstrings_and_decorators_do_not_count():
    text = '''
@decorated(
    with_=1,
)
def f(x):
    """Two lines
    of words."""
    # why
    y = (
        x + 1  # what
    )

    return y
'''
    assert python_lines(text) == 5
    assert c_lines("// a\n/* b\n c */\nint f() {\n\n  return 1;  // one\n}\n") == 3


def inner(x):
    return x


def outer(x):
    return sorted([inner(x)])[0]


def test_only_functions_of_the_author_are_counted():
    with functions_called() as codes:
        outer(1)
    assert {code.co_name for code in codes} == {"inner", "outer"}
    assert lines_of_functions(codes) == 4
