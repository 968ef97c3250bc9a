"""`klab inspect OP`: an op's kernels in the terminal, as JSON and in files."""

import argparse
import json
import re
import signal
import socket
import subprocess
import sys

import pytest

from kernellab.base.errors import UserError
from kernellab.cli import inspect_diff, inspect_op
from kernellab.record.reading import load
from kernellab.reporting.terminal.inspection import list_kernels
from support.klab import OPFILES, klab_env
from support.records import record, result

SOURCE = (OPFILES / "captured.py").read_text()
FACTS = (
    *("impl", "name", "arch", "registers", "spill_bytes", "stack_bytes", "shared_bytes", "instructions"),
    *("widest_global_bytes", "narrowest_global_bytes", "occupancy", "grid", "block", "case", "config", "files"),
)


@pytest.mark.bare
def test_all_facts_of_two_implementations_on_two_architectures(klab, tmp_path):
    """As JSON; then the same run read again: shown, and its kernels compared with each other."""
    seen = klab("inspect", "softmax", "--impl", "triton,cuda", "--arch", "sm_80,sm_100", "--json", "--out", "run")
    assert seen.code == 0, seen.err
    kernels = json.loads(seen.out)["kernels"]
    assert [(k["impl"], k["arch"]) for k in kernels] == [
        *(("triton", "sm_80"), ("triton", "sm_100"), ("cuda", "sm_80"), ("cuda", "sm_100"))
    ]
    for k in kernels:
        assert all(k[name] is not None for name in FACTS)
        assert k["cubin_arch"].rstrip("af") == k["arch"]
        assert k["widest_global_bytes"] == 16
        assert k["registers"] > 8
        assert sum(k["instructions"].values()) > 50
        assert 0 < k["occupancy"]["fraction"] <= 1
        assert k["occupancy"]["limiter"] in ("registers", "threads", "blocks", "shared")
        for file in k["files"].values():
            assert (tmp_path / "run" / file).stat().st_size > 100
    assert {"ttir", "ttgir", "llir", "ptx", "cubin", "sass", "py"} == set(kernels[0]["files"])
    assert {"ptx", "cubin", "sass", "cu"} == set(kernels[2]["files"])
    assert list_kernels(load(tmp_path / "run")) == kernels  # the record holds what was printed

    differs = klab("inspect", "--diff", "run:triton@sm_80", "run:triton@sm_100")
    assert differs.code == 0, differs.err
    assert "registers" in differs.out
    assert "opcodes that differ" in differs.out
    wrong = klab("inspect", "--diff", "run:triton@sm_80", "run:triton@sm_90")
    assert wrong.code == 2
    assert "no such architecture: there are sm_80 and sm_100" in wrong.err

    again = klab("inspect", "softmax", "--diff", "run:triton@sm_80", "triton@sm_80")
    assert again.code == 0, again.err
    assert "run:triton@sm_80 rows_in_registers  triton@sm_80 rows_in_registers" in again.out
    twice = klab("inspect", "--diff", "run:triton@sm_80", "run/:triton@80")
    assert (twice.code, twice.out) == (2, "")
    assert "both sides are the same kernel" in twice.err


def test_an_implementation_that_cannot_be_captured_does_not_affect_others(klab, tmp_path):
    impls = "triton-autograd,triton-looks,triton-dies,triton-too-much,triton-tuned,manual"
    args = ("--impl", impls, "--arch", "sm_86", "--pass", "forward,backward", "--out", "run")
    seen = klab("inspect", OPFILES / "captured.py", *args)
    assert seen.code == 1
    entries = {(e["impl"], e["pass"]): e for e in load(tmp_path / "run")["code"]}
    assert entries["triton-dies", "forward, backward"]["status"] == "crashed"
    assert "aborted (SIGABRT)" in entries["triton-dies", "forward, backward"]["reason"]
    looks = entries["triton-looks", "forward"]
    assert looks["status"] == "error"
    assert looks["reason"].startswith(
        "reads the values of a tensor, which are not available without a GPU: RuntimeError: Tensor.item()"
    )
    line = next(n for n, text in enumerate(SOURCE.splitlines(), 1) if ".item()" in text)
    assert looks["reason"].endswith(f"(captured.py:{line})")
    assert "shared memory, Required: 131072, Hardware limit: 101376" in entries["triton-too-much", "forward"]["reason"]
    assert entries["manual", "forward"]["status"] == "none"
    assert entries["triton-tuned", "backward"]["status"] == "skipped"
    # The backward pass is its own launch alone, not the forward's before it.
    for pass_name, block in (("forward", 256), ("backward", 512)):
        (kernel,) = entries["triton-autograd", pass_name]["kernels"]
        assert kernel["config"]["constexprs"] == {"BLOCK": block}
    assert len(entries["triton-tuned", "forward"]["kernels"]) == 3
    assert "BLOCK=128 num_warps=2" in seen.out
    assert "too wide" in seen.out
    assert "manual  none: calls PyTorch's own kernels" in seen.out


