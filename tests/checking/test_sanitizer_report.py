"""compute-sanitizer without a GPU: its reports, the trials chosen, and the whole path with a stand-in for the tool."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from kernellab.declaration.targets import load as load_target
from kernellab.declaration.targets import resolve, shipped_names
from kernellab.machine import tools
from kernellab.record import verdict
from kernellab.record.batteries import finding_sentence as finding
from kernellab.record.batteries import sanitizer_verdicts as sanitized
from kernellab.record.batteries import short_kernel_name as short
from kernellab.record.journal import Journal
from kernellab.record.reading import load
from kernellab.record.settings import Settings
from kernellab.reporting.terminal import sanitizer as report
from kernellab.reporting.text.console import console
from kernellab.running.parent.sanitizer import Sanitizer, impls_to_sanitize
from kernellab.sanitizer.report import MARK, MOST, command, is_own, read, subset
from kernellab.trials.battery import Battery
from support.klab import HERE, OPFILES, klab_env
from support.records import ENVIRONMENT, event

SAMPLES = HERE / "samples"


def sample(tool):
    return (SAMPLES / f"sanitizer-{tool}.txt").read_text()


def mark(**what):
    return f"{MARK}{json.dumps(what)}\n"


# Reports -----------------------------------------------------------------------------------------------


def test_an_invalid_read_is_put_down_to_kernel_line_and_trial():
    found = read(mark(trials=2) + mark(begin="1000 · float32") + sample("memcheck"), "memcheck")
    assert len(found.findings) == 1
    one = found.findings[0]
    assert (one["kind"], one["kernel"], one["file"], one["line"]) == ("invalid read", "oob", "san.py", 7)
    assert (one["bytes"], one["count"], one["own"], one["trial"]) == (16, 2, True, "1000 · float32")
    assert "out of bounds, 1 bytes after the nearest allocation of size 4,000 bytes" in one["detail"]
    assert finding(one).startswith("invalid read of 16 bytes in oob, san.py:7, at trial 1000 · float32: global memory")
    assert not found.finished  # the sample is cut: there is no summary


def test_a_race_names_both_accesses():
    one = read(sample("racecheck"), "racecheck").findings[0]
    assert (one["kind"], one["kernel"], one["file"], one["line"]) == ("race", "race", "kernels.cu", 5)
    assert (one["detail"], one["count"]) == ("write at kernels.cu:5, read at kernels.cu:6", 1024)
    warned = read(sample("racecheck").replace("Error: Race", "Warning: Race"), "racecheck").findings[0]
    assert (warned["kind"], warned["severity"]) == ("possible race", "warning")


def test_an_uninitialised_read():
    one = read(sample("initcheck"), "initcheck").findings[0]
    assert (one["kind"], one["kernel"], one["line"], one["bytes"]) == ("uninitialised read", "uninit", 9, 4)


def test_nothing_found():
    found = read(mark(trials=1) + mark(begin="a") + mark(status="ok") + mark(end=True) + sample("synccheck"), "sync")
    assert (found.findings, found.errors, found.finished, found.called, found.planned) == ([], 0, True, 1, 1)


def block(*lines):
    return "========= " + "\n=========     ".join(lines) + "\n========= \n"


def only(*lines, tool="memcheck"):
    found = read(block(*lines), tool).findings
    assert len(found) == 1
    return found[0]


def test_reports_as_the_manual_gives_them():
    barrier = only("Barrier error detected. Divergent thread(s) in warp.", "at k(int *, int)+0xf0 in d.cu:79")
    assert (barrier["kind"], barrier["detail"], barrier["line"]) == ("barrier", "divergent thread(s) in warp", 79)
    off = only("Invalid __global__ write of size 4 bytes", "at k():0x160 in m.cu:6", "Address 0x7f65 is misaligned")
    assert (off["kind"], off["kernel"], off["line"]) == ("misaligned write", "k()", 6)
    cluster = only("Potential invalid __shared__ read of size 4 bytes", "at k(int *)+0x170 in c.cu:10")
    assert (cluster["kind"], cluster["detail"]) == ("invalid read", "shared memory")
    nowhere = only("Uninitialized __global__ memory read of size 4 bytes", "at void mine<float>(float *)+0x80")
    assert (nowhere["file"], nowhere["line"], nowhere["kernel"]) == (None, None, "void mine<float>(float *)")
    fault = only("Warp Illegal Instruction", "at k()+0x10 in x.cu:3")
    assert (fault["kind"], fault["line"]) == ("warp illegal instruction", 3)


def test_a_fault_in_a_called_function_is_its_kernels():
    where = "at helper(float *)+0x20 in /a b/h.cuh:8", "Device Frame: main_kernel(float *)+0x90 in /a b/k.cu:40"
    one = only("Invalid __shared__ read of size 4 bytes", *where)
    assert (one["kernel"], one["file"], one["line"]) == ("main_kernel(float *)", "/a b/h.cuh", 8)


def test_what_is_no_finding():
    api = 'Program hit cudaErrorLaunchFailure (error 719) due to "unspecified launch failure" on CUDA API call to x.'
    text = block(api) + "========= Target application returned an error\n" + "way prints ========= things\n"
    assert (read(text, "memcheck").findings, read(text, "memcheck").complaints) == ([], [])
    assert read("========= Error: No attachable process found.\n", "memcheck").complaints


def test_whose_kernel_it_is():
    ours = ("oob", "gelu_kernel(float const*, long)", "triton_poi_fused_add_0", "void square<float>(float*)", "attn::k")
    assert all(is_own(name, None) for name in ours)
    torchs = "void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<float>>(int)"
    assert not is_own(torchs, None)
    assert not is_own(torchs, "Loops.cuh")
    for name in ("sm90_xmma_gemm_f32f32", "nvjet_tst_128x8", "void cutlass::Kernel<x>(y)", "void cub::DeviceScan(int)"):
        assert not is_own(name, None)
    assert is_own("void cutlass::Kernel<x>(y)", "mine.cu")  # with source lines it was built here


def test_short_names():
    assert short("void ns::k<float, at::Half<2>>(float *, int)") == "ns::k"
    assert short("oob") == "oob"


# The trials --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", shipped_names())
def test_the_subset_is_small_and_varied(name):
    for op in load_target(resolve(name)).values():
        trials = Battery(op, "cuda").trials()
        chosen = subset(trials)
        assert 20 <= len(chosen) <= MOST
        assert chosen == subset(trials)
        assert {t.call for t in chosen} == {"plainly"}
        assert {t.of for t in chosen} == {"forward", "backward"}
        assert {"sizes", "layouts", "dtypes", "gradients"} <= {t.kind for t in chosen}
        assert {t.case.dtype for t in chosen} >= {"float32", "bfloat16"}
        assert len(subset(trials, 10)) == 10
        assert len({t.kind for t in subset(trials, 10)}) >= 6


def test_the_command_asks_for_lines_and_goes_on_after_an_error():
    line = command("memcheck", "/x/compute-sanitizer", ["python", "-c", "pass"])
    assert line[:3] == ["/x/compute-sanitizer", "--tool", "memcheck"]
    assert line[-3:] == ["python", "-c", "pass"]
    assert "--padding" in line
    assert "--padding" not in command("racecheck", "s", [])


# What it cannot do without -----------------------------------------------------------------------------


def test_no_gpu(klab):
    if tools.has_gpu():
        pytest.skip("there is a GPU")
    seen = klab("check", "gelu", "--sanitize")
    assert seen.code == 2
    assert seen.err == "klab: --sanitize needs an NVIDIA GPU: there is none here. klab doctor says what was found\n"
    seen = klab("check", "--sanitize", "gelu")
    assert seen.code == 2
    assert "the op is named before it" in seen.err


def test_no_tool(monkeypatch, tmp_path):
    from kernellab.base.errors import UserError
    from kernellab.cli import parser, sanitize

    args = parser().parse_args(["check", "gelu", "--sanitize", "racecheck,memcheck"])
    monkeypatch.setattr(tools, "has_gpu", lambda: True)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("CUDA_HOME", str(tmp_path))
    with pytest.raises(UserError, match=r"not found on the PATH, in \$CUDA_HOME/bin .* install the CUDA toolkit"):
        sanitize.asked_for(args, "auto")
    with pytest.raises(UserError, match="needs an NVIDIA GPU"):
        sanitize.asked_for(args, "cpu")
    (tmp_path / "compute-sanitizer").write_text("#!/bin/sh\n")
    (tmp_path / "compute-sanitizer").chmod(0o755)
    assert sanitize.asked_for(args, "auto") == ["memcheck", "racecheck"]


def test_doctor_has_a_line_for_it(klab):
    line = next(line for line in klab("doctor").out.splitlines() if "compute-sanitizer" in line)
    assert tools.compute_sanitizer() or "not found: klab check --sanitize cannot run; install" in line


# The whole path, with a stand-in for the tool -------------------------------------------------------------

# Takes options as the tool does, runs the program, and reports what it is told to at the trial it is told.
STANDIN = """#!{python}
import os, subprocess, sys
words = sys.argv[1:]
options = {{}}
while words[0].startswith("--"):
    options[words[0]], words = words[1], words[2:]
