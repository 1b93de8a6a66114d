"""The time that the server waits for a client in each phase of a connection."""

from dataclasses import dataclass
from enum import Enum, auto

from headwater.api.server.limits import ServerLimits

CLOSE_TIMEOUT_S = 5.0
RESPONSE_STALL_TIMEOUTS = 2
"""A response may stall for this many stall timeouts, since a slow reader opens its TCP window only now and then."""


class ConnectionPhase(Enum):
    """The work or the wait of a connection."""

    HEAD = auto()
    """The client sends a request head, or has connected and has sent nothing yet."""
    BODY = auto()
    """The client sends a body that the application reads."""
    WORK = auto()
    """The application computes; the client waits."""
    RESPONSE = auto()
    """The client reads a response that is too large for the system's buffers."""
    LINGER = auto()
    """The response is sent, and the client still sends the body."""
    IDLE = auto()
    """The connection is open between two requests.

    uvicorn closes it after keep_alive_s, unless the end of a request body arrived after its response.
    """
    CLOSE = auto()
    """The connection is being closed; the transport has not reported its end yet."""


TRANSFERS = (ConnectionPhase.BODY, ConnectionPhase.RESPONSE)
"""The phases in which transferred bytes refill the budget."""


def budget_s(phase: ConnectionPhase, limits: ServerLimits) -> float | None:
    """Return the seconds that a client has in a phase; None when the phase is not bounded here."""
    match phase:
        case ConnectionPhase.HEAD:
            return limits.header_timeout_s
        case ConnectionPhase.BODY | ConnectionPhase.LINGER:
            return limits.stall_timeout_s
        case ConnectionPhase.RESPONSE:
            return RESPONSE_STALL_TIMEOUTS * limits.stall_timeout_s
        case ConnectionPhase.CLOSE:
            return CLOSE_TIMEOUT_S
        case ConnectionPhase.IDLE:
            return limits.keep_alive_s + CLOSE_TIMEOUT_S
        case ConnectionPhase.WORK:
            return None


@dataclass(slots=True)
class TimeBudget:
    """The budget of one connection.

    A new phase, and the same phase of another request, begin with a full budget. Transferred bytes refill the budget at
    `min_bytes_per_s`, so that a slow client is served as long as it is faster than that on average.
    """

    limits: ServerLimits
    phase: ConnectionPhase = ConnectionPhase.HEAD
    request_number: int = 0
    left_s: float = 0.0

    def __post_init__(self) -> None:
        self.left_s = self.limits.header_timeout_s

    def spend(self, phase: ConnectionPhase, request_number: int, elapsed_s: float, transferred_bytes: int) -> bool:
        """Account for the time since the last call.

        Returns False when the client has used up its budget.

        Args:
            request_number: The number of the request on its connection.
            elapsed_s: The seconds since the last call.
            transferred_bytes: The bytes that the client has sent or read since the last call.
        """
        budget = budget_s(phase, self.limits)
        if (phase, request_number) != (self.phase, self.request_number):
            self.phase, self.request_number = phase, request_number
            self.left_s = budget or 0.0
            return True
        if budget is None:
            return True
        refill_s = transferred_bytes / self.limits.min_bytes_per_s if phase in TRANSFERS else 0.0
        self.left_s = min(budget, self.left_s - elapsed_s + refill_s)
        return self.left_s > 0
