"""When a script that keeps something is rehearsed: run over a batch in a realm of its own, for what it asks.

The questions of a rehearsal are looked up in bulk, so that the run itself waits for few answers. Everything else that a
rehearsal does is forgotten; its realm is loaded under a number of its own, and anew from time to time, since what the
script keeps there grows.
"""

from typing import Final

REALM: Final = 0x8000
"""Added to a script's number, it is the number of the realm of its rehearsals."""
FEW_RECORDS: Final = 4
"""So few records are not worth a rehearsal."""
_USES: Final = 64
"""How often a realm is used for rehearsals."""
_PAUSE_UNASKED: Final = 8
"""Segments without a rehearsal after one in which the script asked nothing."""
_PAUSE_DIED: Final = 256
"""Segments without a rehearsal after a child died: it may have had no room for what the script keeps in two realms."""


class Rehearsals:
    """Counts the rehearsals of each script. Used by one thread."""

    def __init__(self) -> None:
        self._uses: dict[int, int] = {}
        self._pauses: dict[int, int] = {}

    def are_due(self, script: int, records: int) -> bool:
        """Whether a segment of so many records is worth a rehearsal."""
        if records <= FEW_RECORDS:
            return False
        pause = self._pauses.get(script, 0)
        self._pauses[script] = max(0, pause - 1)
        return pause == 0

    def needs_new_realm(self, script: int) -> bool:
        """Whether the realm has been used long enough. Counts one more use."""
        uses = self._uses.get(script, 0)
        self._uses[script] = (uses + 1) % _USES
        return uses == 0

    def asked(self, script: int, *, questions: int) -> None:
        """A rehearsed segment has run; its script asked so often."""
        if not questions:
            self._pauses[script] = _PAUSE_UNASKED

    def failed(self, script: int) -> None:
        """The child died over a rehearsed segment, or over loading the realm."""
        self._pauses[script] = _PAUSE_DIED
