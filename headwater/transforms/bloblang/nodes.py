"""The nodes of the syntax tree of a filter expression."""

from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class StringLiteral:
    """A string literal."""

    value: str


@dataclass(frozen=True, slots=True)
class Deleted:
    """`deleted()`: a value that never matches a set, and that is removed from arrays."""


@dataclass(frozen=True, slots=True)
class ScopeValue:
    """The value of a scope: `this`, or the name before `->` in `map_each( )`.

    Scope 0 is the record. Each enclosing MapQuery or MapEach opens the next scope: scope 1 is the value of the
    outermost one. `this.( )` and `name.( )` open no scope.
    """

    scope_number: int


@dataclass(frozen=True, slots=True)
class Array:
    """An array literal."""

    items: tuple["Node", ...]


@dataclass(frozen=True, slots=True)
class Coalesce:
    """`|`: the value of the first option that is not null, deleted or an error."""

    options: tuple["Node", ...]


@dataclass(frozen=True, slots=True)
class Path:
    """A path of names of members, indexes of arrays, and stars for every element of an array."""

    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Element:
    """`[ ]`: an element of an array or a byte of a string.

    A negative position counts from the end.
    """

    position: int


@dataclass(frozen=True, slots=True)
class Method:
    """A method whose arguments are literals."""

    name: str
    arguments: tuple[str | int, ...] = ()


@dataclass(frozen=True, slots=True)
class Or:
    """`.or( )`: replaces null, a deleted value or an error by another value."""

    otherwise: "Node"


@dataclass(frozen=True, slots=True)
class Catch:
    """`.catch( )`: replaces an error by another value."""

    otherwise: "Node"


@dataclass(frozen=True, slots=True)
class MapEach:
    """`.map_each( )`: a query that is applied to every element.

    The element is the value of the next scope.
    """

    query: "Node"


@dataclass(frozen=True, slots=True)
class MapQuery:
    """`.( )`: a query that is applied to the value before the dot.

    This value is the value of the next scope.
    """

    query: "Node"


@dataclass(frozen=True, slots=True)
class MethodChain:
    """A source, and the steps that are applied to its value from left to right."""

    source: "Node"
    steps: tuple["Step", ...]


Step = Path | Element | Method | Or | Catch | MapEach | MapQuery
Node = StringLiteral | Deleted | ScopeValue | Array | Coalesce | MethodChain


def walk(node: Node) -> Iterator[Node | Step]:
    """Yield a node, and all nodes and steps in it."""
    remaining: list[Node | Step] = [node]
    while remaining:
        part = remaining.pop()
        yield part
        match part:
            case Array(inner) | Coalesce(inner):
                remaining += inner
            case MethodChain(source, steps):
                remaining += (source, *steps)
            case Or(query) | Catch(query) | MapEach(query) | MapQuery(query):
                remaining.append(query)
