"""Debugging sessions in Triton kernels: pdb commands in, answers out."""

import functools
import os
import pty
import re
import select
import signal
import subprocess
import time

import pytest

from support.klab import OPFILES, SRC, klab_command, klab_env
from support.source import line_of

PROMPT = "(klab) "


OPS = SRC / "kernellab" / "ops"


DEBUGGED = OPFILES / "debugged.py"


@pytest.fixture
def session(tmp_path):
    """Gives pdb commands to `klab check`; returns the process, its output before the first prompt, and the answers."""

    def run(*args, commands=()):
        done = subprocess.run(
            klab_command("check", *args),
            input="".join(f"{c}\n" for c in commands),
            cwd=tmp_path,
            env=klab_env(HOME=str(tmp_path)),  # no .pdbrc of the user
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert not (tmp_path / "runs").exists()  # nothing is recorded
        intro, *answers = done.stdout.split(PROMPT)
        return done, intro, answers

    return run


def test_stepping_through_the_shipped_gelu_into_its_helper(session):
    move = OPS / "elementwise_triton.py"
    call = line_of(move, "result = f(a)")
    commands = [
        "p BLOCK",
        f"tbreak {call}",
        "c",
        "p a_ptr",
        "s",
        "p x",
        "x > 0",
        "ll",
        "r",
        "n",
        "w",
        "r",
        "n",
        "n",
        "c",
    ]
    done, intro, answers = session("gelu", "--impl", "triton", "--break", commands=commands)
    assert done.returncode == 0, done.stderr
    first = line_of(move, "start = tl.program_id(0)")
    lines = intro.splitlines()
    assert lines[0] == "gelu · triton · 3×16 · float32 · approximate=tanh · in Triton's interpreter"
    assert lines[1] == f"kernel map_flat ({move}:{line_of(move, 'def map_flat')}), grid 1"
    tensors = "a_ptr: float32 3×16, b_ptr=None, c_ptr=None, y_ptr: float32 3×16, z_ptr=None"
    no_random_words = "seed=None, offset=None, p=None, q=None"
    assert lines[2] == f"  {tensors}, n=48, {no_random_words}, f=tanh_value, BLOCK=512"
    assert lines[4:6] == ["program 0", f"> {move}:{first} map_flat"]
    *answers, at_helper_return, at_return, outside, verdict = answers
    answer = dict(zip(commands, answers, strict=False))
    assert answer["p BLOCK"] == "512\n"
    assert answer["p a_ptr"].startswith("pointer<fp32>[512] a_ptr + [  0   1   2   3 ... 508 509 510 511], 464 of 512")
    arithmetic = OPS / "gelu" / "triton.py"
    assert f"{arithmetic}:{line_of(arithmetic, 'return x / (1.0')} tanh_value" in answer["s"]
    assert "return x / (1.0 +" in answer["s"]
    assert re.match(r"fp32\[512\] \[-?\d", answer["p x"])
    assert re.match(r"int1\[512\] \[(True|False)", answer["x > 0"])
    assert "def tanh_value(x):" in answer["ll"]
    assert "tanh_value returns fp32[512]" in answer["r"]
    assert "if z_ptr is None" in answer["n"]
    frames = re.findall(r"^[> ] \S+:\d+ (\S+)$", answer["w"], re.MULTILINE)  # and none of Triton's
    assert frames == ["__call__", "forward", "map_triton", "map_flat", "map_block"]
    assert "map_block returns None" in at_helper_return
    assert "map_flat returns None" in at_return
    assert re.match(rf"> {move}:\d+ map_triton", outside)  # in the launcher, which has no program
    assert verdict.startswith("triton is right: largest error ")
    assert "(torch's " in verdict


def test_stopping_at_a_line_of_the_shipped_softmax_and_quitting(session):
    file = OPS / "softmax" / "triton.py"
    at = line_of(file, "e = tl.exp(x - tl.max(x, axis=1")
    commands = ["p x", "n", "p tl.sum(e, axis=1)", "q"]
    done, intro, answers = session(
        *("softmax", "--break", f"softmax/triton.py:{at}", "--shape", "2x3", "--dtype", "bf16"), commands=commands
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert f"> {file}:{at} whole_row" in intro
    assert answers[0].startswith("fp32[")  # the kernel has widened them
    assert "-inf" in answers[0]  # the lanes beyond the row
    assert answers[2].startswith("fp32[")
    assert answers[-1] == ""


def test_stopping_in_one_program_of_a_wrong_kernel(session):
    at = line_of(DEBUGGED, "total = tl.sum(x, axis=0)")
    commands = ["p row", "p x", "n", "v", "a", "p nothing", "run", "c"]
    done, intro, answers = session(
        *(DEBUGGED, "--impl", "triton", "--break", str(at), "--break-at", "2", "--M", "4", "--N", "5"),
        commands=commands,
    )
    answer = dict(zip(commands, answers, strict=True))
    assert done.returncode == 0
    assert "program 2" in intro
    assert answer["p row"] == "int32 2\n"
    assert re.fullmatch(r"fp32\[8\] \[.* 1\. +1\. +1\. +\]\n", answer["p x"])
    assert "total = fp32 " in answer["v"]
    assert answer["a"].splitlines()[0] == "x_ptr = pointer<fp32> x_ptr + 0"
    assert "NameError" in answer["p nothing"]
    assert "repeat the command" in answer["run"]
    assert re.match(r"triton is wrong: values: error .* at \[\d\] .*, should be ", answer["c"])


def test_a_kernel_that_raises_is_inspected_where_it_raised(session):
    line = line_of(DEBUGGED, "return tl.sum(x + tl.arange(0, 64)")
    commands = ["c", "w", "p x", "u", "p row", "q"]
    done, _, answers = session(DEBUGGED, "--impl", "triton-raising", "--break", "--shape", "2x8", commands=commands)
    answer = dict(zip(commands, answers, strict=True))
    assert (done.returncode, done.stderr) == (0, "")
    assert re.match(rf"triton-raising raised ValueError: .*incompatible.* \(debugged.py:{line}\)", answer["c"])
    assert f"> {DEBUGGED}:{line} helper" in answer["c"]
    frames = re.findall(r"^[> ] \S+:\d+ (\S+)$", answer["w"], re.MULTILINE)
    assert frames == ["<lambda>", "launch", "outer", "helper"]
    assert answer["p x"].startswith("fp32[8] [")
    assert answer["p row"] == "int32 0\n"


def test_an_invalid_pointer_is_found_by_its_line(session):
    done, _, _ = session(DEBUGGED, "--impl", "triton-wild", "--break", "--shape", "2x8", commands=["c"])
    assert done.returncode == -11
    line = line_of(DEBUGGED, "tl.load(x_ptr + at))")
    assert f'debugged.py", line {line} in wild' in done.stderr


def test_interrupts_and_the_end_of_input_on_a_terminal_end_without_a_traceback(tmp_path):
    parent, child = pty.openpty()
    command = klab_command("check", DEBUGGED, "--impl", "triton", "--break", "--shape", "30000x4")
    env = klab_env(TERM="dumb", HOME=str(tmp_path))
    # Tests run in the background have SIGINT ignored, and so have the processes that they start.
    restore = functools.partial(signal.signal, signal.SIGINT, signal.SIG_DFL)
    process = subprocess.Popen(
        command, stdin=child, stdout=child, stderr=child, cwd=tmp_path, env=env, preexec_fn=restore
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
    time.sleep(0.5)  # the prompt is shown just before it is read from
    process.send_signal(2)  # what Ctrl-C does
    assert "--KeyboardInterrupt--" in until(PROMPT)
    os.write(parent, b"c\n")
    time.sleep(0.5)  # of about a minute
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
    ("args", "message"),
    [
        (
            ["--break", "gelu"],
            "cannot read --break 'gelu': write a line, 12 or kernels.py:12, and name the op before --break",
        ),
        (["gelu", "--break-at", "2"], "--break-at is an option of --break: add --break"),
        (["gelu", "--break", "--break-at", "x"], "cannot read --break-at 'x'"),
        (["gelu", "--break", "--json"], "--break debugs one case and keeps no record: leave out --json"),
        (["gelu", "--break", "--device", "cuda"], "--break runs in Triton's interpreter, on the CPU"),
    ],
)
def test_options_that_cannot_be_read_are_refused_at_once(session, args, message):
    done, out, _ = session(*args)
    assert (done.returncode, out) == (2, "")
    assert done.stderr.startswith(f"klab: {message}")
    assert "Traceback" not in done.stderr
