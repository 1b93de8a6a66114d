"""Decides which segments of a blocking script get a dry run first.

A segment is a part of a batch, whose records a child gets in one frame. A dry run calls the script for the records of
the segment in a separate realm, to find out for which values it calls `flow.contains`. The parent looks up these values
in bulk, so that the real run blocks on few answers. All other results of the dry run are discarded. The realm for dry
runs has its own number. It is reloaded from time to time, because the script's state grows in it, too.
"""

from typing import Final

DRY_RUN_REALM_BIT: Final = 0x8000
"""A script's number with this bit set is the number of its realm for dry runs."""
FEW_RECORDS: Final = 4
"""A segment with at most this many records gets no dry run."""
_DRY_RUNS_PER_REALM: Final = 64
"""The number of dry runs in a realm before it is reloaded."""
_PAUSE_WITHOUT_LOOKUPS: Final = 8
"""After a dry run in which the script looked nothing up, this many segments get no dry run."""
_PAUSE_AFTER_FAILURE: Final = 256
"""After a failure, this many segments get no dry run.

A child may have died because the script's state in two realms did not fit into its memory.
"""


class DryRunScheduler:
    """Counts the segments and dry runs of each script. Used by one thread."""

    def __init__(self) -> None:
        self._dry_runs: dict[int, int] = {}
        """By script number: the number of dry runs in the present realm."""
        self._pauses: dict[int, int] = {}
        """By script number: the number of segments before the next dry run."""
        self._failed: set[int] = set()
        """The scripts for which `on_failed` was called since their last finished dry run."""

    def count_segment(self, script_number: int, record_count: int) -> bool:
        """Count a segment, and return whether it gets a dry run. Call it once per segment."""
        if record_count <= FEW_RECORDS:
            return False
        pause = self._pauses.get(script_number, 0)
        self._pauses[script_number] = max(0, pause - 1)
        return pause == 0

    def count_dry_run(self, script_number: int) -> bool:
        """Count a dry run, and return whether the realm must be reloaded before it."""
        dry_runs = self._dry_runs.get(script_number, 0)
        self._dry_runs[script_number] = (dry_runs + 1) % _DRY_RUNS_PER_REALM
        return dry_runs == 0

    def has_failed(self, script_number: int) -> bool:
        """Return whether `on_failed` was called for a script since its last finished dry run."""
        return script_number in self._failed

    def on_finished(self, script_number: int, *, has_looked_up: bool) -> None:
        """Pause the dry runs of a script that looked nothing up in a dry run."""
        self._failed.discard(script_number)
        if not has_looked_up:
            self._pauses[script_number] = _PAUSE_WITHOUT_LOOKUPS

    def on_failed(self, script_number: int) -> None:
        """Pause the dry runs of a script after a failure.

        Its realm could not be loaded, or the child died while it ran a segment that had a dry run.
        """
        self._pauses[script_number] = _PAUSE_AFTER_FAILURE
        self._failed.add(script_number)
