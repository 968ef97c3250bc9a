"""The documents are true: what they show works, what they link to exists, and nothing a user can name is left out."""

import re
import shlex
import subprocess

import pytest

from kernellab.cli import parse
from kernellab.cli.discovery import find_verbs
from kernellab.timing.timer import BurstSpec
from kernellab.timing.timers import REQUIRED
from support.documentation import documented_rules, documented_timers, documented_verbs, take_inventory, undocumented
from support.klab import HERE, SRC, klab_command, klab_env
from support.timing import CPU, timed_impl

ROOT = HERE.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
RESULTS = [page for page in PAGES if page.parent.name == "results"]
PLACEHOLDERS = re.compile(r"\b(VERB)\b")  # commands that stand for several


def blocks(page, language):
    return re.findall(rf"```{language}\n(.*?)```", page.read_text(), re.DOTALL)


def prose(page):
    """The page without its code."""
    return re.sub(r"```.*?```|`[^`]*`", "", page.read_text(), flags=re.DOTALL)


def commands(page):
    """Every `klab …` of a page: lines of code blocks, and code in sentences."""
    text = page.read_text()
    lines = [line for block in re.findall(r"```\w*\n(.*?)```", text, re.DOTALL) for line in block.splitlines()]
    shown = [match[1] for line in lines if (match := re.match(r"(?:\$ )?(?:[A-Z_]+=\S+ )*klab (.*)", line))]
    inline = re.findall(r"`klab ([^`]+)`", re.sub(r"```.*?```", "", text, flags=re.DOTALL))
    return [command.replace("\\|", "|") for command in [*shown, *inline] if not PLACEHOLDERS.search(command)]


# Commands ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("page", [page for page in PAGES if commands(page)], ids=lambda page: page.name)
def test_every_command_is_understood(page):
    for command in commands(page):
        words = shlex.split(command, comments=True)
        if words[1:] == []:
            assert words[0] in find_verbs() or words[0].startswith("-"), command  # the verb is meant, no command
            continue
        if "--help" in words:
            continue
        verb, _ = parse(words)
        assert words[0] == verb.name


def test_commands_are_found_in_the_pages():
    by_page = {page.name: commands(page) for page in PAGES}
    assert "run gelu --shape 16384x16384 --dtype float32" in by_page["README.md"]
    assert "profile benchmarks/slowed_mlp.py -- print_loss --steps 90" in by_page["README.md"]
    assert len([page for page in by_page if by_page[page]]) > 15


# Completeness ------------------------------------------------------------------------------------------


def test_every_verb_option_rule_timer_and_op_is_documented():
    missing = undocumented(take_inventory(SRC), ROOT)
    assert not missing, "\n".join(["not documented yet:", *missing])


def test_nothing_is_documented_that_does_not_exist():
    inventory = take_inventory(SRC)
    assert documented_verbs(ROOT) - set(inventory.verbs) == set()
    assert documented_rules(ROOT) - set(inventory.rules) == set()
    assert documented_timers(ROOT) - set(inventory.timers) == set()


def test_every_package_is_in_the_map_of_the_code():
    house = (ROOT / "docs" / "house.md").read_text()
    packages = [path.name for path in (SRC / "kernellab").iterdir() if (path / "__init__.py").exists()]
    missing = [name for name in packages if not re.search(rf"`{name}`|(?<![\w/]){name}/", house)]
    assert missing == []


# Links -------------------------------------------------------------------------------------------------


def links(page):
    return re.findall(r"\]\((?!http)([^)#\s]*)(?:#([^)\s]*))?\)", prose(page))


def anchors(page):
    """The anchors of a page's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.+)$", re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading).strip().lower().replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", [page for page in PAGES if links(page)], ids=lambda page: page.name)
def test_links_lead_somewhere(page):
    for target, anchor in links(page):
        path = page.parent / target if target else page
        assert path.exists(), target
        assert not anchor or anchor in anchors(path), f"{target}#{anchor}"


@pytest.mark.parametrize("page", [page for page in PAGES if page not in RESULTS][1:], ids=lambda page: page.name)
def test_every_page_can_be_reached_from_the_readme_or_another_page(page):
    others = [(other.parent / target).resolve() for other in PAGES if other != page for target, _ in links(other)]
    assert page.resolve() in others


# What is shown works -----------------------------------------------------------------------------------


def test_the_readmes_op_file_works(klab, tmp_path):
    (tmp_path / "silu.py").write_text(blocks(ROOT / "README.md", "python")[0])
    done = klab("check", "silu.py", "--impl", "manual,torch", "--quick", "--device", "cpu", "--json")
    assert done.code == 0, done.err
    assert {r["impl"] for r in done.record["results"]} == {"manual", "torch"}


def test_the_model_shown_trains_and_the_table_shown_is_a_table(tmp_path):
    from kernellab.library.rules import read_table

    page = ROOT / "docs" / "models.md"
    shown = {}
    exec(blocks(page, "python")[0], shown)
    assert all(parameter.grad is not None for parameter in shown["block"].parameters())
    (tmp_path / "cpu.toml").write_text(blocks(page, "toml")[0])
    assert read_table(tmp_path / "cpu.toml")["softmax", "bfloat16"][0].columns_up_to == 16384


def test_the_timer_shown_is_complete():
    shown = {}
    exec(blocks(ROOT / "docs" / "timing.md", "python")[0], shown)
    timer = shown["ThreadTimer"]
    assert not [name for name in REQUIRED if not hasattr(timer, name)]
    burst = timer(CPU, "cold").burst(timed_impl(lambda inputs: lambda: inputs["x"] * 2), BurstSpec(calls=2, windows=3))
    assert len(burst.samples_us) == 3


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
    session = "".join(f"(klab) {line}\n{answer}" for line, answer in zip(typed, answers, strict=True))
    assert f"{command}\n{first}{session}" == recorded


@pytest.mark.parametrize("page", ["device.md", "waves.md"])
def test_what_the_database_and_the_model_show_is_what_is_printed_today(page, klab):
    examples = [block for block in blocks(ROOT / "docs" / page, "") if block.startswith("$ klab")]
    assert len(examples) >= 2
    for command, _, expected in (block.partition("\n") for block in examples):
        printed = klab(*command.removeprefix("$ klab ").split()).out
        assert sorted(printed.split()) == sorted(expected.split()), command  # lines are broken to fit the page


@pytest.mark.parametrize("page", RESULTS, ids=lambda page: page.name)
def test_published_figures_carry_machine_date_versions_and_script(page):
    text = page.read_text()
    for part in (r"machine: ", r"date: 20\d\d-\d\d-\d\d", r"versions: .*torch \d", r"benchmarks/\w+\.(py|sh)"):
        assert re.search(part, text), part
