"""Which of several folders tells an event, when a node wrote it to more than one."""

from collections.abc import Sequence
from typing import Literal

Verdict = Literal["take", "drop", "wait"]
Span = tuple[int, int]
"""Times in ms of the first and the last event that were taken from a folder."""


class Spans:
    """The spans of folders that tell the same events; the first of them is preferred."""

    def __init__(self, spans: Sequence[Span | None]) -> None:
        self.spans = [None if span is None else (span[0], span[1]) for span in spans]

    def judge(self, rank: int, time_ms: int, lives: Sequence[bool]) -> Verdict:
        """Whether folder `rank` tells the event, another one did, or a preferred one may still do so.

        lives: by rank, whether the folder still gets events.
        """
        for other, span in enumerate(self.spans):
            if other == rank or span is None or time_ms < span[0]:
                continue
            if time_ms <= span[1]:
                return "drop"
            if other < rank and lives[other]:
                return "wait"
        return "take"

    def took(self, rank: int, time_ms: int) -> None:
        """An event was taken from folder `rank`."""
        first, last = self.spans[rank] or (time_ms, time_ms)
        self.spans[rank] = (min(first, time_ms), max(last, time_ms))
