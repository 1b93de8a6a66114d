"""Records that were deleted before they were read: told, and passed."""

from collections.abc import Sequence

import structlog

from headwater.engine.chain import Flight
from headwater.engine.positions import Ledger
from headwater.sources.base import Gap

log = structlog.get_logger(__name__)

SHOWN_FOR_S = 900.0
"""How long a gap is shown as the worker's reason."""


class Gaps:
    """Each is an error in the log. The last one is the worker's reason for SHOWN_FOR_S."""

    def __init__(self) -> None:
        self._last = ""
        self._until = float("-inf")

    def take(self, gap: Gap, ledger: Ledger, flights: Sequence[Flight], now: float) -> None:
        """Tell of a gap that was passed. Its end is committed after all that was read before it."""
        self._last, self._until = str(gap), now + SHOWN_FOR_S
        log.error(self._last)
        ledger.begin({gap.partition: gap.start})
        behind = {gap.partition: gap.end}
        if flights:
            flights[-1].end_at(behind)
        else:
            ledger.delivered(behind)

    def beside(self, reason: str, now: float) -> str:
        """A worker's reason, and the last gap."""
        return " ".join(filter(None, (reason, self._last if now < self._until else "")))
