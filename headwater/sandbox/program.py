"""A script as a child loads it."""

from typing import NamedTuple, Self

from headwater.sandbox.analysis.state import keeps_state, may_ask
from headwater.sandbox.analysis.tree import parse


class Program(NamedTuple):
    """A script's text, and whether it may keep something from record to record.

    Such a script processes each record once, in order, and waits for the answers of `flow.contains`.
    """

    text: str
    keeps_state: bool = False

    @classmethod
    def of(cls, text: str) -> Self:
        """Analyse a script."""
        return cls(text, may_ask(text) and keeps_state(parse(text)))
