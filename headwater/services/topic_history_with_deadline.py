"""A TopicHistory with a deadline for all of its calls."""

from collections.abc import Callable, Mapping

from headwater.brokers.topic_history import CALL_TIMEOUT_S, LogChunk, OffsetRange, TopicHistory
from headwater.errors import BrokerUnavailable

LAST_CALL_S = 5.0
"""A call that begins before the time limit may end this long after the time limit."""


class TopicHistoryWithDeadline:
    """A TopicHistory whose calls end in time.

    A call that begins after the time limit raises BrokerUnavailable. All other calls end LAST_CALL_S seconds after the
    time limit at the latest.

    Args:
        history: Reads the records.
        clock: Returns monotonic seconds.
        timeout_s: The time limit, which begins now.
    """

    def __init__(self, history: TopicHistory, clock: Callable[[], float], timeout_s: float) -> None:
        self._history = history
        self._clock = clock
        self._timeout_s = timeout_s
        self._deadline = clock() + timeout_s

    def ranges(self, topic: str, timeout_s: float = CALL_TIMEOUT_S) -> Mapping[int, OffsetRange]:
        """See TopicHistory."""
        return self._history.ranges(topic, self._limited(topic, timeout_s))

    def offsets_since(self, topic: str, time_ms: int, timeout_s: float = CALL_TIMEOUT_S) -> Mapping[int, int]:
        """See TopicHistory."""
        return self._history.offsets_since(topic, time_ms, self._limited(topic, timeout_s))

    def read(
        self,
        topic: str,
        ranges: Mapping[int, OffsetRange],
        max_bytes: int,
        timeout_s: float = CALL_TIMEOUT_S,
        *,
        with_values: bool = True,
        with_headers: bool = True,
    ) -> Mapping[int, LogChunk]:
        """See TopicHistory."""
        limited_s = self._limited(topic, timeout_s)
        return self._history.read(
            topic, ranges, max_bytes, limited_s, with_values=with_values, with_headers=with_headers
        )

    def _limited(self, topic: str, timeout_s: float) -> float:
        """Return how long a call may take that begins now."""
        left_s = self._deadline - self._clock()
        if left_s < 0:
            raise BrokerUnavailable(
                f"The records of {topic} were not found within {self._timeout_s:g} s: Kafka is slow, or compaction or "
                "aborted transactions have left few records."
            )
        return min(timeout_s, left_s + LAST_CALL_S)

    def is_over(self) -> bool:
        """Return whether the time limit is over."""
        return self._clock() > self._deadline