def test_architectures_are_independent_of_each_other(klab, tmp_path):
    """Even what an author's code caches is not shared, although two of the three share a worker."""
    args = ("--impl", "triton-persistent", "--arch", "sm_80,sm_86,sm_90", "--out", "run")
    seen = klab("inspect", OPFILES / "captured.py", *args)
    assert seen.code == 0, seen.err
    entries = {entry["arch"]: entry["kernels"][0]["grid"][0] for entry in load(tmp_path / "run")["code"]}
    assert entries == {"sm_80": 108, "sm_86": 84, "sm_90": 132}


LENT = """
import os, socket, sys
from kernellab.record.run_events import RunCompleted
from kernellab.running.worker.channel import Channel
channel = Channel(int(sys.argv[1]))
channel.run_in_fork(lambda: channel.send(RunCompleted()))
with channel.running("culprit", "inspect"):
    channel.run_in_fork(os.abort)
"""


def test_a_death_in_a_fork_is_the_workers_own():
    """The parent sees who was running, and how it ended."""
    ours, theirs = socket.socketpair()
    command = [sys.executable, "-c", LENT, str(theirs.fileno())]
    process = subprocess.Popen(command, pass_fds=[theirs.fileno()], env=klab_env())
    theirs.close()
    with ours, ours.makefile() as lines:
        events = [json.loads(line) for line in lines]
    assert [event["event"] for event in events] == ["complete", "begin"]  # and no end
    assert events[-1]["impl"] == "culprit"
    assert process.wait() == -signal.SIGABRT


def test_a_difference_is_shown_with_the_times_of_a_run(tmp_path):
    case = {"dims": {"...": [8]}, "dtype": "float32", "options": {}, "layout": "contiguous", "device": "cuda"}
    timed = record(result("triton", [100.0] * 20), result("cuda", [90.0] * 20))
    (tmp_path / "run.json").write_text(json.dumps(timed))
    left, right = ({"op": "f", "impl": impl, "case": case} for impl in ("triton", "cuda"))
    line = inspect_diff.time_line(tmp_path, ((left, tmp_path), (right, tmp_path)))
    assert line == f"time: triton 100 µs, cuda 90 µs (-10.0 %), in {tmp_path}"
    unknown = {**right, "impl": "cuda-v2"}
    assert inspect_diff.time_line(tmp_path, ((left, tmp_path), (unknown, tmp_path))) is None


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("triton", (None, "triton", "", None)),
        ("triton-v2@90#2", (None, "triton-v2", "sm_90", 2)),
        ("run", ("run", "", "", None)),
        ("run:cuda@sm_80", ("run", "cuda", "sm_80", None)),
    ],
)
def test_how_a_side_of_a_difference_is_written(text, parts, tmp_path, monkeypatch):
    (tmp_path / "run").mkdir()
    monkeypatch.chdir(tmp_path)
    side = inspect_diff.parse_side(text)
    assert (side.run and str(side.run), side.impl, side.arch, side.number) == parts


AGAIN = """
@double.impl("triton-again")
def _(x):
    y = torch.empty_like(x)
    for n in (64, 128, 192):
        twice[(4,)](x, y, n, BLOCK=64)
        twice[(4,)](x, y, n, BLOCK=64)
    return y
"""


def test_launches_that_look_alike_are_one_row_and_one_line(klab, tmp_path):
    (tmp_path / "again.py").write_text(SOURCE + AGAIN)
    seen = klab("inspect", "again.py:double", "--impl", "triton-again", "--arch", "sm_80")
    assert seen.code == 0, seen.err
    assert seen.out.count("twice × 6") == 1
    assert sum(line.lstrip().startswith("triton-again  twice") for line in seen.out.splitlines()) == 1
    assert seen.err.count("sm_80: twice") == 1


