"""What the documents say is true today."""

import re
import subprocess
from pathlib import Path

import pytest

from support.klab import HERE, klab_command, klab_env

ROOT = HERE.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def blocks(page: Path, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", page.read_text(), re.DOTALL)


def test_the_readmes_op_file_works_as_it_stands(klab, tmp_path):
    (tmp_path / "silu.py").write_text(blocks(ROOT / "README.md", "python")[0])
    seen = klab("check", "silu.py", "--impl", "manual,torch", "--quick", "--device", "cpu", "--json")
    assert seen.code == 0, seen.err
    assert {r["impl"] for r in seen.record["results"]} == {"manual", "torch"}


def test_the_recorded_session_goes_as_written(tmp_path):
    page = ROOT / "docs" / "debugging.md"
    (tmp_path / "rows.py").write_text(blocks(page, "python")[0])
    (recorded,) = blocks(page, "session")
    command, *_ = recorded.splitlines()
    typed = re.findall(r"^\(klab\) (.*)$", recorded, re.MULTILINE)
    done = subprocess.run(
        klab_command(*command.removeprefix("$ klab ").split()),
        input="\n".join([*typed, ""]),
        cwd=tmp_path,
        env=klab_env(HOME=str(tmp_path)),
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert (done.returncode, done.stderr) == (0, "")
    first, *answers = done.stdout.split("(klab) ")
    shown = "".join(f"(klab) {said}\n{answer}" for said, answer in zip(typed, answers, strict=True))
    assert f"{command}\n{first}{shown}" == recorded


@pytest.mark.parametrize("page", ["device.md", "waves.md"])
def test_what_the_database_and_the_model_say_is_what_is_printed_today(page, klab):
    shown = [block for block in blocks(ROOT / "docs" / page, "") if block.startswith("$ klab")]
    assert len(shown) >= 2
    for command, _, printed in (block.partition("\n") for block in shown):
        told = klab(*command.removeprefix("$ klab ").split()).out
        assert sorted(told.split()) == sorted(printed.split()), command  # lines are broken to fit the page


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_links_lead_somewhere(page):
    prose = re.sub(r"```.*?```|`[^`]*`", "", page.read_text(), flags=re.DOTALL)
    for target in re.findall(r"\]\((?!http)([^)#]+)", prose):
        assert (page.parent / target).exists(), target


def test_every_option_in_the_help_is_documented(klab):
    documented = (ROOT / "docs" / "commands.md").read_text()
    for verb in ("run", "check", "bench", "inspect", "explain", "profile", "curves", "merge", "device", "waves"):
        for option in re.findall(r"(--[a-z-]+)", klab(verb, "--help").out):
            assert option in documented or option == "--help"


def test_every_module_is_in_the_house():
    house = (ROOT / "docs" / "house.md").read_text()
    for path in (ROOT / "src" / "kernellab").iterdir():
        if path.name.startswith("__") or path.name == "py.typed":
            continue
        assert path.name in house, path.name


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_published_figures_carry_machine_date_versions_and_script(page):
    if page.parent.name != "results":
        return
    text = page.read_text()
    for part in (r"machine: ", r"date: 20\d\d-\d\d-\d\d", r"versions: .*torch \d", r"benchmarks/\w+\.(py|sh)"):
        assert re.search(part, text), part
