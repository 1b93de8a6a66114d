"""What of the source is not read: records that were deleted before, and partitions that can't be read at the moment."""

from collections.abc import Mapping, Sequence

import structlog

from headwater.engine.chain import Flight
from headwater.engine.positions import Ledger
from headwater.sources.base import Gap

log = structlog.get_logger(__name__)

SHOWN_FOR_S = 900.0
"""How long a gap is shown as the worker's reason."""


class Gaps:
    """Each gap is an error in the log, and passed. The last one is the worker's reason for SHOWN_FOR_S.

    not_read: the partitions that are not read at the moment, each with the reason.
    """

    def __init__(self) -> None:
        self._last = ""
        self._until = float("-inf")
        self.not_read: Mapping[int, str] = {}

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

    def note(self, not_read: Mapping[int, str]) -> None:
        """Tell of partitions that are not read at the moment."""
        if not_read and not self.not_read:
            log.warning("partitions are not read", reasons=list(dict.fromkeys(not_read.values())))
        self.not_read = not_read

    def beside(self, reason: str, now: float) -> str:
        """A worker's reason, what it can't read, and the last gap."""
        last = self._last if now < self._until else ""
        return " ".join(filter(None, (reason, *dict.fromkeys(self.not_read.values()), last)))
