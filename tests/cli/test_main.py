"""`klab` as a person meets it: help, listings, bad requests, plain output, JSON."""

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest

from kernellab.base.errors import UserError
from kernellab.declaration.case_request import CaseRequest
from kernellab.declaration.targets import load, resolve
from support.klab import OPFILES, klab_command, klab_env


@pytest.mark.clocked
@pytest.mark.parametrize("args", [["--help"], ["list"], ["run", "--help"]])
def test_help_and_listings_answer_at_once(args, tmp_path):
    best = 9.0
    for _ in range(5):  # the fastest of five: other processes share this machine
        began = time.perf_counter()
        subprocess.run(klab_command(*args), env=klab_env(), cwd=tmp_path, check=True, capture_output=True)
        best = min(best, time.perf_counter() - began)
    assert best < 0.3


def test_the_list_says_what_can_run_here(klab):
    seen = klab("list")
    assert seen.code == 0
    for line in ("gelu  ", "  triton       checked", "  cuda-inline  ", "  cpp          checked and timed"):
        assert line in seen.out
    ops = {entry["op"]: entry for entry in json.loads(klab("list", "--json").out)}
    assert set(ops) >= {"add", "gelu", "matmul", "softmax", "square"}
    assert "manual" not in ops["matmul"]["ways"]


def test_listing_executes_nothing(tmp_path):
    code = (
        "import sys\nfrom kernellab.cli import run\n"
        "assert run(['list']) == 0\nassert 'torch' not in sys.modules and 'kernellab.ops' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, env=klab_env(), cwd=tmp_path, capture_output=True)


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


def _shows_only(said: list[str], told: str) -> None:
    for part in said:
        assert part in told
    for part in ("Traceback", "site-packages", "kernellab/targets.py"):
        assert part not in told


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (SYNTAX, ["has a syntax error", "def f(:", "line 1"]),
        (RAISES, ["could not be loaded", "KeyError: 'missing'", "in inner"]),
        ("import torch\n", ["declares no op"]),
        (TWO_OPS, ["two ops are named f"]),
        (TWO_IMPLS, ["already has an implementation named a"]),
        ("import sys\nsys.exit('bye')\n", ["could not be loaded", "bye"]),
    ],
)
def test_bad_op_files_show_the_authors_own_frames(tmp_path, text, said):
    with pytest.raises(UserError) as refused:
        load(resolve(str(_file(tmp_path, text))))
    _shows_only(said, f"{refused.value.message}\n{refused.value.detail}")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (RAISES, ["could not be loaded", "KeyError: 'missing'", "in inner"]),
        ("import os\nos._exit(3)\n", ["loading", "exited with code 3"]),
    ],
)
def test_klab_passes_on_what_is_wrong_with_an_op_file(klab, tmp_path, text, said):
    seen = klab("check", _file(tmp_path, text))
    assert (seen.code, seen.out) == (2, "")
    _shows_only(said, seen.err)
    assert not (tmp_path / "runs").exists() or not list((tmp_path / "runs").iterdir())


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["run", "gleu"], "did you mean gelu"),
        (["run", "zzz"], "known: add, gelu"),
        (["run"], "no op named"),
        (["run", "missing.py"], "no file missing.py"),
        (["run", "gelu", "--shape", "4096x"], "cannot read the shape '4096x'"),
        (["run", "gelu", "--dtype", "float8"], "no dtype 'float8'"),
        (["run", "gelu", "--opt", "approximate"], "write --opt name=value"),
        (["run", "gelu", "--opt", "approximate=sinh"], "option approximate cannot be 'sinh'"),
        (["run", "gelu", "--impl", "tritn"], "did you mean triton"),
        (["run", "gelu", "--N", "4:2"], "cannot read --N"),
        (["run", "gelu", "--dtpye", "float32"], "did you mean dtype"),
        (["run", "gelu", "--timeout", "0"], "must be above 0"),
        (["run", "gelu", "--device", "gpu"], "no device 'gpu'"),
        (["run", "gelu", "--out", "/proc/nowhere"], "cannot write the record to /proc/nowhere"),
        (["check", "--resume", "nowhere"], "no run at nowhere"),
        (["new", "not-a-name"], "cannot name an op"),
        (["list", "extra"], "cannot understand"),
        (["check", "--resume", "x", "--impl", "torch"], "takes everything from the run"),
        (["run", "gelu", "--N"], "no value for --N"),
        (["run", "gelu", "--seed", "abc"], "invalid int value"),
    ],
)
def test_a_bad_request_is_one_sentence_and_code_2(klab, args, said):
    seen = klab(*args)
    assert seen.code == 2, seen.err
    assert said in seen.err
    assert "Traceback" not in seen.err
    assert seen.out == ""


