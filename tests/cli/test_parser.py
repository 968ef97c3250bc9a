"""What the parser of a verb accepts, and its messages for what it does not accept."""

import pytest

from kernellab.base.errors import UserError
from kernellab.cli import parse, verb_parser
from kernellab.cli.discovery import find_verbs

VERBS = find_verbs()


def refusal(*words):
    with pytest.raises(UserError) as refused:
        parse(list(words))
    return refused.value.message


def test_the_nearest_option_of_the_same_verb_is_suggested_for_a_misspelt_one():
    assert refusal("run", "gelu", "--pannel") == "unknown option --pannel: did you mean --panel?"
    assert refusal("merge", "a", "b", "--otu=c") == "unknown option --otu: did you mean --out?"


@pytest.mark.parametrize("verb", [name for name in VERBS if "panel" not in verb_parser(VERBS[name]).option_names()])
def test_options_of_other_verbs_are_not_suggested(verb):
    actions = verb_parser(VERBS[verb])._actions
    required = ["name" for action in actions if not action.option_strings and action.nargs is None]
    message = refusal(verb, *required, "--pannel")
    assert message.startswith(f"unknown option --pannel: klab {verb} --help lists the options.")
    assert "--panel" not in message


def test_the_message_for_an_unknown_option_says_how_dims_are_written():
    assert "Dims begin with a capital letter, as in --N 1024." in refusal("run", "gelu", "--xyzzy", "1024")
    assert "Dims" not in refusal("list", "--xyzzy")


def test_dims_are_read_wherever_they_stand():
    for words in (["--V", "1024:8192:x2", "gelu"], ["gelu", "--V=1024:8192:x2"]):
        _, args = parse(["run", *words, "--quick"])
        assert (args.dims, args.target, args.quick) == ({"V": [1024, 2048, 4096, 8192]}, ["gelu"], True)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["run", "gelu", "--N"], "no value for --N: write --N 1024"),
        (["run", "gelu", "--N", "4:2"], "cannot read --N"),
        (["run", "gelu", "--N-2", "4"], "--N-2 cannot name a dim"),
        (["list", "--N", "4"], "klab list takes no dims: leave out --N"),
        (["list", "extra"], "unexpected argument 'extra'"),
        (["rnu", "gelu"], "unknown verb 'rnu': did you mean run?"),
        (["--versoin"], "unrecognized arguments: --versoin (klab --help explains)"),
    ],
)
def test_a_word_that_is_not_accepted_is_named(words, message):
    assert message in refusal(*words)


def test_words_after_two_dashes_belong_to_the_script():
    _, args = parse(["profile", "train.py", "--rows", "3", "--", "--lr", "0.1", "--", "--N"])
    assert (args.target, args.rows, args.script_arguments) == (["train.py"], 3, ["--lr", "0.1", "--", "--N"])
    assert "A script's own arguments come after --" in refusal("profile", "train.py", "--lr", "0.1")
    _, args = parse(["run", "--", "gelu"])
    assert args.target == ["gelu"], "other verbs take everything after -- for targets, as is usual"


def test_the_options_given_are_known_by_their_spelling():
    _, args = parse(["bench", "gelu", "--pass", "both", "--seconds", "2", "--json"])
    assert args.given == {"target": "target", "passes": "--pass", "seconds": "--seconds", "json": "--json"}


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_says_what_it_and_its_options_are_for(verb):
    parser = verb_parser(VERBS[verb])
    assert VERBS[verb].summary[0].islower()
    assert not VERBS[verb].summary.endswith(".")
    for action in parser._actions:
        assert action.help, action.option_strings or action.dest
    assert parser.format_help().startswith(f"usage: klab {verb}")
