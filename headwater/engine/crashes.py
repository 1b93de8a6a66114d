"""Records that end V8's process: each costs some process starts, so a stream of them is slowed down, and shown."""

from collections import deque
from collections.abc import Iterable

from headwater.engine.chain import Rejected

WINDOW_S = 60.0
MOST_PER_WINDOW = 60
FEW_PER_WINDOW = 20
PAUSE_PER_RECORD_S = 1.0
LONGEST_PAUSE_S = 10.0
KILLERS = frozenset({"SandboxCrash", "OutOfMemory"})
"""The classes of errors that such records get."""


class Crashes:
    """Counts them. `reason` says that there are too many: from MOST_PER_WINDOW on, until there are few again."""

    def __init__(self) -> None:
        self.reason = ""
        self._at: deque[float] = deque()

    def note(self, rejected: Iterable[Rejected], now: float) -> float:
        """Take in the records of a batch that failed. How many seconds to wait before the next batch."""
        new = sum(each.failure.error in KILLERS for each in rejected)
        self._at.extend([now] * new)
        self.look(now)
        return min(LONGEST_PAUSE_S, new * PAUSE_PER_RECORD_S) if self.reason else 0.0

    def look(self, now: float) -> None:
        """Forget what was long ago."""
        while self._at and self._at[0] <= now - WINDOW_S:
            self._at.popleft()
        if len(self._at) > MOST_PER_WINDOW:
            self.reason = (
                f"More than {MOST_PER_WINDOW} records a minute end the scripts' process. They go to the dead letters, "
                "and the others are delivered, slowly: correct the script, most often it needs too much memory."
            )
        elif len(self._at) <= FEW_PER_WINDOW:
            self.reason = ""
