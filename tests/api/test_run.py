"""`kl.run` and `kl.load`: as the command line does it, in Python and in a notebook."""

import inspect
import json
import re
import subprocess
import sys

import nbclient
import nbformat
import pytest

import kernellab as kl
from kernellab.base.errors import UserError
from kernellab.history.index import Index
from kernellab.history.queries import all_runs
from support.klab import HERE, klab_env
from support.sample_records import sample_run

OP = """
import torch
import kernellab as kl

@kl.op
def twice(x):
    return x + x

@twice.impl("torch")
def _(x):
    return torch.mul(x, 2)
"""
SMALL = {"impl": "manual,torch", "device": "cpu", "seconds": 0.02, "rounds": 3, "only_times": True}


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path_factory.mktemp("project"))
        return kl.run("square", shape=(32, 32), progress=False, **SMALL)


def test_a_run_has_results_a_folder_and_an_exit_code(run):
    assert [result["impl"] for result in run.results] == ["manual", "torch"]
    assert all(result["derived"]["time"]["median_us"] > 0 for result in run.results)
    assert run.exit_code == 0
    assert kl.load(run.folder).record == run.record
    assert run.record["command"][:3] == ["klab", "run", "square"]
    assert "--shape=32x32" in run.record["command"]


def test_a_run_prints_as_the_command_does(run):
    assert str(run).startswith("square · 32×32 · float32 · cpu\n impl ")
    assert "2 results right." in str(run)
    assert repr(run) == str(run)
    assert "\x1b" not in str(run)


def test_a_run_is_written_as_csv_and_json(run, tmp_path):
    assert run.to_csv(tmp_path / "r.csv") == (tmp_path / "r.csv").read_text()
    document = json.loads(run.to_json(tmp_path / "r.json"))
    assert document == json.loads((tmp_path / "r.json").read_text())
    assert [result["impl"] for result in document["results"]] == ["manual", "torch"]
    assert "findings" in document["results"][0]["derived"]
    assert list(run.to_pandas()["impl"]) == ["manual", "torch"]


def test_a_run_is_written_as_a_page(run, tmp_path, monkeypatch):
    assert run.to_html() == run.folder / "report.html"
    assert "<title>" in run.to_html(tmp_path / "page.html").read_text()
    for name in ("jinja2", "plotly"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(UserError, match="to_html needs jinja2 and plotly: pip install jinja2 plotly"):
        run.to_html()


def test_a_run_is_in_the_history(run):
    with Index(run.folder.parent) as index:
        assert [found.folder.name for found in all_runs(index)] == [run.folder.name]


def test_a_wrong_request_is_refused_before_anything_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError, match="no op 'gleu'"):
        kl.run("gleu")
    with pytest.raises(UserError, match="no argument 'shpae'"):
        kl.run("gelu", shpae=(1, 1))
    assert list(tmp_path.iterdir()) == []


def test_a_run_in_the_file_of_its_op_needs_a_guard(tmp_path):
    script = tmp_path / "mine.py"
    script.write_text(
        "import kernellab as kl\n"
        '@kl.op(cases=kl.cases(shape=[(8, 8)], dtype=["float32"]))\n'
        "def mine(x):\n    return x + 1\n"
        'kl.run(mine, impl="manual", rounds=8, only_times=True, progress=False)\n'
    )
    env = klab_env() | {"KERNELLAB_REPORT": "0"}
    done = subprocess.run(
        [sys.executable, str(script)], cwd=tmp_path, env=env, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 1
    assert "an op file starts a run, as kl.run does, while a worker of a run executes it" in done.stderr
    assert 'if __name__ == "__main__":' in done.stderr
    assert len(list((tmp_path / "runs").iterdir())) <= 1


def test_a_file_that_cannot_be_written_is_named_in_a_sentence(tmp_path):
    run = kl.load(sample_run("run-gelu"))
    for function in ("to_csv", "to_json"):
        with pytest.raises(UserError, match=rf"{function}: .*/gone/x.txt cannot be written: No such file or directory"):
            getattr(run, function)(tmp_path / "gone" / "x.txt")


@pytest.mark.parametrize("name", ["run-gelu", "check-square", "interrupted"])
def test_a_run_from_disk_needs_no_torch(name):
    code = (
        f"import sys, kernellab as kl; run = kl.load({str(sample_run(name))!r}); "
        "print(run); assert run.to_csv() and run._repr_html_(); "
        "assert not {'torch', 'pandas', 'IPython', 'jinja2', 'plotly'} & set(sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], env=klab_env(), capture_output=True, text=True, check=True)
    assert "results right" in done.stdout


def test_what_is_no_run_is_refused_in_a_sentence(tmp_path):
    with pytest.raises(UserError, match="no record at"):
        kl.load(tmp_path)


def test_the_page_on_notebooks_names_every_argument():
    page = (HERE.parent / "docs" / "notebooks.md").read_text()
    arguments = [name for name in inspect.signature(kl.run).parameters if name not in ("targets", "dims")]
    assert [name for name in arguments if not re.search(rf"`{name}[`=]", page)] == []


def test_in_a_notebook(tmp_path, monkeypatch):
    """Progress is one display that is empty in the end; a result is a table, with plain text beside it."""
    monkeypatch.setenv("PYTHONPATH", klab_env()["PYTHONPATH"])
    cells = [
        f"%%writefile ops.py\n{OP}",
        f"import kernellab as kl\nrun = kl.run('ops.py', shape=(32, 32), **{SMALL!r})",
        "run",
        f"{OP}\nkl.run(twice)",
    ]
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
    client = nbclient.NotebookClient(
        notebook, timeout=180, shutdown_kernel="immediate", resources={"metadata": {"path": str(tmp_path)}}
    )
    notebook.cells[3].metadata["tags"] = ["raises-exception"]
    client.execute()
    (progress,) = notebook.cells[1]["outputs"]
    assert progress["data"]["text/html"] == ""
    (shown,) = notebook.cells[2]["outputs"]
    assert "<table" in shown["data"]["text/html"]
    assert shown["data"]["text/plain"].startswith("twice · ")
    (error,) = notebook.cells[3]["outputs"]
    (sentence,) = error["traceback"]
    assert sentence.startswith("twice is declared where workers cannot load it")
    assert "%%writefile" in sentence