@pytest.mark.parametrize(
    ("target", "wanted", "said"),
    [
        ("no.such.module:op", {}, "no module no"),
        ("kernellab.ops.gelu:gleu", {}, "did you mean gelu"),
        ("gelu", {"options": {"approx": ["tanh"]}}, "did you mean approximate"),
        ("gelu", {"dims": {"K": [4]}}, "op gelu has no dim K"),
        ("matmul", {"shapes": [(1, 2, 3, 4)]}, "has 4 sizes"),
    ],
)
def test_what_an_op_does_not_have_is_one_sentence(target, wanted, said):
    def planned():
        return [op.expand(CaseRequest(**wanted), "cpu") for op in load(resolve(target)).values()]

    with pytest.raises(UserError, match=said):
        planned()


@pytest.mark.skipif(Path("/dev/nvidiactl").exists(), reason="this machine has a GPU")
def test_cuda_without_a_gpu_is_refused(klab):
    seen = klab("run", "gelu", "--device", "cuda")
    assert (seen.code, "klab doctor" in seen.err) == (2, True)


def test_debug_shows_the_traceback(klab):
    seen = klab("run", "gleu", "--debug")
    assert seen.code != 0
    assert "Traceback" in seen.err


def test_a_full_disk_is_said_and_ends_the_run(tmp_path):
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


def test_json_is_one_document_and_nothing_else(klab):
    seen = klab("check", "square", "--impl", "manual,torch", "--shape", "32x32", "--json")
    assert seen.code == 0, seen.err
    record = seen.record
    assert record["schema"] == 3
    assert record["environment"]["packages"]["torch"]
    for result in record["results"]:
        assert result["derived"]["status"] == "ok"
        assert result["derived"]["rules"] == 4


def test_piped_output_is_plain_text_and_nothing_is_cut(klab):
    seen = klab("run", "square", "--impl", "manual,torch", "--shape", "64x64", "--quick", "--device", "cpu")
    assert seen.code == 0, seen.err
    assert "\x1b" not in seen.out
    assert "…" not in seen.out
    assert "square · 64×64 · float32 · cpu" in seen.out
    assert "2 results right." in seen.out
    assert "record: runs/" in seen.out


def test_dims_sweep_and_the_record_lands_where_it_is_told_to(klab, tmp_path):
    seen = klab("check", "softmax", "--impl", "torch", "--N", "8:32:x2", "--out", "here", "--json", "--device", "cpu")
    assert [r["case"]["dims"]["N"] for r in seen.record["results"]] == [8, 16, 32]
    assert (tmp_path / "here" / "run.json").exists()
    again = klab("check", "softmax", "--out", "here")
    assert (again.code, "already holds a run" in again.err) == (2, True)


def test_a_project_sets_defaults(klab, tmp_path):
    (tmp_path / "pyproject.toml").write_text('[tool.kernellab]\nseed = 7\ndevice = "cpu"\nruns = "elsewhere"\n')
    seen = klab("check", "square", "--impl", "torch", "--shape", "8x8", "--json")
    assert (seen.record["seed"], seen.record["machine"]["device"]) == (7, "cpu")
    assert (tmp_path / "elsewhere").is_dir()
    (tmp_path / "pyproject.toml").write_text("[tool.kernellab]\nsede = 7\n")
    seen = klab("check", "square")
    assert (seen.code, "did you mean seed" in seen.err) == (2, True)


