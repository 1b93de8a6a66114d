"""A worker compresses the records of each topic with the codec of the topic's sink."""

from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import pytest

from headwater.model.flow import DeliveryMode
from headwater.model.sink import Compression
from headwater.model.worker_spec import SinkSpec
from tests.integration.engine.harness import Pipeline
from tests.support.kafka import KafkaServer

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
"""The codecs by their number in the attributes of a record batch."""
BASE_BYTES = 12
"""The base offset and the length of a batch. The length does not include these fields."""
ATTRIBUTES = slice(21, 23)
CODEC_BITS, CONTROL_BIT = 0x07, 0x20
RECORDS = [{"n": number, "pad": "x" * 300} for number in range(400)]


def codecs(kafka: KafkaServer, topic: str) -> set[str]:
    """Return the codecs of the record batches in the broker's log."""
    segments = [segment.read_bytes() for segment in kafka.data_dir.glob(f"kafka/data/{topic}-[0-9]/*.log")]
    return {codec for segment in segments for codec in _codecs(segment)}


def _codecs(segment: bytes) -> Iterator[str]:
    at = 0
    while at < len(segment):
        attributes = int.from_bytes(segment[at:][ATTRIBUTES], "big")
        if not attributes & CONTROL_BIT:
            yield CODECS[attributes & CODEC_BITS]
        at += BASE_BYTES + int.from_bytes(segment[at:][8:BASE_BYTES], "big")


@pytest.mark.parametrize("delivery", ["at_least_once", "exactly_once"])
def test_each_topic_has_the_codec_of_its_sink(kafka: KafkaServer, tmp_path: Path, delivery: DeliveryMode) -> None:
    """The log has what the worker has sent.

    The topics use the producer's codec, which is Kafka's default.
    """
    assert set(CODECS) == set(get_args(Compression))
    pipeline = Pipeline(kafka, tmp_path, delivery=delivery)
    topics = {codec: kafka.create_topic(kafka.unique(f"sink-{codec}"), 4) for codec in (*CODECS, None)}
    sinks = [
        SinkSpec(uid=topic, name=topic, type="kafka", topic=topic, compression=codec) for codec, topic in topics.items()
    ]
    pipeline.spec = pipeline.spec.model_copy(update={"sinks": sinks})
    pipeline.feed(RECORDS)
    with pipeline.worker():
        pipeline.wait_committed(len(RECORDS))
    assert {pipeline.sent(topic) >= len(RECORDS) for topic in topics.values()} == {True}
    assert {codec: codecs(kafka, topic) for codec, topic in topics.items()} == {
        codec: {codec or "lz4"} for codec in topics
    }
