"""A script as a child loads it: its source text, and whether it may keep state."""

from typing import NamedTuple, Self

from headwater.sandbox.analysis.state import keeps_state, may_use_flow_object
from headwater.sandbox.analysis.tree import parse


class LoadableScript(NamedTuple):
    """The source text of a script, and whether the script may keep state.

    `analysis/state.py` decides whether it may.

    A script that keeps state processes each record once, in order, and waits for each answer of `flow.contains`.
    """

    text: str
    keeps_state: bool = False

    @classmethod
    def of(cls, text: str) -> Self:
        """Analyse the source text of a script."""
        return cls(text, may_use_flow_object(text) and keeps_state(parse(text)))
