"""Tracebacks of the user's own code."""

from pathlib import Path

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
