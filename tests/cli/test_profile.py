"""`klab profile` on real small programs."""

import gzip
import json
import subprocess
from pathlib import Path

import pytest
import torch

import kernellab as kl
from kernellab import cli
from kernellab.running.parent import nsight_systems
from support.klab import HERE, SRC, klab_command, klab_env
from support.processes import is_running, wait_until

TRAIN = '''
"""An ordinary training script."""
import os
import sys
import torch
from torch.utils.data import DataLoader, TensorDataset


def main():
    child = os.fork()
    if child == 0:
        sys.exit(5)
    print("forked", os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    model = torch.nn.Sequential(torch.nn.Linear(16, 16), torch.nn.GELU(), torch.nn.Linear(16, 1))
    optimizer = torch.optim.Adam(model.parameters())
    data = TensorDataset(torch.randn(80, 16))
    for step, (x,) in enumerate(DataLoader(data, batch_size=8, num_workers=1)):
        optimizer.zero_grad()
        model(x).mean().backward()
        optimizer.step()
    print("argv", sys.argv)
    raise ValueError("at the end")


if __name__ == "__main__":
    main()
'''


def test_a_schedule_needs_steps(klab, tmp_path):
    script = (
        "import sys, torch\nmodel = torch.nn.Linear(2, 2)\nfor _ in range(20): model(torch.ones(2))\nsys.exit('bye')"
    )
    (tmp_path / "serve.py").write_text(script)
    ran = klab("profile", "serve.py", "--schedule", "1,1,5,2")
    assert ran.code == 1
    assert "the program has none: it calls neither kl.step() nor an optimizer" in ran.err
    assert "leave --schedule out" in ran.err
    assert "before anything was recorded" not in ran.err


def test_a_script_runs_unchanged_and_leaves_its_trace(klab, tmp_path):
    (tmp_path / "train.py").write_text(TRAIN)
    ran = klab("profile", "train.py", "--out", "run", "--json", "--", "--Lr", "0.1", "--json")
    assert ran.code == 1
    assert "argv ['train.py', '--Lr', '0.1', '--json']" in ran.err
    assert "forked 5" in ran.err
    shown = ran.err[ran.err.index("Traceback") :].splitlines()
    assert shown[1] == f'  File "{tmp_path}/train.py", line 26, in <module>'
    assert shown[-1] == "ValueError: at the end"
    document = ran.record
    assert [(s["phase"], s["first"], s["last"]) for s in document["collected"][0]["steps"]] == [
        ("warm-up", 0, 2),
        ("active", 3, 9),
    ]
    assert any(row["name"] == "aten::addmm" for row in document["operators"])
    assert {"train-1.json", "train-1.html", "train-1.svg"} <= {p.name for p in (tmp_path / "run/artifacts").iterdir()}
    assert json.loads((tmp_path / "run/profile.json").read_text()) == document


KILLED = """
import os
import signal
import time
import torch

torch.ones(3).sin()
child = os.fork()
if not child:
    time.sleep(30)
    os._exit(9)
os.kill(child, signal.SIGTERM)
print("fork", os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
supervisor = os.getppid()
klab = int(open(f"/proc/{supervisor}/stat").read().rpartition(")")[2].split()[1])
for process in (klab, supervisor, os.getpid()):  # to a whole group, as `timeout` does
    os.kill(process, signal.SIGTERM)
time.sleep(30)
"""


def test_a_program_ended_by_sigterm_leaves_its_trace_and_its_forks_end_as_usual(klab, tmp_path):
    (tmp_path / "killed.py").write_text(KILLED)
    ran = klab("profile", "killed.py", "--json", "--out", "run")
    assert ran.code == 128 + 15
    assert "fork -15" in ran.err
    assert any(row["name"] == "aten::sin" for row in ran.record["operators"])
    assert "ended early, by SIGTERM" in ran.record["notes"][0]


def test_a_script_ends_when_klab_is_killed(tmp_path):
    script = "import os, pathlib, time\npathlib.Path('pid').write_text(str(os.getpid()))\ntime.sleep(60)"
    (tmp_path / "sleeping.py").write_text(script)
    klab = subprocess.Popen(klab_command("profile", "sleeping.py"), cwd=tmp_path, env=klab_env())
    wait_until(lambda: (tmp_path / "pid").exists() and (tmp_path / "pid").read_text())
    pid = int((tmp_path / "pid").read_text())
    klab.kill()
    klab.wait()
    wait_until(lambda: not is_running(pid))


def test_ranks_are_started_recorded_and_compared(klab, tmp_path):
    ran = klab(
        *("profile", "mlp", "--dim", "32", "--layers", "2", "--batch", "8", "--steps", "14"),
        *("--ranks", "2", "--no-stacks", "--json", "--out", "run"),
    )
    assert ran.code == 0, ran.err
    ranks = ran.record["ranks"]["ranks"]
    assert [rank["rank"] for rank in ranks] == [0, 1]
    for rank in ranks:
        assert rank["all_reduces"] == 3  # one in each captured step
        assert [layer["layer"] for layer in rank["layers"]] == ["layer_0", "layer_1"]
        assert all(layer["forward_us"] > 0 and layer["backward_us"] > 0 for layer in rank["layers"])
    assert len(ran.record["profiles"]) == 2


