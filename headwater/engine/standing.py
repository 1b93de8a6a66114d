"""How a worker stands, as it tells its supervisor."""

from headwater.engine.crashes import Crashes
from headwater.engine.gaps import Gaps
from headwater.engine.isolation import Isolation
from headwater.engine.membership import Membership


class Standing:
    """What of a worker's work does not go on as it should: crashes of its scripts, its share of the source, gaps."""

    def __init__(self, isolation: Isolation) -> None:
        self.isolation = isolation
        self.crashes = Crashes()
        self.gaps = Gaps()
        self.membership = Membership()

    def state(self, now: float, reason: str, stage: str = "") -> tuple[str, str]:
        """State and reason of a heartbeat. reason: what the worker waits for itself; stage: it begins or ends."""
        self.crashes.look(now)
        reason = reason or self.membership.reason(now)
        state = self._state(reason, stage)
        if state == "crashing":
            reason = self.crashes.reason
        return state, " ".join(filter(None, (self.gaps.beside(reason, now), *self.isolation.reasons())))

    def _state(self, reason: str, stage: str) -> str:
        if stage == "draining":
            return stage
        if self.crashes.reason:
            return "crashing"
        if reason or self.membership.is_cut_off(self.gaps.not_read.keys() | self.isolation.not_read().keys()):
            return "waiting"
        return stage or ("ready" if self.membership.joined else "starting")
