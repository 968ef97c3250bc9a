"""PTX as data: `parse_ptx` reads any text, and lists what it could not read instead of raising.

Nothing is judged or explained here, and debug sections are passed over.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from kernellab.machinecode.instructions import Directive, Guard, Instruction, Label, Line, Problem, Source
from kernellab.machinecode.ptx_operands import Unreadable, operands
from kernellab.machinecode.ptx_tokens import Token, tokenize

_LINKAGE = {".visible", ".extern", ".weak", ".common"}
_SPACES = {".global", ".const", ".shared", ".local", ".tex", ".reg", ".param"}
# Directives that end with their line, not with a semicolon.
_WHOLE_LINE = {".version", ".target", ".address_size", ".file", ".loc"}
_MOST_PROBLEMS = 100


@dataclass(frozen=True)
class Param:
    """A parameter of a kernel. `pointer` is what the text declares; NVRTC declares every pointer a plain `.u64`."""

    name: str
    type: str
    alignment: int | None
    pointer: bool
    space: str  # of what a pointer points to, where that is declared
    count: int  # elements, for an array such as a struct passed by value
    text: str
    line: int


@dataclass(frozen=True)
class Variable:
    """Memory a module or a kernel declares: `.shared .align 16 .b8 tile[1024]`."""

    name: str
    space: str
    type: str
    alignment: int | None
    count: int
    text: str
    line: int


@dataclass(frozen=True)
class Registers:
    """`.reg .b32 %r<62>`: virtual registers of one type; how many the GPU uses is the cubin's to say."""

    type: str
    prefix: str
    count: int
    text: str
    line: int


@dataclass
class Entry:
    """A kernel, or a function that kernels call."""

    name: str
    kernel: bool
    line: int
    text: str
    params: list[Param] = field(default_factory=list)
    directives: list[Directive] = field(default_factory=list)
    registers: list[Registers] = field(default_factory=list)
    variables: list[Variable] = field(default_factory=list)
    body: list[Line] = field(default_factory=list)

    def numbers(self, directive: str) -> tuple[int, ...]:
        """The numbers of `.maxntid 128, 1, 1`; none where the directive is absent."""
        for found in self.directives:
            if found.name == directive:
                return tuple(int(word) for word in found.words if word.isdigit() and len(word) < 12)
        return ()


@dataclass
class PtxModule:
    version: str = ""
    target: str = ""
    address_size: int = 0
    text: str = ""
    files: dict[int, str] = field(default_factory=dict)
    variables: list[Variable] = field(default_factory=list)
    functions: list[Entry] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)

    @property
    def kernels(self) -> list[Entry]:
        return [function for function in self.functions if function.kernel]


def parse_ptx(text: str) -> PtxModule:
    """Read PTX. Never raises: what cannot be read is listed in `problems`."""
    parser = _Parser(text)
    parser.module_level()
    return parser.module


