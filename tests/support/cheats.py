"""Op files that cheat. By their names: implementations that begin with `honest` must pass, all others be refused."""

import re
from pathlib import Path

from support.klab import OPFILES, CommandResult

FOLDER = OPFILES / "cheats"
FILES = sorted(path for path in FOLDER.glob("*.py"))
# Replaced while the file is loaded. What compares results is put back, so that only the wrong result is wrong.
FILES_AT_LOAD = sorted(path for path in (FOLDER / "at_load").glob("*.py") if path.stem != "verifier")
VERIFIER_AT_LOAD = FOLDER / "at_load" / "verifier.py"
_HONEST = ("manual", "compile", "honest")


def assert_only_cheats_are_refused(seen: CommandResult, *, device: str) -> None:
    assert seen.code == 1, seen.err[-2000:]
    for result in seen.record["results"]:
        derived, name = result["derived"], result["impl"]
        if derived["status"] == "skipped":
            assert device == "cpu" or name == "copies-from-a-file", name
        elif name.startswith(_HONEST):
            assert derived["status"] == "ok", (name, derived["reason"])
        else:
            assert derived["status"] == ("error" if name.startswith("recompiles") else "wrong"), (name, derived)


def impls_but_compile(path: Path) -> str:
    """For --impl. Compiling takes long, and one file is enough to show that compiled code is not refused."""
    return ",".join(["manual", *re.findall(r"\.impl\(\"([\w-]+)\"", path.read_text())])


def file_id(path: Path) -> str:
    return path.stem
