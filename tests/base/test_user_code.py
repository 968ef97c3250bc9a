"""Tracebacks of the user's own code."""

import ast
from pathlib import Path

import pytest

from kernellab.base.errors import UserError
from kernellab.base.user_code import PACKAGE, explain, first_line, is_user_code, user_frames


def exception_of(source):
    try:
        exec(compile(source, "/home/me/mine.py", "exec"), {})
    except BaseException as error:
        return error
    raise AssertionError("nothing was raised")


def test_an_error_is_explained_with_the_line_of_the_users_code():
    assert explain(exception_of("x = 1\n1 / 0")) == "ZeroDivisionError: division by zero (mine.py:2)"
    assert explain(UserError("no op", "line 3\nline 4")) == "no op: line 3"


def test_long_messages_are_cut():
    assert len(first_line(ValueError("x" * 1000))) < 310
    frames = user_frames(exception_of("raise ValueError('\\n'.join(map(str, range(50))))"))
    assert frames.splitlines()[-1] == "…"


def test_an_exception_whose_str_fails_is_still_explained():
    source = "class Bad(Exception):\n    def __str__(self):\n        raise RuntimeError\nraise Bad"
    assert "its message cannot be read" in explain(exception_of(source))


def test_the_log_of_ptxas_is_found_behind_tritons_header():
    text = "PTXAS error\n`ptxas` stderr:\nptxas /tmp/tmp123.ptx, line 4; error: unknown symbol\n"
    assert first_line(RuntimeError(text)) == "ptxas, line 4; error: unknown symbol"


def test_ops_are_user_code_and_the_rest_of_kernellab_is_not():
    assert is_user_code(str(PACKAGE / "ops" / "gelu" / "__init__.py"))
    assert not is_user_code(str(PACKAGE / "timing" / "rounds.py"))
    assert not is_user_code(str(Path("/venv/lib/python3.11/site-packages/torch/__init__.py")))
    assert not is_user_code("<string>")
    assert is_user_code("/home/me/ops.py")


TRITONS_WRAPPERS = """
class InterpreterError(Exception):
    pass

def kernel():
    return None + 1

def launch():
    try:
        try:
            kernel()
        except TypeError as error:
            raise InterpreterError(repr(error)) from error
    except InterpreterError as error:
        raise InterpreterError(repr(error)) from error

launch()
"""


def test_an_error_in_a_kernel_is_explained_with_the_kernels_own_line():
    error = exception_of(TRITONS_WRAPPERS)
    assert explain(error).startswith("TypeError: unsupported operand type(s)")
    assert explain(error).endswith("(mine.py:6)")
    frames = user_frames(error)
    assert frames.index("in launch") < frames.index("in kernel")
    assert "InterpreterError" not in frames


def test_an_error_of_tritons_compiler_is_explained_with_the_line_in_the_kernel():
    errors = pytest.importorskip("triton.compiler.errors")
    source = "@triton.jit\ndef add_one(x):\n    return x.nothing\n"
    (function,) = ast.parse(source).body
    cause = errors.CompilationError(source, function.body[0], "AttributeError('no nothing')")
    nested = errors.CompilationError("def outer(x):\n    add_one(x)\n", ast.parse("outer()").body[0])
    nested.__cause__ = cause
    assert explain(nested) == "CompilationError: AttributeError('no nothing') (line 3 of add_one: return x.nothing)"
