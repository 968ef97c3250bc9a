"""Lines that somebody had to write."""

from kernellab.capture.line_count import c_lines, functions_called, lines_of_functions, python_lines


def test_lines_are_those_somebody_had_to_write():
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


def test_functions_a_call_goes_through_are_its_authors_alone():
    with functions_called() as codes:
        outer(1)
    assert {code.co_name for code in codes} == {"inner", "outer"}
    assert lines_of_functions(codes) == 4
