"""`klab check --break`: sessions as a person has them, and every sentence that ends one before it begins."""

import functools
import os
import pty
import re
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import torch

from kernellab.base.errors import UserError
from kernellab.declaration.case_request import CaseRequest
from kernellab.running.programs.debugged_op import _case, _op, _way
from support.klab import OPFILES, SRC, klab_command, klab_env

PROMPT = "(klab) "
OPS = SRC / "kernellab" / "ops"
DEBUGGED = OPFILES / "debugged.py"


def line_of(file: Path, text: str) -> int:
    return next(n for n, line in enumerate(file.read_text().splitlines(), 1) if text in line)


@pytest.fixture
def session(tmp_path):
    """Give pdb commands to `klab check`; returns the exit code, what was said before the first prompt, the answers."""

    def run(*args, commands=()):
        done = subprocess.run(
            klab_command("check", *args),
            input="".join(f"{c}\n" for c in commands),
            cwd=tmp_path,
            env=klab_env(HOME=str(tmp_path)),  # nobody's own .pdbrc
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert not (tmp_path / "runs").exists()  # no record is kept
        intro, *answers = done.stdout.split(PROMPT)
        return done, intro, answers

    return run


def test_the_shipped_gelu_from_its_first_line_into_its_helper(session):
    move = OPS / "elementwise_triton.py"
    call = line_of(move, "mask=inside, other=0.0).to(tl.float32))")
    commands = [
        "p BLOCK",
        f"tbreak {call}",
        "c",
        "p x_ptr + at",
        "s",
        "p x",
        "x > 0",
        "ll",
        "r",
        "n",
        "w",
        "r",
        "n",
        "c",
    ]
    done, intro, answers = session("gelu", "--impl", "triton", "--break", commands=commands)
    assert done.returncode == 0, done.stderr
    first = line_of(move, "start = tl.program_id(0)")
    lines = intro.splitlines()
    assert lines[0] == "gelu · triton · 3×16 · float32 · approximate=tanh · in Triton's interpreter"
    assert lines[1] == f"kernel map_flat ({move}:{line_of(move, 'def map_flat')}), grid 1"
    assert lines[2] == "  x_ptr: float32 3×16, y_ptr: float32 3×16, n=48, f=gelu_tanh, BLOCK=512"
    assert lines[4:6] == ["program 0", f"> {move}:{first} map_flat"]
    *answers, at_return, outside, verdict = answers
    said = dict(zip(commands, answers, strict=False))
    assert said["p BLOCK"] == "512\n"
    assert said["p x_ptr + at"].startswith(
        "pointer<fp32>[512] x_ptr + [  0   1   2   3 ... 508 509 510 511], 464 of 512"
    )
    assert f"{OPS / 'gelu' / 'triton.py'}:19 gelu_tanh" in said["s"]
    assert "return x / (1.0 +" in said["s"]
    assert re.match(r"fp32\[512\] \[-?\d", said["p x"])
    assert re.match(r"int1\[512\] \[(True|False)", said["x > 0"])
    assert "def gelu_tanh(x):" in said["ll"]
    assert "gelu_tanh returns fp32[512]" in said["r"]
    assert "tl.store(" in said["n"]
    frames = re.findall(r"^[> ] \S+:\d+ (\S+)$", said["w"], re.MULTILINE)  # and none of Triton's
    assert frames == ["_", "gelu_triton", "map_triton", "map_flat"]
    assert "map_flat returns None" in at_return
    assert re.match(rf"> {move}:\d+ map_triton", outside)  # in the launcher, which has no program
    assert verdict.startswith("triton is right: largest error ")
    assert "(torch's " in verdict


def test_the_shipped_softmax_at_a_line_and_leaving_quietly(session):
    file = OPS / "softmax" / "triton.py"
    at = line_of(file, "e = tl.exp(x - tl.max(x, axis=1")
    commands = ["p x", "n", "p tl.sum(e, axis=1)", "q"]
    done, intro, answers = session(
        *("softmax", "--break", f"softmax/triton.py:{at}", "--shape", "2x3", "--dtype", "bf16"), commands=commands
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert f"> {file}:{at} softmax_tile" in intro
    assert answers[0].startswith("fp32[")  # the kernel has widened them
    assert "-inf" in answers[0]  # the lanes beyond the row
    assert answers[2].startswith("fp32[")
    assert answers[-1] == ""


def test_a_wrong_kernel_in_the_program_asked_for(session):
    at = line_of(DEBUGGED, "total = tl.sum(x, axis=0)")
    commands = ["p row", "p x", "n", "v", "a", "p nothing", "run", "c"]
    done, intro, answers = session(
        *(DEBUGGED, "--impl", "triton", "--break", str(at), "--break-at", "2", "--M", "4", "--N", "5"),
        commands=commands,
    )
    said = dict(zip(commands, answers, strict=True))
    assert done.returncode == 0
    assert "program 2" in intro
    assert said["p row"] == "int32 2\n"
    assert re.fullmatch(r"fp32\[8\] \[.* 1\. +1\. +1\. +\]\n", said["p x"])
    assert "total = fp32 " in said["v"]
    assert said["a"].splitlines()[0] == "x_ptr = pointer<fp32> x_ptr + 0"
    assert "NameError" in said["p nothing"]
    assert "give the command again" in said["run"]
    assert re.match(r"triton is wrong: values: error .* at \[\d\] .*, should be ", said["c"])


def test_a_kernel_that_raises_is_looked_at_where_it_did(session):
    line = line_of(DEBUGGED, "return tl.sum(x + tl.arange(0, 64)")
    commands = ["c", "w", "p x", "u", "p row", "q"]
    done, _, answers = session(DEBUGGED, "--impl", "triton-raising", "--break", "--shape", "2x8", commands=commands)
    said = dict(zip(commands, answers, strict=True))
    assert (done.returncode, done.stderr) == (0, "")
    assert re.match(rf"triton-raising raised ValueError: .*incompatible.* \(debugged.py:{line}\)", said["c"])
    assert f"> {DEBUGGED}:{line} helper" in said["c"]
    frames = re.findall(r"^[> ] \S+:\d+ (\S+)$", said["w"], re.MULTILINE)
    assert frames == ["<lambda>", "launch", "outer", "helper"]
    assert said["p x"].startswith("fp32[8] [")
    assert said["p row"] == "int32 0\n"


def test_a_pointer_that_leads_nowhere_is_found_by_its_line(session):
    done, _, _ = session(DEBUGGED, "--impl", "triton-wild", "--break", "--shape", "2x8", commands=["c"])
    assert done.returncode == -11
    line = line_of(DEBUGGED, "tl.load(x_ptr + at))")
    assert f'debugged.py", line {line} in wild' in done.stderr


def test_on_a_terminal_interrupts_and_the_end_of_input_are_taken_quietly(tmp_path):
    parent, child = pty.openpty()
    command = klab_command("check", DEBUGGED, "--impl", "triton", "--break", "--shape", "30000x4")
    env = klab_env(TERM="dumb", HOME=str(tmp_path))
    # Whoever runs tests in the background has SIGINT ignored, and so has what they start.
    listening = functools.partial(signal.signal, signal.SIGINT, signal.SIG_DFL)
    process = subprocess.Popen(
        command, stdin=child, stdout=child, stderr=child, cwd=tmp_path, env=env, preexec_fn=listening
    )
    os.close(child)
    seen = ""

    def until(text):
        nonlocal seen
        ends = time.monotonic() + 60
        before = len(seen)
        while text not in seen[before:] and time.monotonic() < ends:
            if select.select([parent], [], [], 1)[0]:
                try:
                    seen += os.read(parent, 4096).decode()
                except OSError:  # the other end is closed
                    break
        return seen[before:]

    assert "program 0" in until(PROMPT)
    os.write(parent, b"n\n")
    assert "-> " in until(PROMPT)
    time.sleep(0.5)  # a person takes a moment to see the prompt; it is shown just before it is read from
    process.send_signal(2)  # what Ctrl-C does
    assert "--KeyboardInterrupt--" in until(PROMPT)
    os.write(parent, b"c\n")
    time.sleep(0.5)  # of a minute or so
    process.send_signal(2)
    stopped = until(PROMPT)
    assert "Program interrupted" in stopped
    assert re.search(r"program [1-9]\d*", stopped)
    assert re.search(r"debugged.py:\d+ sums", stopped)
    os.write(parent, b"\x04")
    until("no such text")
    assert process.wait(timeout=60) == 0
    assert "Traceback" not in seen
    assert "triton is" not in seen
    os.close(parent)


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["--break", "gelu"], "cannot read --break 'gelu': a line, 12 or kernels.py:12; the op is named before it"),
        (["gelu", "--break-at", "2"], "--break-at says in which program to stop: add --break"),
        (["gelu", "--break", "--break-at", "x"], "cannot read --break-at 'x'"),
        (["gelu", "--break", "--json"], "--break debugs one case and keeps no record: leave out --json"),
        (["gelu", "--break", "--device", "cuda"], "--break runs in Triton's interpreter, on the CPU"),
    ],
)
def test_what_cannot_be_read_is_said_at_once(session, args, said):
    done, out, _ = session(*args)
    assert (done.returncode, out) == (2, "")
    assert done.stderr.startswith(f"klab: {said}")
    assert "Traceback" not in done.stderr


