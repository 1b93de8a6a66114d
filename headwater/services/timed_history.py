"""A history of topics whose reads end in time."""

from collections.abc import Callable, Mapping

from headwater.brokers.topic_history import LogChunk, OffsetRange, TopicHistory
from headwater.errors import BrokerUnavailable


class TimedHistory:
    """A TopicHistory that raises BrokerUnavailable when a read begins after a time limit.

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
        self.ranges = history.ranges
        self.offsets_since = history.offsets_since

    def read(
        self,
        topic: str,
        ranges: Mapping[int, OffsetRange],
        max_bytes: int,
        *,
        with_values: bool = True,
        with_headers: bool = True,
    ) -> Mapping[int, LogChunk]:
        """See TopicHistory."""
        if self.is_over():
            raise BrokerUnavailable(
                f"The records of {topic} were not found within {self._timeout_s:g} s: Kafka is slow, or compaction or "
                "aborted transactions have left few records."
            )
        return self._history.read(topic, ranges, max_bytes, with_values=with_values, with_headers=with_headers)

    def is_over(self) -> bool:
        """Return whether the time limit is over."""
        return self._clock() > self._deadline
