"""The workflow for GitHub: its commands are of this version, its permissions few, its answer that of the exit code."""

import os
import re
import shlex
import shutil
import subprocess
import sys

import pytest
import yaml

from kernellab.cli import parse
from support.klab import HERE, klab_env

FILE = HERE.parent / "examples" / "github-actions" / "klab.yml"
WORKFLOW = yaml.safe_load(FILE.read_text())
JOBS = WORKFLOW["jobs"]
STEPS = [step for job in JOBS.values() for step in job["steps"]]
SCRIPTS = [step["run"] for step in STEPS if "run" in step]


def step(name):
    (found,) = [step for step in STEPS if step.get("name") == name]
    return found


def with_variables(script):
    return re.sub(r"\$(\w+)", lambda match: WORKFLOW["env"].get(match[1], match[0]), script)


def commands(program):
    """Every call of a program in the scripts, as words."""
    lines = [re.split(r"&&|\|\||\)", line) for script in SCRIPTS for line in with_variables(script).splitlines()]
    calls = [shlex.split(part, comments=True) for parts in lines for part in parts if re.match(rf"\s*{program} ", part)]
    return [words[1:] for words in calls]


def test_its_commands_are_verbs_and_options_of_this_version():
    called = [parse(words) for words in commands("klab")]
    assert [verb.name for verb, _ in called] == ["check", "bench", "bench", "compare", "compare"]
    assert all(args.target in (["ops.py"], ["$ops"]) for verb, args in called if verb.name != "compare")


def test_its_options_of_pytest_are_those_of_the_plugin(pytestconfig):
    (words,) = commands("pytest")
    known = {name for option in pytestconfig._parser._anonymous.options for name in option.names()}
    known |= {name for group in pytestconfig._parser._groups for option in group.options for name in option.names()}
    if "--klab-save" not in known:
        pytest.fail("the plugin is not installed: install the package again (make venv)")
    assert {word for word in words if word.startswith("--")} <= known


@pytest.mark.parametrize("script", SCRIPTS)
def test_its_scripts_are_bash_without_texts_of_a_stranger(script):
    subprocess.run(["bash", "-n"], input=script, text=True, check=True)
    assert "${{" not in script  # GitHub would paste a title or branch name into the script: it belongs into env


def test_only_the_job_that_runs_no_code_of_the_pull_request_may_write():
    assert WORKFLOW[True].keys() == {
        "pull_request"
    }  # YAML reads `on` as true; pull_request_target would hand out secrets
    assert WORKFLOW["permissions"] == {"contents": "read"}
    writers = {name: job["permissions"] for name, job in JOBS.items() if "permissions" in job}
    assert writers == {"comment": {"pull-requests": "write"}}
    uses = [step.get("uses", "") for step in JOBS["comment"]["steps"]]
    assert [name.partition("@")[0] for name in uses if name] == ["actions/download-artifact"]
    assert "head.repo.full_name == github.repository" in JOBS["time"]["if"]


def test_actions_are_pinned_and_leave_no_token_behind():
    uses = [step for step in STEPS if "uses" in step]
    assert all(re.fullmatch(r"actions/[\w-]+@v\d+", step["uses"]) for step in uses)
    checkouts = [step for step in uses if step["uses"].startswith("actions/checkout@")]
    assert len(checkouts) == 3
    assert all(step["with"]["persist-credentials"] is False for step in checkouts)
    assert all("timeout-minutes" in job for job in JOBS.values())


def bash(name, folder, **env):
    """A step as GitHub runs it."""
    words = ["bash", "-e", "-o", "pipefail", "-c", step(name)["run"]]
    env = {"GITHUB_STEP_SUMMARY": str(folder / "summary"), **WORKFLOW["env"], **env}
    return subprocess.run(words, cwd=folder, env=env, text=True, capture_output=True)


def stand_in(folder, script):
    """An environment in which `klab` is a script."""
    klab = folder / "bin" / "klab"
    klab.parent.mkdir()
    klab.write_text(f"#!/bin/sh\n{script}\n")
    klab.chmod(0o755)
    return {"PATH": f"{klab.parent}:{os.environ['PATH']}"}


