"""TopicHistoryWithDeadline: each call gets the time that is left."""

from collections.abc import Callable, Mapping
from typing import Any, cast

import pytest

from headwater.brokers.topic_history import CALL_TIMEOUT_S, TopicHistory
from headwater.errors import BrokerUnavailable
from headwater.services.topic_history_with_deadline import LAST_CALL_S, TopicHistoryWithDeadline

TOPIC = "stream.base.log"
CALLS: list[Callable[[TopicHistory], Any]] = [
    lambda history: history.ranges(TOPIC),
    lambda history: history.offsets_since(TOPIC, 0),
    lambda history: history.read(TOPIC, {}, 1),
]


class Slow:
    """A history whose calls use up their time, and its clock."""

    def __init__(self) -> None:
        self.now = 100.0

    def ranges(self, _: str, timeout_s: float) -> Mapping[Any, Any]:
        self.now += timeout_s
        return {}

    def offsets_since(self, _topic: str, _time_ms: int, timeout_s: float) -> Mapping[Any, Any]:
        return self.ranges("", timeout_s)

    def read(self, _topic: str, _ranges: Any, _max_bytes: int, timeout_s: float, **_: bool) -> Mapping[Any, Any]:
        return self.ranges("", timeout_s)


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("timeout_s", [1.0, 5.0, 50.0])
def test_the_calls_end_soon_after_the_time_limit(call: Callable[[TopicHistory], Any], timeout_s: float) -> None:
    slow = Slow()
    history = TopicHistoryWithDeadline(cast("Any", slow), lambda: slow.now, timeout_s)
    while not history.is_over():
        before = slow.now
        call(history)
        assert before < slow.now <= before + CALL_TIMEOUT_S
    assert slow.now <= 100 + timeout_s + LAST_CALL_S
    with pytest.raises(BrokerUnavailable, match=f"not found within {timeout_s:g} s"):
        call(history)
