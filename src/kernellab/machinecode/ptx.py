"""Parses PTX. `parse_ptx` accepts any text: statements that cannot be parsed are listed as problems, nothing is raised.

Debug sections are skipped.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from kernellab.machinecode.instructions import Directive, Guard, Instruction, Label, Line, Problem, Source
from kernellab.machinecode.ptx_operands import OperandError, parse_operands
from kernellab.machinecode.ptx_tokens import Token, tokenize

_LINKAGE = {".visible", ".extern", ".weak", ".common"}
_SPACES = {".global", ".const", ".shared", ".local", ".tex", ".reg", ".param"}
# Directives that end with their line, not with a semicolon.
_WHOLE_LINE = {".version", ".target", ".address_size", ".file", ".loc"}
_MAX_PROBLEMS = 100
_MAX_SCOPES = 8  # PTX nests one or two levels; damaged text must not nest without limit


@dataclass(frozen=True)
class Param:
    """A parameter of a kernel. `pointer` is what the text declares: NVRTC declares every pointer as plain `.u64`."""

    name: str
    type: str
    alignment: int | None
    pointer: bool
    space: str  # the memory that a pointer points to, if that is declared
    count: int  # number of elements, for an array such as a struct passed by value
    text: str
    line: int


@dataclass(frozen=True)
class Variable:
    """Memory that a module or a kernel declares: `.shared .align 16 .b8 tile[1024]`."""

    name: str
    space: str
    type: str
    alignment: int | None
    count: int
    text: str
    line: int


@dataclass(frozen=True)
class RegisterDeclaration:
    """`.reg .b32 %r<62>`: virtual registers of one type. How many the GPU uses is only in the cubin."""

    type: str
    prefix: str
    count: int
    text: str
    line: int


@dataclass
class PtxFunction:
    """A kernel, or a function that kernels call."""

    name: str
    is_kernel: bool
    line: int
    text: str
    params: list[Param] = field(default_factory=list)
    directives: list[Directive] = field(default_factory=list)
    registers: list[RegisterDeclaration] = field(default_factory=list)
    variables: list[Variable] = field(default_factory=list)
    body: list[Line] = field(default_factory=list)

    def directive_numbers(self, name: str) -> tuple[int, ...]:
        """The numbers of a directive such as `.maxntid 128, 1, 1`; empty if the function does not have it."""
        for directive in self.directives:
            if directive.name == name:
                return tuple(int(word) for word in directive.words if word.isdigit() and len(word) < 12)
        return ()


@dataclass
class PtxModule:
    version: str = ""
    target: str = ""
    address_size: int = 0
    text: str = ""
    files: dict[int, str] = field(default_factory=dict)
    variables: list[Variable] = field(default_factory=list)
    functions: list[PtxFunction] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)

    @property
    def kernels(self) -> list[PtxFunction]:
        return [function for function in self.functions if function.is_kernel]


def parse_ptx(text: str) -> PtxModule:
    """Parse PTX. Never raises: statements that cannot be parsed are listed in `problems`."""
    parser = _Parser(text)
    parser.parse_module()
    return parser.module


class _Parser:
    def __init__(self, text: str) -> None:
        self.text, self.tokens, self.at = text, tokenize(text), 0
        self.module = PtxModule(text=text)
        self.scope_count = 0
        self._read_files()

    # Moving over tokens ---------------------------------------------------------------------------------

    def peek(self, ahead: int = 0) -> Token | None:
        at = self.at + ahead
        return self.tokens[at] if at < len(self.tokens) else None

    def is_mark(self, mark: str, ahead: int = 0) -> bool:
        token = self.peek(ahead)
        return token is not None and token.kind == "mark" and token.text == mark

    def take_line(self) -> list[Token]:
        """Consume the rest of the current line."""
        begin, line = self.at, self.tokens[self.at].line
        while self.at < len(self.tokens) and self.tokens[self.at].line == line:
            self.at += 1
        return self.tokens[begin : self.at]

    def take_statement(self) -> list[Token]:
        """Consume up to and including the next semicolon; stop before a closing brace that was not opened here."""
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
        tokens = self.tokens[begin : self.at]
        if tokens:
            self.add_problem(tokens[0], "no semicolon ends this statement")
        return tokens

    def take_brackets(self) -> list[Token]:
        """Consume from the bracket at the current position to the one that closes it; return what is between them."""
        opened = self.tokens[self.at].text
        closing = {"(": ")", "{": "}"}[opened]
        begin, depth = self.at + 1, 0
        while (token := self.peek()) is not None:
            if token.kind == "mark":
                depth += (token.text == opened) - (token.text == closing)
            self.at += 1
            if depth == 0:
                return self.tokens[begin : self.at - 1]
        self.add_problem(self.tokens[begin - 1], f"{closing!r} is missing")
        return self.tokens[begin:]

    def source_text(self, tokens: list[Token]) -> str:
        """The text of the tokens, on one line."""
        return " ".join(self.text[tokens[0].start : tokens[-1].end].split()) if tokens else ""

    def add_problem(self, token: Token, message: str) -> None:
        if len(self.module.problems) < _MAX_PROBLEMS:
            self.module.problems.append(Problem(token.line, message))

    # The module ------------------------------------------------------------------------------------------

    def _read_files(self) -> None:
        """Read `.file 1 "name"` before the rest: Triton writes them after the code that refers to them."""
        tokens = self.tokens
        for i in range(len(tokens) - 2):
            number, name = tokens[i + 1], tokens[i + 2]
            if tokens[i].text == ".file" and number.text.isdigit() and len(number.text) < 9 and name.kind == "string":
                self.module.files[int(number.text)] = name.text.strip('"')

    def parse_module(self) -> None:
        while (token := self.peek()) is not None:
            if token.text in _WHOLE_LINE:
                self._parse_header(self.take_line())
            elif token.text == ".section":
                while (token := self.peek()) is not None and not self.is_mark("{"):
                    self.at += 1
                if token is not None:
                    self.take_brackets()
            elif token.text in _LINKAGE:
                self.at += 1
            elif token.text in (".entry", ".func"):
                self._parse_function(token)
            elif token.text in _SPACES:
                self._add_variables(self.module.variables, self.take_statement())
            elif token.text in (".pragma", ".alias", ".attribute"):
                self.take_statement()
            elif self.is_mark(";"):
                self.at += 1
            else:
                self.add_problem(token, f"{token.text[:40]!r} is not expected here")
                self.take_line()

    def _parse_header(self, tokens: list[Token]) -> None:
        words = [token.text for token in tokens[1:]]
        if tokens[0].text == ".version":
            self.module.version = " ".join(words)
        elif tokens[0].text == ".target":
            self.module.target = words[0] if words else ""
        elif tokens[0].text == ".address_size" and words and words[0].isdigit():
            self.module.address_size = int(words[0][:4])

    def _parse_function(self, head: Token) -> None:
        self.at += 1
        if self.is_mark("("):  # the return values of a .func
            self.take_brackets()
        name = self.peek()
        if name is None or name.kind != "word":
            self.add_problem(head, f"{head.text} has no name")
            return
        self.at += 1
        function = PtxFunction(name.text, head.text == ".entry", head.line, f"{head.text} {name.text}")
        if self.is_mark("("):
            for param in _split_commas(self.take_brackets()):
                self._add_param(function, param)
        while (token := self.peek()) is not None and not (self.is_mark("{") or self.is_mark(";")):
            if token.kind != "word" or not token.text.startswith("."):
                self.add_problem(token, f"{token.text[:40]!r} is not expected before the body of {function.name}")
                self.take_line()
                continue
            if token.text in _LINKAGE or token.text in (".entry", ".func"):
                break  # the body is missing
            tokens = self._take_directive()
            words = tuple(t.text for t in tokens[1:] if t.kind != "mark")
            function.directives.append(Directive(token.text, self.source_text(tokens), token.line, words))
        if self.is_mark("{"):
            self.at += 1
            self._parse_body(function)
            self.module.functions.append(function)
        elif self.is_mark(";"):
            self.at += 1  # a declaration without a body
        else:
            self.add_problem(head, f"{function.name} has no body")

    def _take_directive(self) -> list[Token]:
        """Consume `.maxntid 128, 1, 1`: a word and the numbers after it, also over several lines."""
        begin = self.at
        self.at += 1
        while (token := self.peek()) is not None and (token.kind in ("number", "string") or token.text == ","):
            self.at += 1
        tokens = self.tokens[begin : self.at]
        if tokens[0].text == ".pragma" and self.is_mark(";"):
            self.at += 1
        return tokens

    def _add_param(self, function: PtxFunction, tokens: list[Token]) -> None:
        words = [token.text for token in tokens]
        name = next((t.text for t in tokens if t.kind == "word" and not t.text.startswith(".")), None)
        if not tokens or words[0] not in (".param", ".reg") or name is None:
            if tokens:
                self.add_problem(tokens[0], f"{self.source_text(tokens)[:60]!r} is not a parameter")
            return
        kind, alignment, count = _parse_type(tokens)
        pointer = ".ptr" in words
        space = next((word[1:] for word in words if word in (".global", ".shared", ".const", ".local")), "")
        function.params.append(
            Param(name, kind, alignment, pointer, space, count, self.source_text(tokens), tokens[0].line)
        )

    def _add_variables(self, variables: list[Variable], tokens: list[Token]) -> None:
        name = next((t.text for t in tokens if t.kind == "word" and not t.text.startswith(".")), None)
        if name is None:
            if tokens:
                self.add_problem(tokens[0], f"{self.source_text(tokens)[:60]!r} declares nothing")
            return
        kind, alignment, count = _parse_type(tokens)
        variables.append(
            Variable(name, tokens[0].text[1:], kind, alignment, count, self.source_text(tokens), tokens[0].line)
        )

    # The body of a function --------------------------------------------------------------------------------

    def _parse_body(self, function: PtxFunction) -> None:
        scope: tuple[int, ...] = ()
        source: Source | None = None
        while (token := self.peek()) is not None:
            if self.is_mark("}"):
                self.at += 1
                if not scope:
                    return
                scope = scope[:-1]
                function.body.append(Directive("}", "}", token.line))
            elif self.is_mark("{"):
                self.at += 1
                self.scope_count += 1
                scope = (*scope[: _MAX_SCOPES - 1], self.scope_count)
                function.body.append(Directive("{", "{", token.line))
            elif self.is_mark(";"):
                self.at += 1
            elif token.text == ".loc":
                source = self._parse_location(self.take_line(), source)
            elif token.text == ".file":
                self.take_line()
            elif token.kind == "word" and self.is_mark(":", 1):
                self.at += 2
                function.body.append(Label(token.text, token.line, scope))
            elif token.kind == "word" and token.text.startswith("."):
                self._add_declaration(function, self.take_statement())
            elif self.is_mark("@") or token.kind == "word":
                self._add_instruction(function, self.take_statement(), source, scope)
            else:
                self.add_problem(token, f"{token.text[:40]!r} does not begin a statement")
                self.at += 1
        self.add_problem(self.tokens[-1], f"the body of {function.name} has no end")

    def _parse_location(self, tokens: list[Token], before: Source | None) -> Source | None:
        """`.loc file line column`."""
        words = [token.text for token in tokens[1:4]]
        if len(words) < 3 or not all(word.isdigit() and len(word) < 9 for word in words):
            self.add_problem(tokens[0], "this .loc does not have a file, a line and a column")
            return before
        file, line, column = map(int, words)
        return Source(self.module.files.get(file, f"file {file}"), line, column)

    def _add_declaration(self, function: PtxFunction, tokens: list[Token]) -> None:
        if not tokens:
            return
        text, first = self.source_text(tokens), tokens[0]
        words = tuple(token.text for token in tokens[1:] if token.kind != "mark")
        if first.text == ".reg":
            self._add_registers(function, tokens, text)
        elif first.text in _SPACES:
            self._add_variables(function.variables, tokens)
        function.body.append(Directive(first.text, text, first.line, words))

    def _add_registers(self, function: PtxFunction, tokens: list[Token], text: str) -> None:
        kind = next((t.text[1:] for t in tokens[1:] if _is_type(t.text)), "")
        for i, token in enumerate(tokens):
            if token.kind == "word" and not token.text.startswith("."):
                ranged = i + 2 < len(tokens) and tokens[i + 1].text == "<" and tokens[i + 2].text.isdigit()
                count = int(tokens[i + 2].text[:9]) if ranged else 1
                function.registers.append(RegisterDeclaration(kind, token.text, count, text, tokens[0].line))

    def _add_instruction(
        self, function: PtxFunction, tokens: list[Token], source: Source | None, scope: tuple[int, ...]
    ) -> None:
        guard, rest = None, tokens
        if tokens and tokens[0].text == "@":
            negated = len(tokens) > 1 and tokens[1].text == "!"
            rest = tokens[3 if negated else 2 :]
            if not rest or rest[0].kind != "word":
                self.add_problem(tokens[0], f"{self.source_text(tokens)[:60]!r} is not a guarded instruction")
                return
            guard = Guard(tokens[2 if negated else 1].text, negated)
        if not rest:
            return
        try:
            operands = parse_operands(self.text, rest[1:])
        except OperandError as error:
            self.add_problem(rest[0], f"{self.source_text(tokens)[:60]!r}: {error}")
            return
        function.body.append(
            Instruction(rest[0].text, operands, guard, self.source_text(tokens), tokens[0].line, source, None, scope)
        )


def _parse_type(tokens: list[Token]) -> tuple[str, int | None, int]:
    """Type, alignment and number of elements of a declared parameter or variable."""
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
