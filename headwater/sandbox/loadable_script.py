"""A script's source text with the result of its state analysis, as a child loads it."""

from typing import NamedTuple, Self

from headwater.sandbox.analysis.state import keeps_state, may_call_flow
from headwater.sandbox.analysis.tree import parse


class LoadableScript(NamedTuple):
    """The source of a script, and whether it may keep state (`analysis/state.py` decides).

    A script that keeps state processes each record once, in order, and waits for each answer of `flow.contains`.
    """

    text: str
    keeps_state: bool = False

    @classmethod
    def of(cls, text: str) -> Self:
        """Analyse a script."""
        return cls(text, may_call_flow(text) and keeps_state(parse(text)))
