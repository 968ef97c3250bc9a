"""The command itself: fast help, one sentence for a bad request, output that cannot be written."""

import resource
import subprocess
import sys
from pathlib import Path

import pytest

from support.klab import klab_command, klab_env

# Takes a twentieth of a second on the machine that the limit below is meant for.
PYTHON_ALONE = [sys.executable, "-c", "import argparse, dataclasses, inspect, json, pathlib, re, subprocess, typing"]


@pytest.mark.clocked
@pytest.mark.parametrize("args", [["--help"], ["list"], ["run", "--help"]])
def test_help_and_listings_answer_at_once(args, tmp_path):
    """In 0.3 s, where Python itself starts in 0.05 s. Processor time is compared, because others share the machine."""
    took_s, python_s = 9.0, 9.0
    for _ in range(5):
        took_s = min(took_s, processor_seconds(klab_command(*args), tmp_path))
        python_s = min(python_s, processor_seconds(PYTHON_ALONE, tmp_path))
    assert took_s < 0.3 * max(1.0, python_s / 0.05)


def processor_seconds(command, folder):
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, env=klab_env(), cwd=folder, check=True, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def test_help_imports_what_it_shows_and_nothing_that_measures():
    """Each of these takes longer to import than the rest of `klab --help`."""
    code = "import kernellab.cli, sys; kernellab.cli.find_verbs(); print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], env=klab_env(), check=True, capture_output=True, text=True)
    loaded = set(done.stdout.split())
    assert "kernellab.cli.verbs.run" in loaded
    heavy = {"torch", "numpy", "rich", "kernellab.declaration.op", "kernellab.record.result_events"}
    assert not loaded & heavy


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["run", "gleu"], "did you mean gelu"),
        (["run", "zzz"], "known: add, add_rms_norm"),
        (["run"], "no op named"),
        (["run", "missing.py"], "no file missing.py"),
        (["run", "gelu", "--shape", "4096x"], "cannot read the shape '4096x'"),
        (["run", "gelu", "--dtype", "float8"], "no dtype 'float8'"),
        (["run", "gelu", "--opt", "approximate"], "write --opt name=value"),
        (["run", "gelu", "--opt", "approximate=sinh"], "option approximate cannot be 'sinh'"),
        (["run", "gelu", "--impl", "tritn"], "did you mean triton"),
        (["run", "gelu", "--K", "4"], "op gelu has no dim K: its dims are N"),
        (["run", "matmul", "--V", "1024:8192:x2"], "op matmul has no dim V: its dims are M, K, N"),
        (["run", "gelu", "--dtpye", "float32"], "unknown option --dtpye: did you mean --dtype?"),
        (["run", "gelu", "--timeout", "0"], "must be above 0"),
        (["run", "gelu", "--device", "gpu"], "no device 'gpu'"),
        (["run", "gelu", "--out", "/proc/nowhere"], "cannot write the record to /proc/nowhere"),
        (["check", "--resume", "nowhere"], "no run at nowhere"),
        (["new", "not-a-name"], "cannot name an op"),
        (["check", "--resume", "x", "--impl", "torch"], "takes everything from the run"),
        (["run", "gelu", "--seed", "abc"], "invalid int value"),
    ],
)
def test_a_bad_request_is_one_sentence_and_code_2(klab, args, message):
    seen = klab(*args)
    assert seen.code == 2, seen.err
    assert message in seen.err
    assert "Traceback" not in seen.err
    assert seen.out == ""


def test_debug_shows_the_traceback(klab):
    seen = klab("run", "gleu", "--debug")
    assert seen.code != 0
    assert "Traceback" in seen.err


def test_a_full_disk_ends_the_run_with_one_sentence(tmp_path):
    """A real one: a file system of 16 KiB, mounted in a namespace of the command's own."""
    small = tmp_path / "small"
    small.mkdir()
    command = [*klab_command("check", "square", "--impl", "manual", "--N", "1:300", "--device", "cpu")]
    script = f'mount -t tmpfs -o size=16k none {small} && exec "$@"'
    done = subprocess.run(
        ["unshare", "--mount", "sh", "-c", script, "sh", *command, "--out", str(small / "run")],
        env=klab_env(),
        capture_output=True,
        text=True,
        timeout=120,
    )
    if "unshare" in done.stderr or "mount:" in done.stderr:
        pytest.skip("this user cannot mount a file system")
    assert done.returncode == 2, done.stderr
    assert "cannot write the record" in done.stderr
    assert "No space left on device" in done.stderr
    assert "Traceback" not in done.stderr


def test_output_that_cannot_be_written_is_a_sentence(tmp_path):
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(klab_command("list"), env=klab_env(), cwd=tmp_path, stdout=full, stderr=subprocess.PIPE)
    assert (done.returncode, b"No space left" in done.stderr, b"Traceback" in done.stderr) == (2, True, False)


def test_a_cache_that_cannot_be_used_is_a_sentence(klab):
    seen = klab("check", "square", "--shape", "8", "--impl", "torch", KERNELLAB_CACHE="/proc/nowhere")
    assert (seen.code, "KERNELLAB_CACHE" in seen.err, "Traceback" in seen.err) == (2, True, False)
