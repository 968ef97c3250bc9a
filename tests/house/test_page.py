"""docs/house.md shows the packages as they are, and its walks can be followed."""

import re

import pytest

import house

PAGE = house.PAGE.read_text()
WALKS = dict(re.findall(r"<!-- walk: (.+?) -->\n(.*?)<!-- end -->", PAGE, flags=re.DOTALL))


def test_drawing_and_list_are_those_of_the_source():
    assert house.render(PAGE) == PAGE, "run python tools/house.py"


def test_a_stale_drawing_is_noticed():
    stale = PAGE.replace("running/parent", "running/elsewhere")
    assert stale != PAGE
    assert house.render(stale) != stale


def test_what_is_written_by_hand_fits_one_screen():
    # The drawing and the list of packages grow with the house.
    by_hand = re.sub(r"<!-- (drawing|packages) -->\n.*?<!-- end -->", "", PAGE, flags=re.DOTALL)
    assert len(by_hand.splitlines()) <= 85


def test_there_are_walks_of_the_three_main_verbs():
    assert {name.split(",")[0] for name in WALKS} == {"run", "profile", "explain"}


@pytest.mark.parametrize("name", WALKS)
def test_a_walk_names_files_that_exist_and_enters_each_package_once(name):
    files = re.findall(r"`([\w/]+\.py)`", WALKS[name])
    assert files
    for file in files:
        assert (house.PACKAGE / file).is_file(), file
    packages = [file.rpartition("/")[0] for file in files]
    packages = ["cli" if package == "cli/verbs" else package for package in packages]  # verbs are the command line
    entered = [package for place, package in enumerate(packages) if package != packages[place - 1] or place == 0]
    assert len(entered) == len(set(entered)), entered
