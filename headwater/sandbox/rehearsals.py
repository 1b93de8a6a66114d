"""Decides which segments of a stateful script are rehearsed to collect their questions.

The questions are calls of `flow.contains`. A rehearsal runs the script over the segment in a separate realm, to find
out which values it asks for. These are looked up in bulk, so that the real run blocks on few answers. All other results
of a rehearsal are discarded. The rehearsal realm has its own number. It is reloaded from time to time, because the
script's state grows there too.
"""

from typing import Final

REHEARSAL_REALM_BIT: Final = 0x8000
"""A script's number with this bit set is the number of its rehearsal realm."""
FEW_RECORDS: Final = 4
"""A segment with at most this many records is not rehearsed."""
_SEGMENTS_PER_REALM: Final = 64
"""The number of segments that are rehearsed in a realm before it is reloaded."""
_PAUSE_WITHOUT_QUESTIONS: Final = 8
"""The number of segments without a rehearsal after one in which the script asked nothing."""
_PAUSE_AFTER_DEATH: Final = 256
"""The number of segments without a rehearsal after a failure.

A child may have died because the script's state in two realms did not fit into its memory.
"""


class Rehearsals:
    """Counts the rehearsals of each script. Used by one thread."""

    def __init__(self) -> None:
        self._uses: dict[int, int] = {}
        self._pauses: dict[int, int] = {}

    def are_due(self, script: int, records: int) -> bool:
        """Return whether to rehearse a segment with this number of records.

        Counts the segment, so call it once per segment.
        """
        if records <= FEW_RECORDS:
            return False
        pause = self._pauses.get(script, 0)
        self._pauses[script] = max(0, pause - 1)
        return pause == 0

    def needs_new_realm(self, script: int) -> bool:
        """Return whether the realm must be reloaded for this rehearsal. Counts the rehearsal."""
        uses = self._uses.get(script, 0)
        self._uses[script] = (uses + 1) % _SEGMENTS_PER_REALM
        return uses == 0

    def record_questions(self, script: int, *, questions: int) -> None:
        """Record how many questions the script asked in a rehearsed segment."""
        if not questions:
            self._pauses[script] = _PAUSE_WITHOUT_QUESTIONS

    def record_failure(self, script: int) -> None:
        """Record that the realm could not be loaded, or that the child died while rehearsing."""
        self._pauses[script] = _PAUSE_AFTER_DEATH