print("========= COMPUTE-SANITIZER", flush=True)
child = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
report, at = os.environ.get("STANDIN_REPORT"), int(os.environ.get("STANDIN_AT", "3"))
for line in child.stdout:
    print(line, end="", flush=True)
    if '"begin"' in line:
        at -= 1
        if report and at == 0:
            print(report, flush=True)
code = child.wait()
print("========= ERROR SUMMARY:", 1 if report else 0, "errors", flush=True)
sys.exit(code)
"""


@pytest.fixture
def standin(tmp_path):
    path = tmp_path / "compute-sanitizer"
    path.write_text(STANDIN.format(python=sys.executable))
    path.chmod(0o755)
    return str(path)


def under(standin, tmp_path, impl, tool="memcheck", timeout_s=60.0):
    """A way under the stand-in, on the CPU: everything but the GPU and the tool itself is real."""
    target = str(OPFILES / "sanitized.py")
    request = {"shapes": [], "dtypes": [], "dims": {}, "options": {}, "quick": True}
    settings = Settings([target], ["check", "sanitize"], request, timeout_s=timeout_s, sanitizers=[tool])
    journal = Journal(tmp_path / "run")
    journal.write(event("run", schema=3, command=[], seed=0, environment=ENVIRONMENT, settings=settings.to_json()))
    heard = []
    sanitizer = Sanitizer(standin, settings, journal, "cpu")
    sanitizer.run(resolve(target), "double", impl, tool, lambda number, of: heard.append((number, of)))
    assert sanitizer.is_done("double", impl, tool)
    assert not sanitizer.is_done("double", impl, "other")
    journal.save()
    journal.close()
    assert load(tmp_path / "run")["sanitized"] == json.loads(json.dumps(journal.record["sanitized"]))
    return verdict.derive(journal.record)["sanitized"][0], heard


def test_a_clean_way(standin, tmp_path, capsys):
    one, heard = under(standin, tmp_path, "python-fine")
    assert (one["status"], one["exit"], one["unfinished"], one["findings"]) == ("ok", 0, None, [])
    assert 10 <= one["cases"] <= MOST
    assert heard[-1] == (one["planned"], one["planned"])
    text = (tmp_path / "run" / one["log"]).read_text()
    assert "half a line without an end" in text
    report.show({"sanitized": [one]}, console(), verbose=False)
    assert report.closing({"sanitized": [one]}) == ["1 way under memcheck: nothing found."]
    assert "python-fine" in capsys.readouterr().out


def test_a_finding_makes_the_way_wrong(standin, tmp_path, monkeypatch, capsys):
    report_text = "\n".join(line for line in sample("memcheck").splitlines() if line.startswith("=====")).rstrip()
    monkeypatch.setenv("STANDIN_REPORT", report_text)
    one, _ = under(standin, tmp_path, "python-fine")
    assert one["status"] == "wrong"
    assert one["findings"][0]["trial"]
    assert "memcheck: invalid read of 16 bytes in oob, san.py:7, at trial " in one["reason"]
    assert verdict.exit_code({"results": [], "batteries": [], "sanitized": [one]}) == 1
    report.show({"sanitized": [one]}, console(), verbose=False)
    assert "wrong: memcheck: invalid read of 16 bytes in oob, san.py:7, at trial" in capsys.readouterr().out


def test_a_finding_in_torchs_kernels_does_not(standin, tmp_path, monkeypatch):
    where = "at void at::native::vectorized_elementwise_kernel<4>(int)+0x80"
    monkeypatch.setenv("STANDIN_REPORT", block("Uninitialized __global__ memory read of size 4 bytes", where).strip())
    one, _ = under(standin, tmp_path, "python-fine", "initcheck")
    assert (one["status"], one["findings"][0]["own"]) == ("ok", False)


def test_a_way_that_hangs_is_ended(standin, tmp_path):
    one, _ = under(standin, tmp_path, "python-hangs", timeout_s=1.0)
    assert (one["status"], one["exit"]) == ("unknown", None)
    assert "no end within 3 s (--timeout)" in one["unfinished"]


def test_a_way_that_exits_and_one_that_only_raises(standin, tmp_path):
    one, _ = under(standin, tmp_path, "python-exits")
    assert (one["status"], one["exit"]) == ("unknown", 7)
    assert "exit code 7" in one["unfinished"]
    (tmp_path / "b").mkdir()
    one, _ = under(standin, tmp_path / "b", "python-raises")
    assert (one["status"], one["cases"]) == ("unknown", 0)
    assert "no call returned: ValueError: never" in one["reason"]


def test_errors_that_cannot_be_read_are_not_called_right():
    entry = {"tool": "memcheck", "findings": [], "unfinished": None, "cases": 3, "errors": 2, "raised": {}, "log": "x"}
    assert sanitized([entry])[0]["status"] == "unknown"


# klab as a user runs it, but for the two questions whether there is a GPU.
ANYWHERE = """
from kernellab.machine import tools
from kernellab.running.parent.runner import Runner
from kernellab.cli import main
tools.has_gpu = lambda: True
Runner._refuse_to_sanitize = lambda self: None
main()
"""


def klab_anywhere(standin, tmp_path, *args, **env):
    path = os.pathsep.join([str(Path(standin).parent), os.environ["PATH"]])
    command = [sys.executable, "-c", ANYWHERE, "check", *map(str, args)]
    env = klab_env(PATH=path, **env)
    return subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=300)


def test_klab_check_sanitize(standin, tmp_path):
    """Ways without kernels of their own are left out; a finding is shown, recorded, and fails the run."""
    text = "\n".join(line for line in sample("racecheck").splitlines()[1:4])
    args = (OPFILES / "sanitized.py", "--declared", "--quick", "--impl", "python-fine", "--out", "out")
    seen = klab_anywhere(standin, tmp_path, *args, "--sanitize", "racecheck,synccheck", STANDIN_REPORT=text)
    assert seen.returncode == 1, seen.stderr
    assert "double · under compute-sanitizer" in seen.stdout
    assert "python-fine  wrong: racecheck: race in race, kernels.cu:5, at trial " in seen.stdout
    assert "1 way under racecheck, synccheck: errors in double python-fine." in seen.stdout
    assert "double python-fine under racecheck" in seen.stderr
    record = load(tmp_path / "out")
    assert [one["tool"] for one in record["sanitized"]] == ["racecheck", "synccheck"]
    assert record["complete"]
    again = klab_anywhere(standin, tmp_path, "--resume", "out")
    assert again.returncode == 1
    assert "under racecheck" not in again.stderr  # it is done


def test_which_ways_are_run():
    kinds = {"manual": "manual", "torch": "torch", "compile": "compile", "triton-v2": "triton", "fast": "python"}
    impls = [{"name": n, "kind": k, "obstacle": None, "interpreted": False} for n, k in kinds.items()]
    impls.append({"name": "cpp", "kind": "cpp", "obstacle": "runs on the CPU", "interpreted": False})
    assert impls_to_sanitize(impls, named=False) == ["compile", "triton-v2", "fast"]
    assert impls_to_sanitize(impls[:2], named=True) == ["manual", "torch"]


def test_the_process_ends_with_its_parent(standin, tmp_path):
    """The parent is killed outright: nothing it started may go on."""
    code = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "from pathlib import Path\nfrom test_sanitize import under\n"
        "under(sys.argv[2], Path(sys.argv[3]), 'python-hangs', timeout_s=100.0)\n"
    )
    env = klab_env(PYTHONPATH=os.pathsep.join(sys.path))
    parent = subprocess.Popen([sys.executable, "-c", code, str(HERE), standin, str(tmp_path)], env=env)
    try:
        log = tmp_path / "run" / "artifacts" / "sanitize-double-python-hangs-memcheck.txt"
        wait_for(lambda: log.exists() and "begin" in log.read_text())
    finally:
        os.kill(parent.pid, signal.SIGKILL)
        parent.wait()
    wait_for(lambda: not running_with(str(tmp_path)))


def running_with(word):
    """Processes with a word in their command line, this one aside."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            line = (entry / "cmdline").read_bytes()
        except OSError:
            continue
        if word.encode() in line and int(entry.name) != os.getpid():
            found.append(entry.name)
    return found


def wait_for(true, seconds=60.0):
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.1)
