"""Op files with mistakes: one sentence, and the frames of the author's own code."""

from pathlib import Path

import pytest

from kernellab.base.errors import UserError
from kernellab.declaration.case_request import CaseRequest
from kernellab.declaration.targets import load, resolve
from support.klab import SRC


def _file(folder: Path, text: str) -> Path:
    path = folder / "op.py"
    path.write_text(text)
    return path


SYNTAX = "def f(:\n"
RAISES = "def inner():\n    return {}['missing']\n\ninner()\n"
TWO_OPS = "import kernellab as kl\n@kl.op\ndef f(x): return x\n@kl.op\ndef f(x): return x\n"
TWO_IMPLS = (
    "import kernellab as kl\n@kl.op\ndef f(x): return x\n"
    "@f.impl('a')\ndef _(x): return x\n@f.impl('a')\ndef _(x): return x\n"
)


def _shows_only(parts: list[str], text: str) -> None:
    for part in parts:
        assert part in text
    for part in ("Traceback", "site-packages", str(SRC)):
        assert part not in text


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        (SYNTAX, ["has a syntax error", "def f(:", "line 1"]),
        (RAISES, ["could not be loaded", "KeyError: 'missing'", "in inner"]),
        ("import torch\n", ["declares no op"]),
        (TWO_OPS, ["two ops are named f"]),
        (TWO_IMPLS, ["already has an implementation named a"]),
        ("import sys\nsys.exit('bye')\n", ["could not be loaded", "bye"]),
    ],
)
def test_bad_op_files_show_the_authors_own_frames(tmp_path, text, parts):
    with pytest.raises(UserError) as refused:
        load(resolve(str(_file(tmp_path, text))))
    _shows_only(parts, f"{refused.value.message}\n{refused.value.detail}")


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        (RAISES, ["could not be loaded", "KeyError: 'missing'", "in inner"]),
        ("import os\nos._exit(3)\n", ["loading", "exited with code 3"]),
    ],
)
def test_klab_reports_what_is_wrong_with_an_op_file(klab, tmp_path, text, parts):
    seen = klab("check", _file(tmp_path, text))
    assert (seen.code, seen.out) == (2, "")
    _shows_only(parts, seen.err)
    assert not (tmp_path / "runs").exists() or not list((tmp_path / "runs").iterdir())


@pytest.mark.parametrize(
    ("target", "wanted", "message"),
    [
        ("no.such.module:op", {}, "no module no"),
        ("kernellab.ops.gelu:gleu", {}, "did you mean gelu"),
        ("gelu", {"options": {"approx": ["tanh"]}}, "did you mean approximate"),
        ("gelu", {"dims": {"K": [4]}}, "op gelu has no dim K"),
        ("matmul", {"shapes": [(1, 2, 3, 4)]}, "has 4 sizes"),
    ],
)
def test_what_an_op_does_not_have_is_one_sentence(target, wanted, message):
    def expand():
        return [op.expand(CaseRequest(**wanted), "cpu") for op in load(resolve(target)).values()]

    with pytest.raises(UserError, match=message):
        expand()
