"""Start offsets on a real broker, while records arrive."""

from concurrent.futures import Future
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient

from headwater.brokers import admin_connection
from headwater.brokers.cluster_admin import KafkaClusterAdmin
from tests.support.kafka import WAIT_S, KafkaServer


def test_records_that_arrive_during_a_timestamp_lookup_are_read(
    kafka: KafkaServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = kafka.create_topic(kafka.unique("stream"))
    kafka.produce(topic, [b"old"], timestamp_ms=1_000)

    class Busy(AdminClient):
        """A record arrives after each response."""

        def list_offsets(self, *asked: Any, **options: Any) -> dict[Any, Future[Any]]:  # type: ignore[override]
            answers: dict[Any, Future[Any]] = super().list_offsets(*asked, **options)
            for answer in answers.values():
                answer.result(WAIT_S)
            kafka.produce(topic, [b"new"])
            return answers

    monkeypatch.setattr(admin_connection, "AdminClient", Busy)
    assert KafkaClusterAdmin(kafka.access).commit_start_offsets(
        kafka.unique("group"), topic, "1970-01-01T00:01:00Z"
    ) == {0: 1}
