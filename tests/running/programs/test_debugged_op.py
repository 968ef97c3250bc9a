"""`klab check --break`: which op, implementation and case are debugged, and requests that are refused."""

import subprocess
import sys
from pathlib import Path

import pytest

from kernellab.base.errors import UserError
from kernellab.declaration.case_request import CaseRequest
from kernellab.running.programs.debugged_op import _choose_case, _find_impl, _find_op
from support.klab import OPFILES, klab_env
from support.source import line_of

DEBUGGED = OPFILES / "debugged.py"


TWO = "import kernellab as kl\n@kl.op\ndef f(x): return x\n@kl.op\ndef g(x): return x\n"


def test_one_op_and_one_implementation_of_kind_triton_are_required(tmp_path):
    (tmp_path / "two.py").write_text(TWO)
    gelu, rowsum = _find_op(["gelu"]), _find_op([str(DEBUGGED)])
    for call, message in [
        (lambda: _find_op(["gelu", "square"]), "--break takes one op at a time, not 2: gelu, square"),
        (lambda: _find_op([str(tmp_path / "two.py")]), "two.py declares f, g: name it, two.py:f"),
        (lambda: _find_impl(_find_op(["add"]), []), "op add has no implementation of kind triton"),
        (lambda: _find_impl(gelu, ["torch"]), "torch is not of kind triton: --impl triton"),
        (lambda: _find_impl(gelu, ["torch", "cpp"]), "torch, cpp are not of kind triton: --impl triton"),
        (lambda: _find_impl(gelu, ["tritn"]), "did you mean triton?"),
        (lambda: _find_impl(rowsum, []), "3 are of kind triton: --impl triton or triton-raising or triton-wild"),
        (lambda: _find_impl(rowsum, ["triton-*"]), "2 are of kind triton"),
        (lambda: _choose_case(gelu, gelu["triton"], CaseRequest(dtypes=["float64"])), "triton does not take"),
    ]:
        with pytest.raises(UserError) as refusal:
            call()
        assert message in refusal.value.message
    assert _find_impl(gelu, ["torch", "triton"]).name == "triton"


def test_the_case_is_the_smallest_that_the_implementation_takes_unless_a_size_is_given():
    rowsum = _find_op([str(DEBUGGED)])
    small = _choose_case(rowsum, rowsum["triton"], CaseRequest(dtypes=["bfloat16"]))
    assert small.M * small.N <= 64
    assert small.dtype == "bfloat16"
    given = _choose_case(rowsum, rowsum["triton"], CaseRequest(dims={"M": [100], "N": [70]}))
    assert given.shape == (100, 70)
    rowsum["triton-wild"].supports = lambda case: case.N > 16 or "rows are too short"
    assert _choose_case(rowsum, rowsum["triton-wild"], CaseRequest()).N > 16
    rowsum["triton-wild"].supports = lambda case: 1 / 0
    with pytest.raises(UserError, match="supports= of triton-wild failed: ZeroDivisionError"):
        _choose_case(rowsum, rowsum["triton-wild"], CaseRequest())


REFUSALS = """
import sys
from kernellab.interpreter.emulation import enable_interpreter
enable_interpreter()
from kernellab.base.errors import UserError
from kernellab.running.programs.debugged_op import _choose_case, _debug_call, _find_op, CaseRequest, Stop
op = _find_op([sys.argv[1]])
for shape, file, line, program in eval(sys.argv[2]):
    case = _choose_case(op, op["triton"], CaseRequest(shapes=[shape]))
    try:
        print(_debug_call(op, op["triton"], case, 0, Stop(file, line, program)))
    except UserError as error:
        print(error.message)
op.reference = lambda x: x.no_such_thing()
try:
    _debug_call(op, op["triton"], case, 0, Stop())
except UserError as error:
    print(error.message)
"""


def test_a_request_that_a_launch_shows_to_be_impossible_is_refused_with_a_sentence(tmp_path):
    blank, first = line_of(DEBUGGED, "def sums("), line_of(DEBUGGED, "row = tl.program_id(0)")
    never, elsewhere = line_of(DEBUGGED, "# never reached"), line_of(DEBUGGED, "def wild(") + 1
    requests = [
        ((2, 4), "", blank, None),
        ((2, 4), "", 9999, None),
        ((2, 4), "", never, None),
        ((2, 4), "debugged.py", elsewhere, None),
        ((2, 4), "", first, (7,)),
        ((2, 4), "", None, (7,)),
        ((2, 4), "nowhere.py", 3, None),
        ((2, 4), str(Path(__file__)), 3, None),
        ((0, 4), "", None, None),
    ]
    command = [sys.executable, "-c", REFUSALS, str(DEBUGGED), repr(requests)]
    done = subprocess.run(command, env=klab_env(), cwd=tmp_path, capture_output=True, text=True, timeout=120)
    messages = done.stdout.splitlines()
    expected = [
        f"--break {blank}: no kernel has code on line {blank} of {DEBUGGED}; sums has on line {first}",
        f"--break 9999: no kernel has code on line 9999 of {DEBUGGED}; wild has on line ",
        f"--break: line {never} was not reached at M=2 N=4 · float32; triton is right: ",
        f"--break: debugged.py:{elsewhere} was not reached at M=2 N=4 · float32; triton is right: ",
        f"--break: line {first} in program 7 was not reached",
        "--break-at 7: the grid is 2, and programs are numbered from 0",
        f"--break nowhere.py:3: no such file; there are kernels in {DEBUGGED}",
        f"--break {Path(__file__)}:3: {Path(__file__)} contains no Triton kernel",
        "rowsum at M=0 N=4 · float32: triton launched no Triton kernel",
        "rowsum at M=0 N=4 · float32: cannot check: the reference failed: AttributeError",
    ]
    assert len(messages) == len(expected), done.stdout + done.stderr
    for got, want in zip(messages, expected, strict=True):
        assert got.startswith(want)
