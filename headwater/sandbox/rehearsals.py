"""Decides which segments of a script that keeps state are rehearsed.

A rehearsal runs the script over the segment in a realm of its own, to find out what the script asks. These questions
are looked up in bulk, so that the run that counts waits for few answers. Everything else that a rehearsal does is
thrown away. Its realm is loaded under a number of its own, and anew from time to time, since the script's state grows
there too.
"""

from typing import Final

REHEARSAL: Final = 0x8000
"""Added to a script's number, it is the number of the realm of its rehearsals."""
FEW_RECORDS: Final = 4
"""A segment of so many records or fewer is not rehearsed."""
_USES: Final = 64
"""How many segments are rehearsed in a realm before it is loaded anew."""
_PAUSE_UNASKED: Final = 8
"""How many segments are not rehearsed after one in which the script asked nothing."""
_PAUSE_DIED: Final = 256
"""How many segments are not rehearsed after a child died: the state in two realms may not fit into its memory."""


class Rehearsals:
    """Counts the rehearsals of each script. Used by one thread."""

    def __init__(self) -> None:
        self._uses: dict[int, int] = {}
        self._pauses: dict[int, int] = {}

    def are_due(self, script: int, records: int) -> bool:
        """Whether to rehearse a segment of so many records. Counts the segment."""
        if records <= FEW_RECORDS:
            return False
        pause = self._pauses.get(script, 0)
        self._pauses[script] = max(0, pause - 1)
        return pause == 0

    def needs_new_realm(self, script: int) -> bool:
        """Whether the realm has to be loaded anew for this rehearsal. Counts the rehearsal."""
        uses = self._uses.get(script, 0)
        self._uses[script] = (uses + 1) % _USES
        return uses == 0

    def asked(self, script: int, *, questions: int) -> None:
        """Take note that a rehearsed segment has run, in which the script asked so often."""
        if not questions:
            self._pauses[script] = _PAUSE_UNASKED

    def failed(self, script: int) -> None:
        """Take note that the realm could not be loaded, or that the child died over a rehearsed segment."""
        self._pauses[script] = _PAUSE_DIED