TWO = "import kernellab as kl\n@kl.op\ndef f(x): return x\n@kl.op\ndef g(x): return x\n"


def test_one_op_and_one_way_of_kind_triton_are_asked_for(tmp_path):
    (tmp_path / "two.py").write_text(TWO)
    gelu, rowsum = _op(["gelu"]), _op([str(DEBUGGED)])
    for call, said in [
        (lambda: _op(["gelu", "square"]), "--break takes one op at a time, not 2: gelu, square"),
        (lambda: _op([str(tmp_path / "two.py")]), "two.py declares f, g: name it, two.py:f"),
        (lambda: _way(_op(["add"]), []), "op add has no way of kind triton"),
        (lambda: _way(gelu, ["torch"]), "torch is not of kind triton: --impl triton"),
        (lambda: _way(gelu, ["torch", "cpp"]), "torch, cpp are not of kind triton: --impl triton"),
        (lambda: _way(gelu, ["tritn"]), "did you mean triton?"),
        (lambda: _way(rowsum, []), "3 are of kind triton: --impl triton or triton-raising or triton-wild"),
        (lambda: _way(rowsum, ["triton-*"]), "2 are of kind triton"),
        (lambda: _case(gelu, gelu["triton"], CaseRequest(dtypes=["float64"])), "triton does not take"),
    ]:
        with pytest.raises(UserError) as refusal:
            call()
        assert said in refusal.value.message
    assert _way(gelu, ["torch", "triton"]).name == "triton"


