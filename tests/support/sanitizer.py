"""Reports of compute-sanitizer, and a stand-in for the tool."""

import json
import sys

from kernellab.declaration.targets import resolve
from kernellab.record import verdict
from kernellab.record.journal import Journal
from kernellab.record.reading import load
from kernellab.record.settings import Settings
from kernellab.running.parent.sanitizer import Sanitizer, SanitizerJob
from kernellab.sanitizer.report import MARK
from support.klab import HERE, OPFILES
from support.records import ENVIRONMENT, event

SAMPLES = HERE / "samples"


def sample(tool):
    """A report that the tool printed on an H200."""
    return (SAMPLES / f"sanitizer-{tool}.txt").read_text()


def mark(**progress):
    """A line in which the process under the tool reports its progress."""
    return f"{MARK}{json.dumps(progress)}\n"


def block(*lines):
    """A report of these lines."""
    return "========= " + "\n=========     ".join(lines) + "\n========= \n"


# Takes the tool's options, runs the program, and prints a report at a given trial.
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


def install_standin(folder):
    """The path of a stand-in for compute-sanitizer."""
    path = folder / "compute-sanitizer"
    path.write_text(STANDIN.format(python=sys.executable))
    path.chmod(0o755)
    return str(path)


def run_under(standin, folder, impl, tool="memcheck", timeout_s=60.0):
    """Run an implementation under the stand-in on the CPU; returns its outcome in the record, and the progress."""
    target = str(OPFILES / "sanitized.py")
    request = {"shapes": [], "dtypes": [], "dims": {}, "options": {}, "quick": True}
    settings = Settings([target], ["check", "sanitize"], request, timeout_s=timeout_s, sanitizers=[tool])
    journal = Journal(folder / "run")
    journal.write(event("run", schema=3, command=[], seed=0, environment=ENVIRONMENT, settings=settings.to_json()))
    progress = []
    sanitizer = Sanitizer(standin, settings, journal, "cpu")
    job = SanitizerJob(resolve(target), "double", impl, tool)
    sanitizer.run([job], lambda job, number, count: progress.append((number, count)))
    finished = len(journal.record["sanitized"])
    sanitizer.run([job])  # it is in the record already
    assert len(journal.record["sanitized"]) == finished
    journal.save()
    journal.close()
    assert load(folder / "run")["sanitized"] == json.loads(json.dumps(journal.record["sanitized"]))
    return verdict.derive(journal.record)["sanitized"][0], progress
