"""The parser of one verb, and the answers to command lines that it does not understand."""

from __future__ import annotations

import argparse
import difflib
import re
from typing import NoReturn

from kernellab.base.errors import UserError
from kernellab.declaration.case_request import parse_sizes


class Parser(argparse.ArgumentParser):
    """argparse with errors of one sentence, dims as options, and arguments for a script.

    `takes_dims`: dims of an op are options too, `--N 1024`. They begin with a capital letter.
    `takes_script_arguments`: words after `--` belong to a script.
    """

    takes_dims = False
    takes_script_arguments = False

    def error(self, message: str) -> NoReturn:
        raise UserError(f"{message} ({self.prog} --help explains)")

    def parse_words(self, words: list[str]) -> argparse.Namespace:
        """Everything that was given, or a UserError.

        Besides the values of its options, the namespace has `dims`, `script_arguments`, and `given`: the names of the
        options and arguments that were given, each with its spelling on the command line.
        """
        words, script_arguments = self._split_script_arguments(words)
        words, dims = split_dims(words)
        args, unknown = self.parse_known_args(words)
        if unknown:
            self._refuse(unknown[0])
        if dims and not self.takes_dims:
            raise UserError(f"{self.prog} takes no dims: leave out --{next(iter(dims))}")
        args.dims = {name: parse_sizes(name, sizes) for name, sizes in dims.items()}
        args.script_arguments = script_arguments
        args.given = {
            action.dest: action.option_strings[0] if action.option_strings else action.dest
            for action in self._actions
            if getattr(args, action.dest, action.default) not in (action.default, [])
        }
        return args

    def option_names(self) -> list[str]:
        """The long options, without their dashes."""
        return [word[2:] for action in self._actions for word in action.option_strings if word.startswith("--")]

    def _split_script_arguments(self, words: list[str]) -> tuple[list[str], list[str]]:
        if not self.takes_script_arguments or "--" not in words:
            return words, []
        at = words.index("--")
        return words[:at], words[at + 1 :]

    def _refuse(self, word: str) -> NoReturn:
        if not word.startswith("-"):
            raise UserError(f"unexpected argument {word!r} ({self.prog} --help explains)")
        option = word.partition("=")[0]
        close = difflib.get_close_matches(option.lstrip("-"), self.option_names(), n=2, cutoff=0.6)
        if close:
            hints = [f"did you mean {' or '.join(f'--{name}' for name in close)}?"]
        else:
            hints = [f"{self.prog} --help lists the options."]
            if self.takes_dims:
                hints.append("Dims begin with a capital letter, as in --N 1024.")
        if self.takes_script_arguments:
            hints.append(f"A script's own arguments come after --, as in {self.prog} SCRIPT.py -- {option}")
        raise UserError(f"unknown option {option}: {' '.join(hints)}")


def split_dims(words: list[str]) -> tuple[list[str], dict[str, str]]:
    """Separates named dims, `--N 1024`, from all other words: argparse would take their values for targets."""
    others: list[str] = []
    dims: dict[str, str] = {}
    remaining = iter(words)
    for word in remaining:
        if not re.match(r"--[A-Z]", word):
            others.append(word)
            continue
        name, equals, sizes = word.removeprefix("--").partition("=")
        if not name.isidentifier():
            raise UserError(f"{word.partition('=')[0]} cannot name a dim: write --N 1024")
        if not equals:
            following = next(remaining, None)
            if following is None:
                raise UserError(f"no value for --{name}: write --{name} 1024")
            sizes = following
        dims[name] = sizes
    return others, dims
