"""Parses a script to a syntax tree with tree-sitter.

Node types are defined by the grammar https://github.com/tree-sitter/tree-sitter-javascript.
"""

from dataclasses import dataclass
from typing import Final, NamedTuple

import tree_sitter_javascript
from tree_sitter import Language, Node, Parser, Tree

_LANGUAGE: Final = Language(tree_sitter_javascript.language())
_READ_BYTES: Final = 1 << 16


class SourceLocation(NamedTuple):
    """A place in a script.

    Lines and columns count from 1; columns count UTF-16 code units, as in V8's messages.
    """

    line: int
    column: int


@dataclass(frozen=True, slots=True)
class ParsedScript:
    """A parsed script.

    Attributes:
        text: The text of the script.
        source: The text in UTF-8. The byte offsets of nodes refer to it.
        tree: The syntax tree.
    """

    text: str
    source: bytes
    tree: Tree

    @property
    def root(self) -> Node:
        """The node `program`."""
        return self.tree.root_node

    @property
    def has_errors(self) -> bool:
        """Whether the grammar could not parse some part of the text."""
        return self.root.has_error

    def text_of(self, node: Node) -> str:
        """Return the text of a node."""
        return self.source[node.start_byte : node.end_byte].decode(errors="replace")

    def position(self, node: Node) -> SourceLocation:
        """Return the line and column at which a node begins."""
        row, column_bytes = node.start_point
        line_start = node.start_byte - column_bytes
        before = self.source[line_start : node.start_byte].decode(errors="replace")
        return SourceLocation(row + 1, len(before.encode("utf-16-le", errors="surrogatepass")) // 2 + 1)


def parse(text: str) -> ParsedScript:
    """Parse a script. The parts of the text that are not JavaScript become error nodes.

    A text of 1 MiB with syntax errors takes seconds. The parser releases the GIL only during callbacks, so it gets
    callbacks to let other threads run.
    """
    source = text.encode(errors="replace")
    tree = Parser(_LANGUAGE).parse(
        lambda start, _: source[start : start + _READ_BYTES], progress_callback=_never_cancel
    )
    assert tree is not None
    return ParsedScript(text, source, tree)


def _never_cancel(_offset: int, _has_error: bool) -> bool:
    return False
