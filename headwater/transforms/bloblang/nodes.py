"""The syntax tree of a filter expression."""

from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Text:
    """A text literal."""

    text: str


@dataclass(frozen=True, slots=True)
class Deleted:
    """`deleted()`: a value that is in no set, and that arrays leave out."""


@dataclass(frozen=True, slots=True)
class Variable:
    """The value of a scope: 0 is the record, 1 what the outermost `.( )` or `map_each( )` looks at, and so on."""

    scope: int


@dataclass(frozen=True, slots=True)
class Array:
    """An array literal."""

    items: tuple["Node", ...]


@dataclass(frozen=True, slots=True)
class Coalesce:
    """The first option that gives a value."""

    options: tuple["Node", ...]


@dataclass(frozen=True, slots=True)
class Members:
    """A path of members and array elements."""

    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Element:
    """An element of an array or a byte of a string, by its position; negative ones count from the end."""

    position: int


@dataclass(frozen=True, slots=True)
class Method:
    """A method whose arguments are literals."""

    name: str
    arguments: tuple[str | int, ...] = ()


@dataclass(frozen=True, slots=True)
class Or:
    """`.or( )`: another value in place of null or an error."""

    otherwise: "Node"


@dataclass(frozen=True, slots=True)
class Catch:
    """`.catch( )`: another value in place of an error."""

    otherwise: "Node"


@dataclass(frozen=True, slots=True)
class Each:
    """`.map_each( )`: a query of every element, each of which is the value of the next scope."""

    query: "Node"


@dataclass(frozen=True, slots=True)
class Within:
    """`.( )`: a query of a value, which is the value of the next scope."""

    query: "Node"


@dataclass(frozen=True, slots=True)
class Chain:
    """Steps from a value, from left to right."""

    source: "Node"
    steps: tuple["Step", ...]


Step = Members | Element | Method | Or | Catch | Each | Within
Node = Text | Deleted | Variable | Array | Coalesce | Chain


def parts(node: Node) -> Iterator[Node | Step]:
    """A node and everything in it."""
    todo: list[Node | Step] = [node]
    while todo:
        part = todo.pop()
        yield part
        match part:
            case Array(inner) | Coalesce(inner):
                todo += inner
            case Chain(source, steps):
                todo += (source, *steps)
            case Or(query) | Catch(query) | Each(query) | Within(query):
                todo.append(query)