def test_the_case_is_the_smallest_the_way_takes_unless_a_size_is_given():
    rowsum = _op([str(DEBUGGED)])
    small = _case(rowsum, rowsum["triton"], CaseRequest(dtypes=["bfloat16"]))
    assert small.M * small.N <= 64
    assert small.dtype == "bfloat16"
    given = _case(rowsum, rowsum["triton"], CaseRequest(dims={"M": [100], "N": [70]}))
    assert given.shape == (100, 70)
    rowsum["triton-wild"].supports = lambda case: case.N > 16 or "rows are too short"
    assert _case(rowsum, rowsum["triton-wild"], CaseRequest()).N > 16
    rowsum["triton-wild"].supports = lambda case: 1 / 0
    with pytest.raises(UserError, match="supports= of triton-wild failed: ZeroDivisionError"):
        _case(rowsum, rowsum["triton-wild"], CaseRequest())


# What only a launch can show; all in one process, since each costs seconds.
REFUSALS = """
import sys
from kernellab.interpreter.emulation import prepare
prepare()
from kernellab.base.errors import UserError
from kernellab.running.programs.debugged_op import _case, _op, _session, CaseRequest
op = _op([sys.argv[1]])
for shape, file, line, program in eval(sys.argv[2]):
    case = _case(op, op["triton"], CaseRequest(shapes=[shape]))
    try:
        print(_session(op, op["triton"], case, 0, dict(file=file, line=line, program=program)))
    except UserError as error:
        print(error.message)
op.reference = lambda x: x.no_such_thing()
try:
    _session(op, op["triton"], case, 0, dict(file="", line=None, program=None))
except UserError as error:
    print(error.message)
"""