def test_a_kernel_that_cannot_be_launched_or_differentiated_is_reported(klab, tmp_path):
    huge = ("--shape", "1000000x1000000x1000000", "--dtype", "float32", "--opt", "approximate=tanh")
    seen = klab("inspect", "gelu", "--impl", "triton", *huge, "--pass", "forward", "--out", "run")
    assert seen.code == 0, seen.err
    (forward,) = load(tmp_path / "run")["code"]
    why = "a grid has at most 2147483647 blocks along x, not 1953125000000000: distribute the work along x"
    assert forward["kernels"][0]["refusal"].startswith(why)
    assert f"cannot launch: {why}" in seen.out
    assert "100 %" not in seen.out
    klab("inspect", OPFILES / "captured.py", "--impl", "triton", "--pass", "both", "--out", "both")
    (both,) = load(tmp_path / "both")["code"]
    assert both["reason"].endswith("; --pass forward shows what it launches")


def test_a_missing_side_of_a_difference_is_answered_with_those_that_exist(tmp_path):
    with pytest.raises(UserError, match="numbered from 1"):
        inspect_diff.parse_side("triton#0")
    kernel = {"impl": "triton", "arch": "sm_90", "files": {"cubin": "a"}, "tuned": None}
    kernels = [{**kernel, "tuned": [number, 2]} for number in range(2)] + [{**kernel, "impl": "cuda"}]
    for text, message in (
        ("tritn", "no such implementation: there are triton and cuda"),
        ("triton@sm_80", "no such architecture: there is sm_90"),
        ("triton#3", "no such configuration: there are 1 and 2"),
    ):
        with pytest.raises(UserError, match=message):
            inspect_diff.refuse_missing(inspect_diff.parse_side(text), kernels)
    inspect_diff.refuse_missing(inspect_diff.parse_side("triton#2"), kernels)


def test_levels_and_code_for_the_cpu(klab, tmp_path):
    args = ("--impl", "triton,cpp,cuda-inline", "--shape", "64x64", "--dtype", "float32,bfloat16", "--out", "run")
    seen = klab("inspect", "square", *args, "--show", "source")
    assert seen.code == 0, seen.err
    # The GPU's architecture where there is one; the source begins with its decorator.
    assert re.search(r"^// triton map_flat sm_90\n@triton\.jit.*\ndef map_flat\(", seen.out, re.MULTILINE)
    assert "def square_of" in seen.out  # what the kernel is given is part of it
    assert "// cpp square sm_90\n" in seen.out
    entries = {entry["impl"]: entry for entry in load(tmp_path / "run")["code"]}
    assembly = (tmp_path / "run" / entries["cpp"]["kernels"][0]["files"]["s"]).read_text()
    assert "square:" in assembly
    assert "ret" in assembly
    assert entries["cuda-inline"]["status"] == "skipped"
    assert "nvcc" in entries["cuda-inline"]["reason"]
    files = [file for kernel in list_kernels(load(tmp_path / "run")) for file in kernel["files"].values()]
    assert len(files) == len(set(files)) == 2 * (7 + 2)  # no case overwrites another's


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("softmax", "--arch", "sm_42"), "no architecture 'sm_42'"),
        (("softmax", "--arch", "sm_70"), "sm_75 and later"),
        (("softmax", "--show", "sas"), "--show sas: did you mean sass"),
        (("softmax", "--impl", "tritn"), "no implementation 'tritn' of softmax: did you mean triton"),
        (("softmax", "--diff", "triton"), "--diff compares two"),
        (("softmax", "--timings", "run"), "name them, --diff triton cuda"),
        (("softmax", "gelu"), "one op at a time"),
        ((), "nothing to inspect"),
    ],
)
def test_a_bad_request_is_one_sentence(klab, args, message, tmp_path):
    seen = klab("inspect", *args)
    assert seen.code == 2
    assert message in seen.err
    assert not list((tmp_path / "runs").glob("*"))


@pytest.mark.parametrize(
    ("args", "seconds"), [((), 60.0), (("--export", "my.py"), 300.0), (("--export", "my.py", "--timeout", "9"), 9.0)]
)
def test_compiling_for_an_export_is_given_more_time(args, seconds):
    parser = argparse.ArgumentParser()
    inspect_op.add_options(parser)
    assert inspect_op.timeout_s(parser.parse_args(args)) == seconds
