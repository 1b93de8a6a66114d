r"""The parser of filter expressions, which are a subset of Bloblang.

The grammar is:

    mapping  = [ "root" "=" ] query
    query    = term { "|" term }                    the first term that is not null, deleted or an error
    term     = source { tail }
    source   = "this" | name | string | array | "(" query ")" | "deleted" "(" ")"
    tail     = "." field | "." method | "." "(" query ")" | "[" number "]"
    field    = [A-Za-z0-9_]+ | a JSON string        in an array "0" is its first element, and "*" means every element
    method   = [a-z0-9_]+ "(" [ argument { "," argument } [ "," ] ] ")"
    argument = string | number | query | name "->" query
    array    = "[" [ query { "," query } [ "," ] ] "]"
    string   = a JSON string | any characters between three double quotes
    number   = [ "-" ] digits

White space and comments (from `#` to the end of the line) may appear at the start and the end of the expression, after
`=`, `.` and `|`, on both sides of `,`, and after an opening or before a closing parenthesis or square bracket. Before
`=` and `|` only spaces and tabs may appear. A bare `name` is a member of the current value of `.( )` or `map_each( )`,
or it is the name before `->`. `this` alone is an error: the record is an object, and an object is never in a set.

No parser generator is used, because an error names the part of Bloblang that this subset lacks, and what to write.
"""

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import NoReturn

from headwater.errors import InvalidExpression
from headwater.model.transforms.redis_set_filter import MAX_EXPRESSION_CHARS
from headwater.transforms.bloblang import error_messages
from headwater.transforms.bloblang.methods import ALLOWED_ON_RECORD, METHODS, Parameter
from headwater.transforms.bloblang.nodes import (
    Array,
    Catch,
    Coalesce,
    Deleted,
    Element,
    MapEach,
    MapQuery,
    Method,
    MethodChain,
    Node,
    Or,
    Path,
    ScopeValue,
    Step,
    StringLiteral,
)

MAX_NESTING = 32
"""How deep parentheses and square brackets may be nested."""
_SPACE = re.compile(r"(?:[ \t\r\n]+|#[^\n]*)*")
_BLANKS = re.compile(r"[ \t]*")
_WORD = re.compile(r"[A-Za-z0-9_]+", re.ASCII)
_QUOTED = re.compile(r'"(?:[^"\\]|\\.)*"', re.DOTALL)
_TRIPLE_QUOTED = re.compile(r'"""(.*?)"""', re.DOTALL)
_NUMBER = re.compile(r"-?[0-9]+", re.ASCII)
_ARROW = re.compile(r"([A-Za-z0-9_]+)([ \t]*)->([ \t]*)", re.ASCII)
_RESERVED = re.compile(r"(?:true|false|null|[0-9]).*|this|root|if|match", re.ASCII)
_LARGEST_NUMBER = 2**63 - 1


def parse(expression: str) -> Node:
    """Parse an expression. Raises InvalidExpression with the column of the error."""
    if len(expression) > MAX_EXPRESSION_CHARS:
        raise InvalidExpression(f"Use at most {MAX_EXPRESSION_CHARS:,} characters.", MAX_EXPRESSION_CHARS + 1)
    return _Parser(expression).parse_mapping()


@dataclass(frozen=True, slots=True)
class _Scope:
    """The meaning of names in a query.

    Scopes are numbered as in ScopeValue: 0 is the scope of the record.

    Attributes:
        depth: The number of the innermost scope.
        this: The number of the scope whose value is `this`; None in `catch( )`, where `this` is not allowed.
        allows_bare_names: Whether a bare name is a member of `this`.
        names: By name before a `->`, the number of the scope whose value the name stands for.
    """

    depth: int = 0
    this: int | None = 0
    allows_bare_names: bool = False
    names: Mapping[str, int] = field(default_factory=dict)

    def for_inner_query(self) -> "_Scope":
        """Return the scope of an inner query, in which `this` is the current value."""
        return replace(self, depth=self.depth + 1, this=self.depth + 1, allows_bare_names=True)

    def with_name(self, name: str) -> "_Scope":
        """Return the scope of an inner query, in which a name means the current value.

        `this` keeps its meaning.
        """
        return replace(self, depth=self.depth + 1, names={**self.names, name: self.depth + 1})

    def for_catch(self) -> "_Scope":
        """Return the scope of the query in `catch( )`.

        In Bloblang, `this` would be the message of the error there.
        """
        return replace(self, this=None, allows_bare_names=False)