def test_what_a_launch_shows_to_be_impossible_is_one_sentence(tmp_path):
    blank, first = line_of(DEBUGGED, "def sums("), line_of(DEBUGGED, "row = tl.program_id(0)")
    never, elsewhere = line_of(DEBUGGED, "# never reached"), line_of(DEBUGGED, "def wild(") + 1
    asked = [
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
    command = [sys.executable, "-c", REFUSALS, str(DEBUGGED), repr(asked)]
    done = subprocess.run(command, env=klab_env(), cwd=tmp_path, capture_output=True, text=True, timeout=120)
    said = done.stdout.splitlines()
    expected = [
        f"--break {blank}: no kernel has code on line {blank} of {DEBUGGED}; sums has on line {first}",
        f"--break 9999: no kernel has code on line 9999 of {DEBUGGED}; wild has on line ",
        f"--break: line {never} was not reached at M=2 N=4 · float32; triton is right: ",
        f"--break: debugged.py:{elsewhere} was not reached at M=2 N=4 · float32; triton is right: ",
        f"--break: line {first} in program 7 was not reached",
        "--break-at 7: the grid is 2, and programs are numbered from 0",
        f"--break nowhere.py:3: no such file; kernels are written in {DEBUGGED}",
        f"--break {Path(__file__)}:3: no Triton kernel is written in {Path(__file__)}",
        "rowsum at M=0 N=4 · float32: triton launched no Triton kernel",
        "rowsum at M=0 N=4 · float32: cannot check: the reference failed: AttributeError",
    ]
    assert len(said) == len(expected), done.stdout + done.stderr
    for got, want in zip(said, expected, strict=True):
        assert got.startswith(want)


class Fake:
    """A block as the interpreter makes it."""

    def __init__(self, data, name, block=True, pointee_bits=None):
        bits = type("element", (), {"primitive_bitwidth": pointee_bits})
        methods = {"__str__": lambda _: name, "is_ptr": lambda _: pointee_bits is not None, "element_ty": bits}
        self.dtype = type("dtype", (), methods)()
        self.type = type("type", (), {"is_block": lambda _: block})()
        self.handle = type("handle", (), {"data": np.asarray(data), "dtype": self.dtype})()


def test_blocks_read_as_numbers_and_pointers_as_places():
    from kernellab.interpreter.block_values import shown

    tensors = {"x_ptr": torch.zeros(4), "y_ptr": torch.zeros(2, 8)[:, ::2]}
    y = tensors["y_ptr"].data_ptr()
    bf16 = torch.tensor([1.5, -2.0], dtype=torch.bfloat16).view(torch.int16).numpy().view(np.uint16)
    assert shown(Fake(bf16, "bf16"), tensors) == "bf16[2] [ 1.5 -2. ]"
    assert shown(Fake([3], "int32", block=False), tensors) == "int32 3"
    assert shown(Fake(np.arange(100), "int32"), tensors) == "int32[100] [ 0  1  2  3 ... 96 97 98 99]"
    assert "..." not in shown(Fake(np.arange(100), "int32"), tensors, 1000)
    pointers = np.array([y + 4, y + 56, y + 60], dtype=np.uint64)
    text = shown(Fake(pointers, "pointer<fp32>", pointee_bits=32), tensors)
    assert text == "pointer<fp32>[3] y_ptr + [ 1 14 15], 1 of 3 outside y_ptr"
    nowhere = Fake(np.array([8], dtype=np.uint64), "pointer<fp32>", block=False, pointee_bits=32)
    assert shown(nowhere, tensors) == "pointer<fp32> outside every tensor the kernel was given"
    assert shown(tensors["y_ptr"], tensors) == "float32 2×4 strides (8, 2)"
    assert shown((1, "a"), tensors) == "(1, 'a')"
