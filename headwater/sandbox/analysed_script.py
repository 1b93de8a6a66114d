"""A script as a child loads it: its source text, and the result of its analysis."""

from typing import NamedTuple, Self

from headwater.sandbox.analysis.state import may_keep_state, may_use_flow_object
from headwater.sandbox.analysis.tree import parse


class AnalysedScript(NamedTuple):
    """A script, and whether it must block on each answer of `flow.contains`.

    Attributes:
        text: The source text.
        must_block: Whether the script can call `flow.contains` and is stateful, that is, may keep state (see
            `analysis/state.py`). Such a script is called blocking. In its own realm it processes the records once, in
            order, and blocks until each answer of `flow.contains` is known. All other scripts may process a record more
            than once, also stateful scripts that can't call `flow`. The values of their top-level variables are
            therefore not reliable.
    """

    text: str
    must_block: bool = False

    @classmethod
    def of(cls, text: str) -> Self:
        """Analyse the source text of a script."""
        return cls(text, may_use_flow_object(text) and may_keep_state(parse(text)))
