r"""The grammar of filter expressions, a subset of Bloblang.

    mapping = [ "root" "=" ] query
    query   = term { "|" term }                     the first term that gives a value: neither null nor an error
    term    = ( "this" "." field | array ) { "." ( field | "lowercase" "(" ")" ) }
    array   = "[" [ query { "," query } ] "]"
    field   = [A-Za-z0-9_]+ | a JSON string         "0" also selects the first element of an array

White space is free around `root`, `=`, after `.`, after `|` and inside brackets; before `|` only on the same line, as
Bloblang has it. `this` alone is refused: the record is an object, and an object is never in a set.
"""

import json
import re
from dataclasses import dataclass
from typing import NoReturn

from headwater.errors import ExpressionRefused
from headwater.model.transform import MAX_EXPRESSION_CHARS

MAX_NESTING = 32


@dataclass(frozen=True, slots=True)
class Field:
    """A member of the record."""

    name: str


@dataclass(frozen=True, slots=True)
class Array:
    """An array literal."""

    items: tuple["Node", ...]


@dataclass(frozen=True, slots=True)
class Chain:
    """Fields and methods of a value, from left to right; None stands for `.lowercase()`."""

    source: "Field | Array"
    steps: tuple[str | None, ...]


@dataclass(frozen=True, slots=True)
class Coalesce:
    """The first option that gives a value."""

    options: tuple["Node", ...]


Node = Field | Array | Chain | Coalesce


def parse(text: str) -> Node:
    """Parse an expression. Raises ExpressionRefused with the column of the fault."""
    if len(text) > MAX_EXPRESSION_CHARS:
        raise ExpressionRefused(f"Use at most {MAX_EXPRESSION_CHARS:,} characters.", MAX_EXPRESSION_CHARS + 1)
    return _Parser(text).mapping()


_SPACE = re.compile(r"[ \t\r\n]*")
_BLANKS = re.compile(r"[ \t]*")
_WORD = re.compile(r"[A-Za-z0-9_]+", re.ASCII)
_QUOTED = re.compile(r'"(?:[^"\\]|\\.)*"', re.DOTALL)
_FORM = "`root = this.<field>`"


class _Parser:
    """Recursive descent over one text."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0

    def mapping(self) -> Node:
        self._match(_SPACE)
        if self._match(_WORD) == "root":
            self._assignment()
        else:
            self._at = 0
            self._match(_SPACE)
        node = self._query(0)
        self._match(_SPACE)
        if self._at < len(self._text):
            self._refuse_rest()
        return node

    def _assignment(self) -> None:
        self._match(_BLANKS)
        if not self._take("="):
            self._refuse(f"Expected `=`: the value is assigned to root as a whole, with {_FORM}.")
        self._match(_SPACE)

    def _query(self, depth: int) -> Node:
        options = [self._term(depth)]
        while self._pipe():
            options.append(self._term(depth))
        return options[0] if len(options) == 1 else Coalesce(tuple(options))

    def _pipe(self) -> bool:
        before = self._at
        self._match(_BLANKS)
        if not self._take("|"):
            self._at = before
            return False
        if self._text.startswith("|", self._at):
            self._refuse("There is no `||` here. A single `|` takes the first value that is not null.")
        self._match(_SPACE)
        return True

    def _term(self, depth: int) -> Node:
        source: Field | Array = self._array(depth + 1) if self._take("[") else self._this()
        steps: list[str | None] = []
        while self._take("."):
            self._match(_SPACE)
            steps.append(self._step())
        return Chain(source, tuple(steps)) if steps else source

    def _this(self) -> Field:
        start = self._at
        word = self._match(_WORD)
        if word != "this":
            self._at = start
            self._refuse_source(word)
        if not self._take("."):
            self._refuse(
                f"Expected `.` and a field: `this` alone is the whole record, which is in no set. Use {_FORM}."
            )
        self._match(_SPACE)
        start = self._at
        name = self._step()
        if name is None:
            self._at = start
            self._refuse("Expected a field before the method, as in `this.<field>.lowercase()`.")
        return Field(name)

    def _array(self, depth: int) -> Array:
        if depth > MAX_NESTING:
            self._at -= 1
            self._refuse(f"Brackets are nested more than {MAX_NESTING} deep.")
        items: list[Node] = []
        self._match(_SPACE)
        while not self._take("]"):
            if items:
                self._expect(",", "Expected `,` or `]` in the array.")
                self._match(_SPACE)
            items.append(self._query(depth))
            self._match(_SPACE)
        return Array(tuple(items))

    def _step(self) -> str | None:
        """A field's name, or None for `.lowercase()`."""
        if self._text.startswith('"', self._at):
            return self._quoted()
        start = self._at
        word = self._match(_WORD)
        if not word:
            self._refuse('Expected a field name, an array index, a "quoted name" or lowercase() after the dot.')
        if not self._take("("):
            return word
        if word != "lowercase":
            self._at = start
            self._refuse(f"There is no method {word}() here. The only one is lowercase().")
        self._match(_SPACE)
        self._expect(")", "Expected `)`: lowercase() takes no arguments.")
        return None

    def _quoted(self) -> str:
        start = self._at
        literal = self._match(_QUOTED)
        if not literal:
            self._refuse('Expected a closing `"` for this quoted name.')
        try:
            name: str = json.loads(literal)
            name.encode()
        except ValueError:
            self._at = start
            self._refuse("This quoted name is no JSON string; check its escapes.")
        return name

    def _match(self, pattern: re.Pattern[str]) -> str:
        found = pattern.match(self._text, self._at)
        if found is None:
            return ""
        self._at = found.end()
        return found[0]

    def _take(self, character: str) -> bool:
        taken = self._text.startswith(character, self._at)
        self._at += taken
        return taken

    def _expect(self, character: str, sentence: str) -> None:
        if not self._take(character):
            self._refuse(sentence)

    def _refuse_source(self, word: str) -> NoReturn:
        if not word:
            self._refuse(f"Expected `this.<field>` or an array `[…]`; assign with {_FORM}.")
        field = "<field>" if word == "root" else word
        self._refuse(f"Expected `this`, found `{word}`. Select a field with `this.{field}`; assign with {_FORM}.")

    def _refuse_rest(self) -> NoReturn:
        rest = self._text[self._at]
        hint = ' Names with other characters are quoted: this."odd name".' if rest in "-$@ " else ""
        self._refuse(f"Expected the end, `.` or `|`, found `{rest}`.{hint}")

    def _refuse(self, sentence: str) -> NoReturn:
        raise ExpressionRefused(sentence, self._at + 1)
