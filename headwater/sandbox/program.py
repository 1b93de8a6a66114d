"""A script as a child loads it."""

from typing import NamedTuple, Self

from headwater.sandbox.analysis.state import keeps_state, may_ask
from headwater.sandbox.analysis.tree import parse


class Program(NamedTuple):
    """The text of a script, and whether the script may keep something from record to record.

    A script that keeps state processes each record once, in order, and waits for each answer of `flow.contains`.
    """

    text: str
    keeps_state: bool = False

    @classmethod
    def of(cls, text: str) -> Self:
        """Analyse a script."""
        return cls(text, may_ask(text) and keeps_state(parse(text)))