class _Parser:
    def __init__(self, text: str) -> None:
        self.text, self.tokens, self.at = text, tokenize(text), 0
        self.module = PtxModule(text=text)
        self.scopes = 0
        self._read_files()

    # Moving over tokens ---------------------------------------------------------------------------------

    def peek(self, ahead: int = 0) -> Token | None:
        at = self.at + ahead
        return self.tokens[at] if at < len(self.tokens) else None

    def is_mark(self, mark: str, ahead: int = 0) -> bool:
        token = self.peek(ahead)
        return token is not None and token.kind == "mark" and token.text == mark

    def line_of_tokens(self) -> list[Token]:
        """The rest of the current line."""
        begin, line = self.at, self.tokens[self.at].line
        while self.at < len(self.tokens) and self.tokens[self.at].line == line:
            self.at += 1
        return self.tokens[begin : self.at]

    def statement(self) -> list[Token]:
        """Up to the next semicolon, which is passed; stops before a brace that was not opened here."""
        begin, depth = self.at, 0
        while (token := self.peek()) is not None:
            if token.kind == "mark":
                if token.text == ";":
                    self.at += 1
                    return self.tokens[begin : self.at - 1]
                depth += (token.text == "{") - (token.text == "}")
                if depth < 0:
                    break
            self.at += 1
        found = self.tokens[begin : self.at]
        if found:
            self.problem(found[0], "no semicolon ends this statement")
        return found

    def balanced(self) -> list[Token]:
        """What stands between the bracket at hand and the one that closes it."""
        opened = self.tokens[self.at].text
        closing = {"(": ")", "{": "}"}[opened]
        begin, depth = self.at + 1, 0
        while (token := self.peek()) is not None:
            if token.kind == "mark":
                depth += (token.text == opened) - (token.text == closing)
            self.at += 1
            if depth == 0:
                return self.tokens[begin : self.at - 1]
        self.problem(self.tokens[begin - 1], f"{closing!r} is missing")
        return self.tokens[begin:]

    def shown(self, tokens: list[Token]) -> str:
        """The tokens as they stand in the text, on one line."""
        return " ".join(self.text[tokens[0].start : tokens[-1].end].split()) if tokens else ""

    def problem(self, token: Token, what: str) -> None:
        if len(self.module.problems) < _MOST_PROBLEMS:
            self.module.problems.append(Problem(token.line, what))

    # The module ------------------------------------------------------------------------------------------

    def _read_files(self) -> None:
        """`.file 1 "name"`: Triton writes them after the code that refers to them."""
        tokens = self.tokens
        for i in range(len(tokens) - 2):
            number, name = tokens[i + 1], tokens[i + 2]
            if tokens[i].text == ".file" and number.text.isdigit() and len(number.text) < 9 and name.kind == "string":
                self.module.files[int(number.text)] = name.text.strip('"')

    def module_level(self) -> None:
        while (token := self.peek()) is not None:
            if token.text in _WHOLE_LINE:
                self._head(self.line_of_tokens())
            elif token.text == ".section":
                while (token := self.peek()) is not None and not self.is_mark("{"):
                    self.at += 1
                if token is not None:
                    self.balanced()
            elif token.text in _LINKAGE:
                self.at += 1
            elif token.text in (".entry", ".func"):
                self._function(token)
            elif token.text in _SPACES:
                self._add_variables(self.module.variables, self.statement())
            elif token.text in (".pragma", ".alias", ".attribute"):
                self.statement()
            elif self.is_mark(";"):
                self.at += 1
            else:
                self.problem(token, f"{token.text[:40]!r} is not expected here")
                self.line_of_tokens()

    def _head(self, tokens: list[Token]) -> None:
        words = [token.text for token in tokens[1:]]
        if tokens[0].text == ".version":
            self.module.version = " ".join(words)
        elif tokens[0].text == ".target":
            self.module.target = words[0] if words else ""
        elif tokens[0].text == ".address_size" and words and words[0].isdigit():
            self.module.address_size = int(words[0][:4])

    def _function(self, head: Token) -> None:
        self.at += 1
        if self.is_mark("("):  # what a .func returns
            self.balanced()
        name = self.peek()
        if name is None or name.kind != "word":
            self.problem(head, f"{head.text} has no name")
            return
        self.at += 1
        entry = Entry(name.text, head.text == ".entry", head.line, f"{head.text} {name.text}")
        if self.is_mark("("):
            for param in _split_commas(self.balanced()):
                self._add_param(entry, param)
        while (token := self.peek()) is not None and not (self.is_mark("{") or self.is_mark(";")):
            if token.kind != "word" or not token.text.startswith("."):
                self.problem(token, f"{token.text[:40]!r} is not expected before the body of {entry.name}")
                self.line_of_tokens()
                continue
            if token.text in _LINKAGE or token.text in (".entry", ".func"):
                break  # the body is missing
            tokens = self._directive_tokens()
            entry.directives.append(
                Directive(
                    token.text, self.shown(tokens), token.line, tuple(t.text for t in tokens[1:] if t.kind != "mark")
                )
            )
        if self.is_mark("{"):
            self.at += 1
            self._body(entry)
            self.module.functions.append(entry)
        elif self.is_mark(";"):
            self.at += 1  # a declaration: the body is elsewhere
        else:
            self.problem(head, f"{entry.name} has no body")

    def _directive_tokens(self) -> list[Token]:
        """`.maxntid 128, 1, 1`: a word and the numbers after it, wherever lines end."""
        begin = self.at
        self.at += 1
        while (token := self.peek()) is not None and (token.kind in ("number", "string") or token.text == ","):
            self.at += 1
        found = self.tokens[begin : self.at]
        if found[0].text == ".pragma" and self.is_mark(";"):
            self.at += 1
        return found

    def _add_param(self, entry: Entry, tokens: list[Token]) -> None:
        words = [token.text for token in tokens]
        name = next((t.text for t in tokens if t.kind == "word" and not t.text.startswith(".")), None)
        if not tokens or words[0] not in (".param", ".reg") or name is None:
            if tokens:
                self.problem(tokens[0], f"{self.shown(tokens)[:60]!r} is no parameter")
            return
        kind, alignment, count = self._described(tokens)
        pointer = ".ptr" in words
        space = next((word[1:] for word in words if word in (".global", ".shared", ".const", ".local")), "")
        entry.params.append(Param(name, kind, alignment, pointer, space, count, self.shown(tokens), tokens[0].line))

    def _described(self, tokens: list[Token]) -> tuple[str, int | None, int]:
        """Type, alignment and number of elements of a declared thing."""
        kind, alignment, count = "", None, 1
        for i, token in enumerate(tokens):
            following = tokens[i + 1].text if i + 1 < len(tokens) else ""
            if token.text == "=":
                break
            if token.text == ".align" and following.isdigit():
                alignment = int(following[:9])
            elif token.text == "[":
                count *= int(following[:12]) if following.isdigit() else 0
            elif token.kind == "word" and _is_type(token.text):
                kind = token.text[1:]
        return kind, alignment, count

    def _add_variables(self, variables: list[Variable], tokens: list[Token]) -> None:
        name = next((t.text for t in tokens if t.kind == "word" and not t.text.startswith(".")), None)
        if name is None:
            if tokens:
                self.problem(tokens[0], f"{self.shown(tokens)[:60]!r} declares nothing")
            return
        kind, alignment, count = self._described(tokens)
        variables.append(Variable(name, tokens[0].text[1:], kind, alignment, count, self.shown(tokens), tokens[0].line))

    # The body of a function --------------------------------------------------------------------------------

    def _body(self, entry: Entry) -> None:
        scope: tuple[int, ...] = ()
        source: Source | None = None
        while (token := self.peek()) is not None:
            if self.is_mark("}"):
                self.at += 1
                if not scope:
                    return
                scope = scope[:-1]
                entry.body.append(Directive("}", "}", token.line))
            elif self.is_mark("{"):
                self.at += 1
                self.scopes += 1
                scope = (*scope[:7], self.scopes)  # PTX nests one or two deep; damaged text must not grow these
                entry.body.append(Directive("{", "{", token.line))
            elif self.is_mark(";"):
                self.at += 1
            elif token.text == ".loc":
                source = self._location(self.line_of_tokens(), source)
            elif token.text == ".file":
                self.line_of_tokens()
            elif token.kind == "word" and self.is_mark(":", 1):
                self.at += 2
                entry.body.append(Label(token.text, token.line, scope))
            elif token.kind == "word" and token.text.startswith("."):
                self._declaration(entry, self.statement())
            elif self.is_mark("@") or token.kind == "word":
                self._instruction(entry, self.statement(), source, scope)
            else:
                self.problem(token, f"{token.text[:40]!r} begins no statement")
                self.at += 1
        self.problem(self.tokens[-1], f"the body of {entry.name} has no end")

    def _location(self, tokens: list[Token], before: Source | None) -> Source | None:
        """`.loc file line column`."""
        words = [token.text for token in tokens[1:4]]
        if len(words) < 3 or not all(word.isdigit() and len(word) < 9 for word in words):
            self.problem(tokens[0], "a .loc names no file, line and column")
            return before
        file, line, column = map(int, words)
        return Source(self.module.files.get(file, f"file {file}"), line, column)

    def _declaration(self, entry: Entry, tokens: list[Token]) -> None:
        if not tokens:
            return
        shown, first = self.shown(tokens), tokens[0]
        words = tuple(token.text for token in tokens[1:] if token.kind != "mark")
        if first.text == ".reg":
            self._add_registers(entry, tokens, shown)
        elif first.text in _SPACES:
            self._add_variables(entry.variables, tokens)
        entry.body.append(Directive(first.text, shown, first.line, words))

    def _add_registers(self, entry: Entry, tokens: list[Token], shown: str) -> None:
        kind = next((t.text[1:] for t in tokens[1:] if _is_type(t.text)), "")
        for i, token in enumerate(tokens):
            if token.kind == "word" and not token.text.startswith("."):
                ranged = i + 2 < len(tokens) and tokens[i + 1].text == "<" and tokens[i + 2].text.isdigit()
                count = int(tokens[i + 2].text[:9]) if ranged else 1
                entry.registers.append(Registers(kind, token.text, count, shown, tokens[0].line))

    def _instruction(self, entry: Entry, tokens: list[Token], source: Source | None, scope: tuple[int, ...]) -> None:
        guard, rest = None, tokens
        if tokens and tokens[0].text == "@":
            negated = len(tokens) > 1 and tokens[1].text == "!"
            rest = tokens[3 if negated else 2 :]
            if not rest or rest[0].kind != "word":
                self.problem(tokens[0], f"{self.shown(tokens)[:60]!r} is no guarded instruction")
                return
            guard = Guard(tokens[2 if negated else 1].text, negated)
        if not rest:
            return
        try:
            found = operands(self.text, rest[1:])
        except Unreadable as error:
            self.problem(rest[0], f"{self.shown(tokens)[:60]!r}: {error}")
            return
        entry.body.append(
            Instruction(rest[0].text, found, guard, self.shown(tokens), tokens[0].line, source, None, scope)
        )


def _split_commas(tokens: list[Token]) -> list[list[Token]]:
    parts: list[list[Token]] = [[]]
    for token in tokens:
        if token.text == ",":
            parts.append([])
        else:
            parts[-1].append(token)
    return parts


def _is_type(word: str) -> bool:
    """`.b32`, `.pred`, `.f16x2`; not `.align` and not a space."""
    return word in (".pred", ".texref", ".samplerref", ".surfref", ".b128") or (
        len(word) > 2 and word[1] in "bsuf" and word[2].isdigit()
    )
