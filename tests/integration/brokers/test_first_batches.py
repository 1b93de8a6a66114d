"""The broker names the leaders of a new topic before it accepts records for it."""

from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import NewTopic

from headwater.brokers.client_errors import ClientErrors
from headwater.brokers.client_settings import producer_settings
from tests.support.kafka import WAIT_S, KafkaServer

TOPICS = 30
PARTITIONS = 4
VALUES = [b"%d" % number for number in range(5)]


def test_a_batch_that_is_refused_first_is_not_lost(kafka: KafkaServer) -> None:
    """With several requests in flight, topics would lack their first record.

    That happens to about every third of these topics.
    """
    settings = producer_settings(kafka.access, ClientErrors(kafka.access), 0) | {"batch.num.messages": 1}
    producer = Producer(settings | {"topic.metadata.refresh.fast.interval.ms": 1, "retry.backoff.ms": 1})
    with kafka.consumer() as consumer:
        for _ in range(TOPICS):
            topic = kafka.unique("new")
            kafka.admin.create_topics([NewTopic(topic, PARTITIONS, 1)])[topic].result(WAIT_S)
            places = [TopicPartition(topic, partition) for partition in range(PARTITIONS)]
            for place in places:
                for value in VALUES:
                    producer.produce(topic, value, partition=place.partition)
            assert producer.flush(WAIT_S) == 0
            ends = [consumer.get_watermark_offsets(place, WAIT_S)[1] for place in places]
            assert ends == [len(VALUES)] * PARTITIONS, f"{topic} lacks records"