@pytest.mark.parametrize(("code", "passes"), [(0, True), (1, False), (2, False), (3, True)])
def test_a_pull_request_fails_where_something_is_slower_and_the_summary_says_what(tmp_path, code, passes):
    for side in ("before", "after"):
        (tmp_path / "runs" / side).mkdir(parents=True)
        (tmp_path / "runs" / side / "run.json").touch()
    env = stand_in(tmp_path, f"echo 'the answer' > comparison.md\nexit {code}")
    assert (bash("Compare", tmp_path, **env).returncode == 0) == passes
    assert (tmp_path / "summary").read_text() == "the answer\n"


@pytest.mark.parametrize("code", [1, 2, 3])
def test_both_are_timed_and_there_is_a_comment_whatever_the_first_measurement_says(tmp_path, code):
    """The stand-in leaves a record, as `klab bench` does, except where the request was wrong."""
    env = stand_in(
        tmp_path,
        'for last; do :; done\n[ "$1" = compare ] && { echo compared > comparison.md; exit 0; }\n'
        f'echo "$*" >> ../calls\n[ {code} = 2 ] || {{ mkdir -p "$last"; touch "$last/run.json"; }}\nexit {code}',
    )
    (tmp_path / "before").mkdir()
    (tmp_path / "after").mkdir()
    (tmp_path / "before" / "ops.py").touch()
    assert bash("Time both", tmp_path, **env).returncode == 0
    assert len((tmp_path / "calls").read_text().splitlines()) == 2
    done = bash("Compare", tmp_path, **env)
    assert done.returncode == (1 if code == 2 else 0)
    expected = "The pull request was not measured. The log of the job says why.\n" if code == 2 else "compared\n"
    assert (tmp_path / "summary").read_text() == (tmp_path / "comparison.md").read_text() == expected


OP = """
import kernellab as kl

@kl.op(cases=kl.cases(shape=[(8, 8)], dtype=["float32"]))
def twice(x):
    return x + x

@twice.impl("mine")
def _(x):
    return x * 2
"""


@pytest.mark.clocked
def test_a_pull_request_that_mends_an_op_or_adds_one_passes(tmp_path):
    """The commands for real, in a repository with two commits."""
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@b"]
    repository = tmp_path / "repository"
    repository.mkdir()
    for command, text in (("init -q", OP.replace("x * 2", "x * 3")), ("init -q", OP)):
        subprocess.run([*git, *command.split()], cwd=repository, check=True)
        (repository / "ops.py").write_text(text)
        subprocess.run([*git, "add", "."], cwd=repository, check=True)
        subprocess.run([*git, "commit", "-qm", "ops"], cwd=repository, check=True)
    for side, commit in (("before", "HEAD~1"), ("after", "HEAD")):
        subprocess.run([*git, "worktree", "add", "-q", str(tmp_path / side), commit], cwd=repository, check=True)
    # Measuring again takes long, and has tests of its own.
    script = f'case "$*" in *--rerun*) exit 3 ;; esac\nexec "{sys.executable}" -P -m kernellab "$@"'
    env = {**klab_env(), **stand_in(tmp_path, script), "KERNELLAB_REPORT": "0"}
    env["TIMED"] = "--seconds 0.01 --rounds 8 --device cpu --impl manual,mine"
    done = bash("Time both", tmp_path, **env)
    assert "before: exit code 1" in done.stdout, done.stderr
    done = bash("Compare", tmp_path, **env)
    assert done.returncode == 0, done.stderr
    assert "mine" in (tmp_path / "summary").read_text()

    (tmp_path / "before" / "ops.py").unlink()
    shutil.rmtree(tmp_path / "runs" / "before")
    (tmp_path / "summary").unlink()
    done = bash("Compare", tmp_path, **env)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "summary").read_text().startswith("There is nothing to compare with")
