"""The monitor of a topic, of a cluster that does not answer."""

import contextlib

import pytest

from headwater.brokers import topic_monitor
from headwater.brokers.topic_monitor import POLL_INTERVAL_S, TopicMonitor
from headwater.model.access import KafkaAccess
from tests.support.waiting import until


def test_an_outage_goes_on_while_no_poll_has_seen_that_a_request_has_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A request may fail between a poll and a reader of `unreachable_for_s`."""
    monkeypatch.setattr(topic_monitor, "REQUEST_TIMEOUT_S", 0.1)
    now = 100.0
    monitor = TopicMonitor(KafkaAccess(bootstrap_servers="127.0.0.1:1", username="u", password="p"), "t", lambda: now)
    with contextlib.closing(monitor):
        now += POLL_INTERVAL_S + 3
        assert monitor.unreachable_for_s() == 3
        until(monitor._request.done, what="the failure of the first request")
        assert monitor.unreachable_for_s() == 3
        monitor.poll()
        assert monitor.unreachable_for_s() == POLL_INTERVAL_S + 3