# In this process ---------------------------------------------------------------------------------------


def test_a_program_without_torch_says_so_and_keeps_its_exit_code(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(SRC))
    (tmp_path / "plain.py").write_text("import os\nif os.environ.get('LEAVE'): os._exit(0)\n")
    assert cli.run(["profile", "plain.py", "--out", "a"]) == 0
    assert "never imported torch" in capsys.readouterr().err
    monkeypatch.setenv("LEAVE", "1")
    assert cli.run(["profile", "plain.py", "--out", "b"]) == 0
    assert "nothing was kept" in capsys.readouterr().err


@pytest.mark.parametrize("words", [["wrong.py"], ["-m", "not_there"]])
def test_only_python_says_why_a_program_cannot_start(tmp_path, monkeypatch, capfd, words):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(SRC))
    (tmp_path / "wrong.py").write_text("def f(:\n")
    assert cli.run(["profile", *words, "--out", "run"]) == 1
    *from_python, ours = capfd.readouterr().err.splitlines()
    assert "SyntaxError" in from_python[-1] or "No module named" in from_python[-1]
    assert ours == "klab: nothing was recorded"


def test_profile_does_not_offer_to_resume_a_run(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "journal.jsonl").touch()
    assert cli.run(["profile", "mlp", "--out", str(tmp_path)]) == 2
    printed = capsys.readouterr().err
    assert "name another folder" in printed
    assert "--resume" not in printed


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ([], "nothing to profile"),
        (["mlp", "--steps", "11"], "11 steps are too few"),
        (["mlp", "--steps", "20", "--schedule", "5,5,5,5"], "the schedule takes 75"),
        (["mlp", "--dim", "0"], "dim must be at least 1"),
        (["mlp", "--dim", "99999999999"], "dim must be at most"),
        (["mlp", "--optimizer", "adm"], "did you mean"),
        (["mlp", "--rate", "cosine"], "--optimizer adam"),
        (["mlp", "--dim", "8,16", "--schedule", "1,1,1,1"], "timed, not traced"),
        (["mlp", "--impl", "torch"], "an option of ops"),
        (["gelu", "--dim", "8"], "an option of the MLP"),
        (["gelu", "softmax"], "one program at a time"),
        (["train.py"], "no file train.py"),
        (["gelu", "--sort", "devise"], "--sort devise"),
        (["gelu", "--seconds", "3"], "an option of scripts"),
        (["mlp", "--memory", "3"], "an option of scripts"),
        (["trace.json"], "--open trace.json"),
        (["gelu", "--with", "ncs"], "--with ncs"),
        (["--open"], "name a trace"),
        (["--compare", "a.json"], "takes two traces"),
        (["--open", "none.json"], "none.json"),
    ],
)
def test_a_bad_request_is_one_sentence(words, sentence, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert cli.run(["profile", *words]) == 2
    assert sentence in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_options_of_a_script_come_after_two_dashes(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("train.py").write_text("print()")
    assert cli.run(["profile", "train.py", "--lr", "3"]) == 2
    assert "come after --" in capsys.readouterr().err


def test_a_trace_is_opened_and_two_are_compared(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, size in (("small", 8), ("large", 512)):
        a, b = torch.randn(2, size, size)
        kl.profile(name, lambda a=a, b=b: a @ b)
    assert cli.run(["profile", "--open", "trace_small.json", "--json", "--out", "drawn"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert any(row["name"] == "aten::mm" for row in document["operators"])
    assert {path.name for path in Path("drawn").iterdir()} == {
        f"trace_small.{end}" for end in ("html", "svg", "txt", "speedscope.json")
    }
    assert cli.run(["profile", "--compare", "trace_small.json", "trace_large.json"]) == 0
    printed = capsys.readouterr().out.splitlines()
    assert "the time: a step takes" in printed[0]
    first = next(number for number, line in enumerate(printed) if line.startswith("operators")) + 1
    assert printed[first].split()[0] == "aten::mm"
    assert "+" in printed[first]


def test_an_export_with_ranges_only_says_so_and_its_pictures_keep_its_name(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    packed = HERE / "samples" / "nsys-2022.4.sqlite.gz"
    Path("ns2022.4.sqlite").write_bytes(gzip.decompress(packed.read_bytes()))
    assert cli.run(["profile", "--open", "ns2022.4.sqlite", "--out", "drawn"]) == 0
    printed = capsys.readouterr().out
    assert printed.startswith("Only the program's own ranges were timed: no operators or kernels were recorded.")
    assert "layer 0" in printed
    assert Path("drawn/ns2022.4.html").exists()


def test_without_nsight_systems_the_command_to_run_elsewhere_is_printed(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(nsight_systems, "tool_path", lambda: None)
    Path("train.py").write_text("print()")
    assert cli.run(["profile", "train.py", "--with", "nsys", "--", "--lr", "a b"]) == 2
    printed = capsys.readouterr().err
    assert "nsys profile --trace=cuda,nvtx,osrt" in printed
    assert "python train.py --lr 'a b'" in printed
    assert "--output=report.sqlite report.nsys-rep" in printed
    assert list(Path("runs").glob("*")) == []
