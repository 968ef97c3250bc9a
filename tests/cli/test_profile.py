"""`klab profile` and `kl.profile`, on real small programs."""

import gzip
import json
import signal
import subprocess
import sys
import threading
import types
from pathlib import Path

import pytest
import torch

import kernellab as kl
from kernellab import cli
from kernellab.base.errors import UserError
from kernellab.declaration.targets import resolve
from kernellab.machine import tools
from kernellab.reporting.profiles import recording as collected
from kernellab.reporting.profiles import scaling as scaled
from kernellab.running.parent import profiling
from kernellab.running.programs import mlp as program
from kernellab.running.programs import profiled_op
from kernellab.running.programs import profiled_script as script
from support.klab import HERE, SRC

TRAIN = '''
"""A training script, as anybody writes one."""
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


def test_a_schedule_for_a_program_without_steps_says_what_is_missing(klab, tmp_path):
    served = (
        "import sys, torch\nmodel = torch.nn.Linear(2, 2)\nfor _ in range(20): model(torch.ones(2))\nsys.exit('bye')"
    )
    (tmp_path / "serve.py").write_text(served)
    ran = klab("profile", "serve.py", "--schedule", "1,1,5,2")
    assert ran.code == 1
    assert "the program has none: no kl.step(), no optimizer" in ran.err
    assert "leave --schedule out" in ran.err
    assert "before anything was recorded" not in ran.err


def test_a_script_runs_unchanged_and_its_trace_outlives_it(klab, tmp_path):
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
    assert any(one["name"] == "aten::addmm" for one in document["operators"])
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
os.kill(os.getppid(), signal.SIGTERM)
os.kill(os.getpid(), signal.SIGTERM)  # to a whole group, as `timeout` does
time.sleep(30)
"""


def test_a_program_that_is_ended_leaves_its_trace_and_its_forks_end_as_ever(klab, tmp_path):
    (tmp_path / "killed.py").write_text(KILLED)
    ran = klab("profile", "killed.py", "--json", "--out", "run")
    assert ran.code == 128 + 15
    assert "fork -15" in ran.err
    assert any(one["name"] == "aten::sin" for one in ran.record["operators"])
    assert "ended early, by SIGTERM" in ran.record["notes"][0]


def test_ranks_are_started_recorded_and_laid_side_by_side(klab, tmp_path):
    ran = klab(
        *("profile", "mlp", "--dim", "32", "--layers", "2", "--batch", "8", "--steps", "14"),
        *("--ranks", "2", "--no-stacks", "--json", "--out", "run"),
    )
    assert ran.code == 0, ran.err
    found = ran.record["ranks"]
    assert [one["rank"] for one in found["ranks"]] == [0, 1]
    for one in found["ranks"]:
        assert one["all_reduces"] == 3  # one of each captured step
        assert [layer["layer"] for layer in one["layers"]] == ["layer_0", "layer_1"]
        assert all(layer["forward_us"] > 0 and layer["backward_us"] > 0 for layer in one["layers"])
    assert len(ran.record["profiles"]) == 2


# In this process ---------------------------------------------------------------------------------------


@pytest.fixture
def ran_here(tmp_path, monkeypatch):
    """Run a program's text as `klab profile` would, without a profiler: what it leaves for an exit code."""

    def run(text):
        path = tmp_path / "program.py"
        path.write_text(text)
        for name in ("argv", "path", "modules"):
            monkeypatch.setattr(sys, name, getattr(sys, name).copy())
        monkeypatch.setattr(script, "_started", lambda asked, _: lambda why: script._leave(asked, {"ended": why}))
        module, code = script._script(str(path))
        return script._run({"name": "program", "folder": str(tmp_path)}, module, code), module

    return run


@pytest.mark.parametrize(
    ("text", "code", "early"),
    [
        ("import sys\nsys.exit(7)", 7, None),
        ("import sys\nsys.exit('a word')", "a word", None),
        ("raise SystemExit", None, None),
        ("x = 1", 0, None),
        ("raise KeyboardInterrupt", 130, "Ctrl-C"),
        ("1 / 0", 1, "ZeroDivisionError"),
    ],
)
def test_a_program_leaves_the_exit_code_it_would_leave(ran_here, tmp_path, text, code, early):
    assert ran_here(text)[0] == code
    assert json.loads((tmp_path / "0.collected").read_text())[0]["ended"] == early


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("import torch", "never worked with tensors in its main thread"),
        ("import beside", "only in modules it imports"),
        (
            "import threading, torch\nt = threading.Thread(target=lambda: torch.ones(3))\nt.start()\nt.join()",
            "never worked",
        ),
    ],
)
def test_where_nothing_was_recorded_it_says_why(ran_here, tmp_path, text, why):
    (tmp_path / "beside.py").write_text("import torch\nMEAN = torch.ones(3)\n")
    assert ran_here(text)[0] == 0
    assert why in json.loads((tmp_path / "0.collected").read_text())[0]["notes"][0]


def test_a_program_that_hangs_and_does_not_hear_sigterm_is_killed(monkeypatch):
    monkeypatch.setattr(profiling, "_LAST_WORDS_S", 0.2)
    process = subprocess.Popen(["sh", "-c", "trap '' TERM; echo; while :; do sleep 0.1; done"], stdout=subprocess.PIPE)
    process.stdout.readline()
    threading.Timer(0.1, lambda: signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)).start()
    with process:
        assert profiling._waited_for(process) == -signal.SIGKILL


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
def test_of_what_python_cannot_begin_python_alone_says_why(tmp_path, monkeypatch, capfd, words):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(SRC))
    (tmp_path / "wrong.py").write_text("def f(:\n")
    assert cli.run(["profile", *words, "--out", "run"]) == 1
    *pythons, ours = capfd.readouterr().err.splitlines()
    assert "SyntaxError" in pythons[-1] or "No module named" in pythons[-1]
    assert ours == "klab: nothing was recorded"


def test_a_profiler_begun_among_the_imports_is_left_alone(tmp_path):
    asked = {"folder": str(tmp_path), "name": "x", "schedule": None, "seconds": 9.0, "memory_bytes": None, "how": {}}
    with torch.profiler.profile() as own:
        stop = script._started(asked, 3.14)
        torch.ones(3).sin()
        stop(None)
    assert "aten::sin" in {event.name for event in own.events()}
    (found,) = json.loads((tmp_path / "0.collected").read_text())
    assert found["traces"] == []
    assert "profiler of its own" in found["notes"][0]
    assert "3.1 s after torch was imported" in found["notes"][1]


def test_a_program_sees_itself_as_main(ran_here, tmp_path):
    text = "from __future__ import annotations\nimport sys\ndef f(x: nowhere): ...\nseen = sys.path[0]\nprint(f(1))"
    code, module = ran_here(text + "\ndef g(x: nowhere_either): ...\n")
    assert code == 0  # annotations are not evaluated in either part
    assert isinstance(module, types.ModuleType)
    assert (module.__name__, module.__file__, module.__spec__) == ("__main__", str(tmp_path / "program.py"), None)
    assert module.seen == str(tmp_path)


@pytest.mark.parametrize("text", ["x = (", "def f():\n    return 1\nreturn 2", "def f():\n  x = 1\n\ty = 2"])
def test_a_program_that_is_no_python_is_shown_as_python_shows_it(ran_here, capsys, text):
    with pytest.raises(SystemExit):
        ran_here(text)
    said = capsys.readouterr().err
    assert "Error: " in said
    assert "Traceback" not in said


@pytest.mark.parametrize("name", ["collected-0", "collected-data"])
def test_no_trace_is_taken_for_what_is_said_of_it(tmp_path, name):
    (tmp_path / f"{name}-1.json").write_text("{}")
    (tmp_path / "0.collected").write_text(json.dumps([{"name": name, "traces": [f"{name}-1.json"]}]))
    (found,) = profiling._sessions(tmp_path, 1)
    assert found["traces"] == [f"{name}-1.json"]
    assert [path.name for path in tmp_path.iterdir()] == [f"{name}-1.json"]


def test_the_mlp_says_in_a_sentence_that_memory_is_short(tmp_path, monkeypatch):
    setup = {"dim": 2**26, "layers": 1, "batch": 1, "steps": 20, "device": "cpu"}
    asked = {"do": "train", "setup": setup, "folder": str(tmp_path)}
    monkeypatch.setattr(sys, "argv", ["", json.dumps(asked)])
    with pytest.raises(SystemExit, match="klab: out of memory: "):
        program.main()


def test_the_mlp_tells_a_mistake_with_all_that_is_known_of_it(monkeypatch, capsys):
    def mistaken(**_):
        raise UserError("a sentence", "and its detail")

    monkeypatch.setattr(program, "Setup", mistaken)
    monkeypatch.setattr(sys, "argv", ["", json.dumps({"do": "train", "setup": {}, "folder": "."})])
    with pytest.raises(SystemExit):
        program.main()
    assert capsys.readouterr().err == "klab: a sentence\nand its detail\n"


def test_a_folder_that_holds_a_run_is_not_to_be_resumed_by_profile(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "journal.jsonl").touch()
    assert cli.run(["profile", "mlp", "--out", str(tmp_path)]) == 2
    said = capsys.readouterr().err
    assert "name another folder" in said
    assert "--resume" not in said


def test_an_ops_ways_are_profiled_one_by_one(tmp_path):
    asked = {
        "target": vars(resolve("gelu")),
        "request": {"shapes": [[64, 64]], "dtypes": [], "dims": {}, "options": {}, "quick": False},
        "impls": ["torch", "triton"],
        "pass": "both",
        "device": "cpu",
        "schedule": profiling.schedule("1,1,2,2").to_json(),
        "how": {"stacks": False},
        "tool": None,
    }
    with pytest.raises(UserError, match="no implementation 'tritn' of gelu"):
        list(profiled_op._ways({**asked, "impls": ["tritn"]}, tmp_path))
    found = list(profiled_op._ways(asked, tmp_path))
    assert [(one["impl"], one["status"], len(one["traces"])) for one in found] == [
        ("torch", "ok", 2),
        ("triton", "skipped", 0),
    ]
    assert "needs a GPU" in found[1]["reason"]
    assert all((tmp_path / name).exists() for name in found[0]["traces"])
    assert found[0]["step_us"] > 0
    assert collected.skipped(found) == [f"triton: skipped, {found[1]['reason']}"]
    twice = [{**found[0], "plain_step_us": 20.0}, {**found[0], "impl": "other", "plain_step_us": 10.0}]
    assert [line.split() for line in collected.ways(twice)[1:3]] == [["other", "10", "µs"], ["torch", "20", "µs"]]


def test_profile_in_one_call(tmp_path):
    calls = []
    made = kl.profile(
        "square root", lambda: calls.append(torch.ones(9).sqrt()), num_warmups=2, with_stack=True, folder=str(tmp_path)
    )
    assert len(calls) == 3
    assert "aten::sqrt" in made
    assert isinstance(made, str)
    names = {path.name for path in made.files}
    assert names == {"trace_square_root.json", "stacks_square_root.svg", "stacks_square_root.txt"}
    assert all(path.exists() for path in made.files)
    assert "aten::sqrt" in (tmp_path / "stacks_square_root.txt").read_text()


def test_profiles_with_long_descriptions_have_files_of_their_own(tmp_path):
    files = [kl.profile("é" * 300 + end, lambda: torch.ones(9).sqrt(), 0, folder=str(tmp_path)).files for end in "ab"]
    assert len({path for made in files for path in made}) == len(files[0]) + len(files[1])


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "nothing to profile"),
        (["mlp", "--steps", "11"], "11 steps are too few"),
        (["mlp", "--steps", "20", "--schedule", "5,5,5,5"], "the schedule takes 75"),
        (["mlp", "--dim", "0"], "dim must be at least 1"),
        (["mlp", "--dim", "99999999999"], "dim can be no more than"),
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
def test_mistakes_are_sentences(words, said, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert cli.run(["profile", *words]) == 2
    assert said in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_a_scripts_options_come_after_two_dashes(capsys, tmp_path, monkeypatch):
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
    assert any(one["name"] == "aten::mm" for one in document["operators"])
    assert {path.name for path in Path("drawn").iterdir()} == {
        f"trace_small.{end}" for end in ("html", "svg", "txt", "speedscope.json")
    }
    assert cli.run(["profile", "--compare", "trace_small.json", "trace_large.json"]) == 0
    told = capsys.readouterr().out.splitlines()
    assert "the time: a step takes" in told[0]
    first = next(number for number, line in enumerate(told) if line.startswith("operators")) + 1
    assert told[first].split()[0] == "aten::mm"
    assert "+" in told[first]


def test_an_export_of_ranges_alone_says_so_and_its_pictures_keep_its_name(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    packed = HERE / "samples" / "nsys-2022.4.sqlite.gz"
    Path("ns2022.4.sqlite").write_bytes(gzip.decompress(packed.read_bytes()))
    assert cli.run(["profile", "--open", "ns2022.4.sqlite", "--out", "drawn"]) == 0
    told = capsys.readouterr().out
    assert told.startswith("Only the program's own ranges were timed: no operators or kernels were recorded.")
    assert "layer 0" in told
    assert Path("drawn/ns2022.4.html").exists()


def test_without_nsight_systems_the_command_to_run_elsewhere_is_printed(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(profiling, "nsys", lambda: None)
    Path("train.py").write_text("print()")
    assert cli.run(["profile", "train.py", "--with", "nsys", "--", "--lr", "a b"]) == 2
    said = capsys.readouterr().err
    assert "nsys profile --trace=cuda,nvtx,osrt" in said
    assert "python train.py --lr 'a b'" in said
    assert "--output=report.sqlite report.nsys-rep" in said
    assert not Path("runs").exists() or not list(Path("runs").iterdir())


def test_nsight_systems_records_what_the_program_marks(monkeypatch):
    monkeypatch.setattr(tools, "has_gpu", lambda: True)
    program = profiling.Program("kernellab.running.programs.mlp", {"do": "train"})
    record, export = profiling.nsys_commands(program, Path("/x/report.sqlite"), "/opt/nsys")
    assert record[:2] == ["/opt/nsys", "profile"]
    assert "--capture-range=cudaProfilerApi" in record
    assert export[-1] == "/x/report.nsys-rep"
    monkeypatch.setattr(tools, "has_gpu", lambda: False)  # nothing would ever begin a capture
    assert not any("capture" in word for word in profiling.nsys_commands(program, Path("r.sqlite"), "nsys")[0])


def test_growth_is_told_in_words_and_only_where_it_can_be():
    points = [
        {"size": n, "median_us": n**2, "low_us": n**2 * 0.99, "high_us": n**2 * 1.01} for n in (8, 16, 32, 64, 128)
    ]
    setup = {"dim": 64, "layers": 2, "batch": 4, "steps": 9, "optimizer": "none"}
    told = scaled.lines(scaled.document(setup, [{"by": "dim", "points": points}]))
    assert "dim^2.00" in told[0]
    assert "worse than linear" in told[0]
    assert "dim 64" not in told[-1]
    few = scaled.lines(scaled.document(setup, [{"by": "dim", "points": points[:3]}]))
    assert "too few sizes" in few[0]


def test_kl_profile_refuses_what_it_cannot_do(tmp_path):
    with pytest.raises(UserError, match="num_warmups"):
        kl.profile("x", lambda: None, num_warmups=-1)