class _Parser:
    """A recursive descent parser of one expression."""

    def __init__(self, expression: str) -> None:
        self._expression = expression
        self._at = 0
        self._nesting = 0

    def parse_mapping(self) -> Node:
        self._match(_SPACE)
        start = self._at
        if self._match(_WORD) == "root":
            self._skip_assignment()
        else:
            self._at = start
            if message := error_messages.statement_error(self._expression, start):
                self._fail(message)
        node = self._parse_query(_Scope())
        end = self._at
        self._match(_SPACE)
        if self._at < len(self._expression):
            self._fail(error_messages.trailing_error(self._expression, end, self._at))
        return node

    def _skip_assignment(self) -> None:
        self._match(_BLANKS)
        if not self._skip_if_next("="):
            self._fail(error_messages.EXPECTED_ASSIGNMENT)
        self._match(_SPACE)

    def _parse_query(self, scope: _Scope) -> Node:
        options = [self._parse_term(scope)]
        while self._skip_pipe_if_next():
            options.append(self._parse_term(scope))
        return options[0] if len(options) == 1 else Coalesce(tuple(options))

    def _skip_pipe_if_next(self) -> bool:
        before = self._at
        self._match(_BLANKS)
        if not self._expression.startswith("|", self._at) or self._expression.startswith("||", self._at):
            self._at = before
            return False
        self._at += 1
        self._match(_SPACE)
        return True

    def _parse_term(self, scope: _Scope) -> Node:
        source, steps = self._parse_source(scope)
        while tail := self._expression[self._at : self._at + 1]:
            is_record = source == ScopeValue(0) and not steps
            if tail == "[":
                if is_record:
                    self._fail(error_messages.SQUARE_BRACKETS_AFTER_RECORD)
                steps.append(self._parse_element())
            elif tail == ".":
                self._at += 1
                self._match(_SPACE)
                if inner := self._parse_map_of_scope_value(source, steps, scope):
                    source = inner
                else:
                    self._parse_step(steps, scope, is_record)
            else:
                break
        if source == ScopeValue(0) and not steps:
            self._fail(error_messages.ONLY_THE_RECORD)
        return MethodChain(source, tuple(steps)) if steps else source

    def _parse_source(self, scope: _Scope) -> tuple[Node, list[Step]]:
        if self._expression.startswith("(", self._at):
            with self._brackets(")", error_messages.EXPECTED_CLOSING):
                return _steps_of(self._parse_query(scope))
        if self._expression.startswith("[", self._at):
            return self._parse_array(scope), []
        if self._expression.startswith('"', self._at):
            return StringLiteral(self._parse_literal()), []
        start = self._at
        word = self._match(_WORD)
        if word == "deleted" and self._expression.startswith("(", self._at):
            self._parse_arguments("deleted", ())
            return Deleted(), []
        source = None if self._expression.startswith("(", self._at) else self._resolve_name(word, scope)
        if source is None:
            self._fail(error_messages.source_error(self._expression, start, scope.this is None), at=start)
        return source

    def _resolve_name(self, word: str, scope: _Scope) -> tuple[Node, list[Step]] | None:
        """Return the source and the steps that a bare word means.

        Returns None for a word that is unknown in this scope.
        """
        if word in scope.names:
            return ScopeValue(scope.names[word]), []
        if scope.this is None:
            return None
        if word == "this":
            return ScopeValue(scope.this), []
        if word and scope.allows_bare_names and not _is_reserved(word):
            return ScopeValue(scope.this), [Path((word,))]
        return None

    def _parse_map_of_scope_value(self, source: Node, steps: list[Step], scope: _Scope) -> Node | None:
        """Parse the query of `this.( )` or `name.( )`.

        In the query, `this` is the value before the dot. No new scope is needed, because this value already is the
        value of a scope. Returns None when something else follows.
        """
        if not isinstance(source, ScopeValue) or steps or not self._expression.startswith("(", self._at):
            return None
        with self._brackets(")", error_messages.EXPECTED_CLOSING):
            return self._parse_query(replace(scope, this=source.scope_number, allows_bare_names=True))

    def _parse_array(self, scope: _Scope) -> Array:
        items: list[Node] = []
        with self._brackets("]", error_messages.EXPECTED_CLOSING_OF_ARRAY):
            while not self._expression.startswith("]", self._at):
                items.append(self._parse_query(scope))
                self._match(_SPACE)
                if not self._skip_if_next(","):
                    break
                self._match(_SPACE)
        return Array(tuple(items))

    def _parse_element(self) -> Element:
        with self._brackets("]", error_messages.EXPECTED_INDEX):
            return Element(self._parse_whole_number(error_messages.EXPECTED_INDEX))

    def _parse_step(self, steps: list[Step], scope: _Scope, is_record: bool) -> None:
        """Parse what follows a dot, which is a method, a query in parentheses, or a member.

        A member extends a path before it.
        """
        if self._expression.startswith("(", self._at):
            with self._brackets(")", error_messages.EXPECTED_CLOSING):
                steps.append(MapQuery(self._parse_query(scope.for_inner_query())))
            return
        start = self._at
        if self._expression.startswith('"', self._at):
            _join(steps, [self._parse_quoted_string()])
            return
        word = self._match(_WORD)
        if not self._expression.startswith("(", self._at):
            if not word:
                self._fail(error_messages.field_error(self._expression, start))
            _join(steps, [word])
            return
        if word not in METHODS:
            self._fail(error_messages.method_error(word), at=start)
        if is_record and word not in ALLOWED_ON_RECORD:
            self._fail(error_messages.EXPECTED_FIELD_BEFORE_METHOD.format(method=word), at=start)
        self._parse_method(word, steps, scope)

    def _parse_method(self, name: str, steps: list[Step], scope: _Scope) -> None:
        match name:
            case "or":
                steps.append(Or(self._parse_argument_query(name, scope)))
            case "catch":
                steps.append(Catch(self._parse_argument_query(name, scope.for_catch())))
            case "map_each":
                steps.append(MapEach(self._parse_argument_query(name, scope)))
            case "get":
                [path] = self._parse_arguments(name, METHODS[name].parameters)
                _join(steps, [_unescaped(segment) for segment in str(path).split(".")])
            case _:
                start = self._at
                arguments = self._parse_arguments(name, METHODS[name].parameters)
                if message := METHODS[name].argument_error(*arguments):
                    self._fail(message, at=start)
                steps.append(Method(name, arguments))

    def _parse_argument_query(self, name: str, scope: _Scope) -> Node:
        """Parse the only argument of a method, which is a query."""
        with self._brackets(")", error_messages.arguments_error(name)):
            if self._expression.startswith(")", self._at):
                self._fail(error_messages.arguments_error(name))
            query = self._parse_query(self._parse_arrow(scope) if name == "map_each" else scope)
            self._match(_SPACE)
            self._skip_if_next(",")
        return query

    def _parse_arrow(self, scope: _Scope) -> _Scope:
        """Parse an optional `name ->`, and return the scope of `map_each( )`.

        With a name, the name means the element. Without one, `this` means the element.
        """
        match = _ARROW.match(self._expression, self._at)
        if match is None:
            return scope.for_inner_query()
        name, before, after = match.groups()
        if not (before and after):
            self._fail(error_messages.EXPECTED_SPACES_AT_ARROW)
        if name in scope.names or name == "_" or _is_reserved(name):
            self._fail(error_messages.BAD_NAME_OF_ELEMENT.format(name=name))
        self._at = match.end()
        return scope.with_name(name)

    def _parse_arguments(self, name: str, parameters: tuple[Parameter, ...]) -> tuple[str | int, ...]:
        """Parse literal arguments in parentheses."""
        arguments: list[str | int] = []
        message = error_messages.arguments_error(name)
        with self._brackets(")", message):
            for parameter in parameters:
                if self._expression.startswith(")", self._at):
                    if parameter.required:
                        self._fail(message)
                    break
                arguments.append(self._parse_argument(parameter, message))
                self._match(_SPACE)
                if not self._skip_if_next(","):
                    break
                self._match(_SPACE)
        return tuple(arguments)

    def _parse_argument(self, parameter: Parameter, message: str) -> str | int:
        if parameter.type is int:
            return self._parse_whole_number(message)
        if not self._expression.startswith('"', self._at):
            self._fail(message)
        return self._parse_literal()

    def _parse_whole_number(self, message: str) -> int:
        start = self._at
        digits = self._match(_NUMBER)
        if not digits or abs(int(digits)) > _LARGEST_NUMBER:
            self._fail(message, at=start)
        return int(digits)

    def _parse_literal(self) -> str:
        if self._expression.startswith('"""', self._at):
            match = _TRIPLE_QUOTED.match(self._expression, self._at)
            if match is None:
                self._fail('Expected a closing `"""` for this string.')
            self._at = match.end()
            return match[1]
        return self._parse_quoted_string()

    def _parse_quoted_string(self) -> str:
        start = self._at
        literal = self._match(_QUOTED)
        if not literal:
            self._fail('Expected a closing `"` for this quoted name or string.')
        try:
            text: str = json.loads(literal)
            text.encode()
        except ValueError:
            self._fail("The quoted string is not a valid JSON string: check its escapes.", at=start)
        return text

    @contextmanager
    def _brackets(self, closing: str, message: str) -> Iterator[None]:
        """Consume an opening bracket, and after the `with` block the closing bracket.

        Args:
            closing: The closing bracket.
            message: The error message when the closing bracket is missing.
        """
        if self._nesting == MAX_NESTING:
            self._fail(f"Parentheses and square brackets are nested more than {MAX_NESTING} deep.")
        self._nesting += 1
        self._at += 1
        self._match(_SPACE)
        yield
        self._match(_SPACE)
        if not self._skip_if_next(closing):
            self._fail(error_messages.symbol_error(self._expression, self._at) or message)
        self._nesting -= 1

    def _match(self, pattern: re.Pattern[str]) -> str:
        match = pattern.match(self._expression, self._at)
        if match is None:
            return ""
        self._at = match.end()
        return match[0]

    def _skip_if_next(self, character: str) -> bool:
        is_next = self._expression.startswith(character, self._at)
        self._at += is_next
        return is_next

    def _fail(self, message: str, *, at: int | None = None) -> NoReturn:
        """Raise InvalidExpression for the character at `at`, or at the present place."""
        raise InvalidExpression(message, 1 + (self._at if at is None else at))


def _is_reserved(name: str) -> bool:
    """Return whether a bare name has another meaning.

    Bloblang reads `true`, `null` or a digit as a literal.
    """
    return _RESERVED.fullmatch(name) is not None


def _steps_of(node: Node) -> tuple[Node, list[Step]]:
    return (node.source, [*node.steps]) if isinstance(node, MethodChain) else (node, [])


def _join(steps: list[Step], names: list[str]) -> None:
    """Append names to the path that is the last step, or add a new path to the steps."""
    if steps and isinstance(path := steps[-1], Path):
        steps[-1] = Path((*path.names, *names))
    else:
        steps.append(Path(tuple(names)))


def _unescaped(segment: str) -> str:
    """Unescape a segment of a dotted path, in which `~1` means a dot and `~0` means `~`."""
    return re.sub("~[01]", lambda escape: "." if escape[0] == "~1" else "~", segment)
