"""Arguments of Python become the words of a command line."""

from pathlib import Path

import pytest
import torch

import kernellab as kl
from kernellab.api.command_words import command_words, target_text
from kernellab.base.errors import UserError
from kernellab.cli import parse
from support.klab import OPFILES


def words(*targets, dims=None, **options):
    return command_words(targets, options, dims or {})


def test_options_are_written_as_one_would_type_them():
    assert words("gelu", impl=["a", "b"], seconds=0.5, quick=True, panel=False, out=None, device="cpu") == [
        "gelu",
        "--impl=a,b",
        "--seconds=0.5",
        "--quick",
        "--device=cpu",
    ]
    assert words("f", dtype=torch.bfloat16) == words("f", dtype="bfloat16") == ["f", "--dtype=bfloat16"]
    assert words("f", opt={"approximate": ["tanh", "none"]}) == ["f", "--opt=approximate=tanh,none"]
    assert words("f", seed=0) == ["f", "--seed=0"]
    assert words(Path("ops.py"), only_times=True) == ["ops.py", "--only-times"]


@pytest.mark.parametrize(
    ("shape", "text"),
    [
        ("8x8,16x16", "8x8,16x16"),
        ((8, 16), "8x16"),
        ([(8, 8), (16, 4)], "8x8,16x4"),
        ([8], "8"),
        (torch.Size([2, 3]), "2x3"),
    ],
)
def test_shapes(shape, text):
    assert words("f", shape=shape) == ["f", f"--shape={text}"]


def test_the_command_line_understands_what_is_written():
    _, args = parse(["run", *words("gelu", shape=(8, 8), impl="manual", dims={"N": [1, 2], "M": "4:8:2"})])
    assert (args.target, args.shape, args.impl) == (["gelu"], ["8x8"], "manual")
    assert args.dims == {"N": [1, 2], "M": [4, 6, 8]}


def test_a_name_that_is_no_dim_is_refused():
    with pytest.raises(UserError, match="no argument 'imlp': dims begin with a capital letter"):
        words("gelu", dims={"imlp": "torch"})


@pytest.mark.parametrize("target", ["--debug", 3, None])
def test_what_names_no_op_is_refused(target):
    with pytest.raises(UserError, match="names no op"):
        target_text(target)


def test_an_op_is_named_by_its_file_a_shipped_one_by_its_name(tmp_path):
    from kernellab.declaration.targets import load, resolve

    assert target_text(kl.ops.gelu) == "gelu"
    file = tmp_path / "mine.py"
    file.write_text("import kernellab as kl\n@kl.op\ndef twice(x):\n    return 2 * x\n")
    assert target_text(load(resolve(str(file)))["twice"]) == f"{file}:twice"


def test_a_shipped_op_with_an_implementation_of_ones_own_is_named_by_the_file_that_adds_it():
    mine = kl.ops.gelu.copy()
    mine.impl("added")(test_shapes)  # a function of this file
    assert target_text(mine) == f"{__file__}:gelu"
    mine.impl("elsewhere")(test_shapes)
    mine.impls["elsewhere"].file = OPFILES / "sketches.py"
    with pytest.raises(UserError, match="in several files"):
        target_text(mine)


def test_an_op_of_a_notebook_cell_is_refused_with_what_to_do():
    shown = {"kl": kl}
    exec(compile("@kl.op\ndef f(x):\n    return x", "/nowhere/cell.py", "exec"), shown)
    with pytest.raises(UserError, match="%%writefile"):
        target_text(shown["f"])
