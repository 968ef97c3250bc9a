"""The workflow for GitHub: its commands are of this version, its permissions few, its answer that of the exit code."""

import os
import re
import shlex
import subprocess

import pytest
import yaml

from kernellab.cli import parse
from support.klab import HERE

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
    assert [verb.name for verb, _ in called] == ["check", "bench", "bench", "compare"]
    assert all(args.target == ["ops.py"] for verb, args in called if verb.name != "compare")


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


@pytest.mark.parametrize(("code", "passes"), [(0, True), (1, False), (2, False), (3, True)])
def test_a_pull_request_fails_where_something_is_slower_and_the_summary_says_what(tmp_path, code, passes):
    klab = tmp_path / "klab"
    klab.write_text(f"#!/bin/sh\necho 'the answer' > comparison.md\nexit {code}\n")
    klab.chmod(0o755)
    env = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}", "GITHUB_STEP_SUMMARY": str(tmp_path / "summary")}
    done = subprocess.run(
        ["bash", "-e", "-o", "pipefail"], input=step("Compare")["run"], text=True, cwd=tmp_path, env=env
    )
    assert (done.returncode == 0) == passes
    assert (tmp_path / "summary").read_text() == "the answer\n"