def test_the_template_works_and_is_not_overwritten(klab, tmp_path):
    assert klab("new", "swish").code == 0
    impls = ["manual", "torch", "triton"]  # `compile` is the same for every op
    args = ("--impl", ",".join(impls), "--shape", "33x65", "--device", "cpu", "--json")
    seen = klab("check", "swish.py", *args)
    assert seen.code == 0, seen.out + seen.err
    assert {r["impl"]: r["derived"]["status"] for r in seen.record["results"]} == dict.fromkeys(impls, "ok")
    assert klab("new", "swish").code == 2


def test_doctor_reports_what_is_here(klab):
    findings = {f["name"]: f for f in json.loads(klab("doctor", "--json").out)}
    assert set(findings) >= {"GPU", "driver", "torch", "C++ compiler", "Triton", "NVRTC", "nvcc", "Nsight Compute"}
    assert "builds CUDA C++" in findings["NVRTC"]["found"]
    assert all(f["found"] or f["cost"] for f in findings.values())


def test_files_may_hold_several_ops_and_one_can_be_named(klab):
    path = OPFILES / "sketches.py"
    both = klab("check", path, "--declared", "--impl", "torch", "--device", "cpu", "--json")
    assert {r["op"] for r in both.record["results"]} == {"cross_entropy", "attention"}
    one = klab("check", f"{path}:attention", "--declared", "--impl", "torch", "--device", "cpu", "--json")
    assert {r["op"] for r in one.record["results"]} == {"attention"}


def test_a_dim_may_stand_before_the_op(klab):
    seen = klab("check", "--N", "8,9", "softmax", "--impl", "torch", "--device", "cpu", "--json")
    assert [r["case"]["dims"]["N"] for r in seen.record["results"]] == [8, 9]


def test_interpreter_mode_is_ignored_by_the_command(klab):
    seen = klab("run", "square", "--impl", "torch", "--shape", "8x8", "--quick", "--json", TRITON_INTERPRET="1")
    assert seen.code == 0
    assert "TRITON_INTERPRET is set" in seen.err
    assert seen.result("torch")["derived"]["time"]["median_us"] > 0


def test_output_that_cannot_be_written_is_a_sentence(tmp_path):
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(klab_command("list"), env=klab_env(), cwd=tmp_path, stdout=full, stderr=subprocess.PIPE)
    assert (done.returncode, b"No space left" in done.stderr, b"Traceback" in done.stderr) == (2, True, False)


def test_a_terminal_without_the_characters_still_gets_its_listing(klab):
    seen = klab("list", PYTHONIOENCODING="ascii")
    assert (seen.code, "gelu" in seen.out) == (0, True)


@pytest.mark.parametrize("name", ["torch", "tl", "copy"])
def test_a_template_that_would_hide_a_module_is_refused(klab, name):
    seen = klab("new", name)
    assert (seen.code, "choose another" in seen.err) == (2, True)


def test_a_dtype_without_a_kernel_is_skipped_not_failed(klab):
    seen = klab(
        "check", "square", "--dtype", "float64", "--shape", "8", "--device", "cpu", "--impl", "torch,triton,cpp"
    )
    assert (seen.code, "triton  skipped: has no float64 kernel" in seen.out) == (0, True)


def test_a_cache_that_cannot_be_used_is_a_sentence(klab):
    seen = klab("check", "square", "--shape", "8", "--impl", "torch", KERNELLAB_CACHE="/proc/nowhere")
    assert (seen.code, "KERNELLAB_CACHE" in seen.err, "Traceback" in seen.err) == (2, True, False)
